// SPDX-License-Identifier: Apache-2.0
// Runs of steps in pieces: the same values and gradients as whole, and which runs are refused.
#include "core/body/passes/chunking.h"

#include <catch2/catch.hpp>
#include <set>

#include "core/base/error.h"
#include "core/body/body_writer.h"
#include "core/body/families/bart.h"
#include "core/body/families/bert.h"
#include "tests/core/body/body_cases.h"
#include "tests/core/body/chunked_bodies.h"

namespace llmtrain::body::test {
namespace {

constexpr std::int64_t numbers_of_pieces[] = {1, 2, 3, 7};

std::vector<at::Tensor> gradients_for(const Body& body) {
  std::vector<at::Tensor> gradients;
  for (const TensorId id : body.outputs) gradients.push_back(random_tensor(body.shape_of(id)));
  return gradients;
}

void check_equal(const NamedPasses& got, const NamedPasses& expected) {
  REQUIRE(got.values.size() == expected.values.size());
  for (std::size_t i = 0; i < got.values.size(); ++i) CHECK(distance(got.values[i], expected.values[i]) <= 1e-12);
  REQUIRE(got.gradients.size() == expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    INFO("gradient of " << name);
    CHECK(distance(got.gradients.at(name), gradient) <= 1e-12);
  }
}

// The body in which each of the runs is in pieces, one run at a time, against the whole.
void check_runs(const Body& body, const std::vector<StepRun>& runs, const BodyPass& pass = {}) {
  const GivenTensors given(body, fields_of(body));
  const std::vector<at::Tensor> dy = gradients_for(body);
  const NamedPasses whole = passes_of_cut(body, body, given, dy, pass);
  for (const StepRun& run : runs)
    for (const std::int64_t pieces : numbers_of_pieces) {
      INFO("steps " << run.begin << " to " << run.end << " along " << body.axes[run.axis].name << " in " << pieces);
      check_equal(passes_of_cut(body, chunked(body, run, pieces), given, dy, pass), whole);
    }
}

// The longest of the runs along the same axis from the same step.
std::vector<StepRun> longest_runs(const Body& body) {
  std::vector<StepRun> longest;
  for (const StepRun& run : chunkable_runs(body)) {
    if (!longest.empty() && longest.back().begin == run.begin && longest.back().axis == run.axis) longest.pop_back();
    longest.push_back(run);
  }
  return longest;
}

std::string refused(const Body& body, const StepRun& run) { return refusal(body, run).value_or("nothing"); }

}  // namespace

TEST_CASE("a network, a head, attention and convolutions are in pieces what they are whole") {
  const Body feed_forward = feed_forward_body(11, 6, 13), head = head_body(11, 6, 13);
  const Body queries = query_body(11, 7, 2, 3), convolutions = convolutions_body(11);
  CHECK(chunkable_runs(feed_forward).size() > 12);
  for (const Body& body : {feed_forward, head, queries, convolutions}) check_runs(body, chunkable_runs(body));
}

TEST_CASE("features of a network and channels between convolutions are summed in pieces") {
  const Body body = feed_forward_body(11, 6, 13), convolutions = convolutions_body(11);
  // Gate, up, their activation, and the product that sums them.
  CHECK_FALSE(refusal(body, {0, 4, body.axis_named("f")}));
  CHECK(refused(body, {0, 5, body.axis_named("f")}).find("what it sums is there when all") != std::string::npos);
  CHECK(refused(body, {4, 5, body.axis_named("f")}).find("it has no axis f") != std::string::npos);
  CHECK_FALSE(refusal(convolutions, {0, 3, convolutions.axis_named("m")}));
  CHECK(refused(convolutions, {0, 3, convolutions.axis_named("height")}).find("it reads beyond the parts of height") !=
        std::string::npos);
  CHECK(refused(convolutions, {0, 3, convolutions.axis_named("height")}).starts_with("convolution of x [b 2"));
}

TEST_CASE("every family's bodies are in pieces what they are whole") {
  std::set<std::string> cut;
  for (const auto& [name, body] : family_bodies()) {
    INFO(name);
    // One run of each axis: the longest.
    std::map<AxisId, StepRun> of_axis;
    for (const StepRun& run : longest_runs(body))
      if (StepRun& most = of_axis[run.axis]; run.end - run.begin > most.end - most.begin) most = run;
    std::vector<StepRun> runs;
    for (const auto& [axis, run] : of_axis) runs.push_back(run);
    if (!runs.empty()) cut.insert(name);
    check_runs(body, runs);
  }
  CHECK(cut.size() == family_bodies().size());
}

TEST_CASE("the runs that spare most are in pieces what they are whole") {
  for (const auto& [name, body] : family_bodies()) {
    INFO(name);
    const GivenTensors given(body, fields_of(body));
    const std::vector<at::Tensor> dy = gradients_for(body);
    const Body cut = with_least_memory(body, 3);
    check_equal(passes_of_cut(body, cut, given, dy), passes_of_cut(body, body, given, dy));
    constexpr ElementBytes bytes{4, 4};
    CHECK(pass_memory(cut, Keeping::all, bytes).peak <= pass_memory(body, Keeping::all, bytes).peak);
    CHECK(with_least_memory(body, 1) == body);
  }
}

TEST_CASE("pieces of sequences drop what they drop whole, and attention keeps to their documents") {
  BertModel model{.hidden = 12, .heads = 2, .width = 14, .dropout = 0.3, .attention_dropout = 0.2};
  const Body dropping = bert_layer(model, 5, 6);
  check_runs(dropping, {{0, dropping.steps.size(), dropping.axis_named("sequences")}}, {.seed = 3, .first_sample = 10});
  model.attention_dropout = 0;
  const Body body = bert_layer(model, 5, 6);
  const std::vector<kernels::PositionRun> runs{{0, 4}, {4, 2}, {6, 6}, {12, 1}, {13, 5}, {18, 6}, {24, 3}, {27, 3}};
  const AxisId sequences = body.axis_named("sequences"), tokens = body.axis_named("tokens");
  BodyPass pass{.seed = 3, .step = 5, .first_sample = 10, .documents = {{tokens, {.runs = runs}}}};
  check_runs(body, {{0, body.steps.size(), sequences}}, pass);
  const auto dropout = std::ranges::find_if(
      body.steps, [](const Step& step) { return std::holds_alternative<Dropout>(step.primitive); });
  const auto place = static_cast<std::size_t>(dropout - body.steps.begin());
  CHECK(refused(body, {place, place + 1, tokens}).find("what it drops depends on all of tokens") != std::string::npos);
}

TEST_CASE("what cannot be in pieces says which primitive is in the way, and why") {
  const Body body = query_body(11, 7, 2, 3);
  const AxisId t = body.axis_named("t"), s = body.axis_named("s");
  CHECK_FALSE(refusal(body, {0, 4, t}));
  CHECK(refused(body, {0, 4, s}) ==
        "softmax of elementwise_1 [n 2, t 11, s 7] to [n 2, t 11, s 7]: it needs all of s at once");
  CHECK(refused(body, {3, 4, s}) == "nothing");
  CHECK(refused(body, {2, 2, s}) == "there are no such steps");
  const Body cut = chunked(body, {2, 4, t}, 3);
  CHECK(refused(cut, {2, 3, t}).find("it is in pieces already") != std::string::npos);
  CHECK_THROWS_WITH(chunked(body, {0, 4, s}, 3), Catch::Contains("chunks: softmax of elementwise_1"));

  BodyWriter w;
  const AxisId a = w.axis("a", 4), b = w.axis("b", 3);
  const TensorId x = w.input("x", {a, b});
  const TensorId twice = w.scale(x, 2), sum = w.reduce(ReduceKind::sum, twice, {b});
  w.output(w.elementwise(ElementwiseKind::add, {twice, sum}));
  const Body joined = w.take();
  CHECK(refused(joined, {0, 2, a}).find("its result is read behind the run") != std::string::npos);
  CHECK(refused(joined, {0, 3, a}).find("what it sums is there when all pieces are") != std::string::npos);
  CHECK_FALSE(refusal(joined, {0, 3, b}));
}

TEST_CASE("documents keep queries together where a pass says so") {
  const BartModel model{.hidden = 12, .heads = 2, .width = 14, .dropout = 0};
  const Body body = bart_decoder_layer(model, 3, 11, 5);
  const AxisId tokens = body.axis_named("tokens");
  const auto cross = std::ranges::find_if(body.steps, [&](const Step& step) {
    const auto* attention = std::get_if<Attention>(&step.primitive);
    return attention != nullptr && !attention->is_causal;
  });
  const auto place = static_cast<std::size_t>(cross - body.steps.begin());
  CHECK_FALSE(refusal(body, {place, place + 2, tokens}));
  CHECK(
      refusal(body, {place, place + 2, tokens}, {.cuts_queries = false})->find("it keeps to documents along tokens") !=
      std::string::npos);
}

}  // namespace llmtrain::body::test
