// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/resized_weights.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>

#include "tests/core/checkpoint/huggingface_fixture.h"

namespace llmtrain {
namespace {

using test::check_error;
using test::gpt2_model;
using test::llama_model;
using test::SavedModel;

ModelRecipe with_tokens(ModelRecipe model, std::int64_t tokens) {
  model.vocab_size = tokens;
  return model;
}

// A saved model of 11 tokens counts its elements in the order of its parameters, 8 in a row: the mean of the rows is
// the sixth of them.
TEST_CASE("Rows of new tokens begin as the mean of the others, and all else as it was") {
  for (const ModelRecipe& model : {gpt2_model(), llama_model()}) {
    const SavedModel saved(model);
    const NamedWeights before = saved.load();
    const Graph graph = Graph::build(with_tokens(model, 14));
    const auto weights = open_huggingface(saved.path(), graph);
    int resized = 0;
    for (const auto& [name, values] : test::read_all(*weights, graph)) {
      INFO(name);
      const at::Tensor& old = before.at(name);
      if (values.sizes() == old.sizes()) {
        CHECK(at::equal(values, old));
        continue;
      }
      ++resized;
      REQUIRE(values.sizes() == at::IntArrayRef{14, 8});
      CHECK(at::equal(values.narrow(0, 0, 11), old));
      for (std::int64_t row = 11; row < 14; ++row) CHECK(at::equal(values[row], old[5]));
    }
    CHECK(resized == (model.tie_embeddings ? 1 : 2));
  }
}

TEST_CASE("Whatever part of new rows is read has the same bits") {
  const SavedModel saved(llama_model());
  saved.change_tensors([](auto& tensors) {
    // Not to be averaged without rounding.
    for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
      static std::vector<float> values(88);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.0F / static_cast<float>(i + 3);
      test::named(tensors, name).data = values.data();
    }
  });
  const Graph graph = Graph::build(with_tokens(llama_model(), 14));
  const Parameter& head = graph.parameters.back();
  REQUIRE(head.name == "head.weight");
  const at::Tensor whole = open_huggingface(saved.path(), graph)->read(head, whole_box(head));
  for (std::int64_t row = 0; row < 14; ++row)
    for (std::int64_t column = 0; column < 8; ++column)
      for (const auto& shape : {std::vector<std::int64_t>{1, 1}, {14 - row, 8 - column}, {1, 8 - column}}) {
        const auto again = open_huggingface(saved.path(), graph);
        const at::Tensor part = whole.narrow(0, row, shape[0]).narrow(1, column, shape[1]);
        CHECK(at::equal(again->read(head, {{row, column}, shape}), part));
      }
  // In fp64, as a sum of fp32 would not be.
  const at::Tensor mean = whole.narrow(0, 0, 11).to(at::kDouble).mean({0});
  CHECK(at::equal(whole[13], mean.to(at::kFloat)));
}

TEST_CASE("Rows of frozen parameters are not added") {
  const SavedModel saved(llama_model());
  ModelRecipe model = with_tokens(llama_model(), 14);
  const auto refusal = [&](const Graph& graph, const test::Strings& parts) {
    check_error(ExitCode::bad_recipe, parts, [&] { open_huggingface(saved.path(), graph); });
  };
  refusal(Graph::build(model, {}, {"embedding.*"}),
          {"/model/vocab_size: is 14, but 11 in " + saved.path().string() +
           "/config.json, and the 3 new rows of "
           "embedding.token.weight would stay as they begin, since it is frozen; take it from training.freeze"});
  model.lora = LoraRecipe{};
  const test::Strings advice{"list \"embed_tokens\" and \"lm_head\" in model.lora.modules_to_save"};
  refusal(Graph::build(model), advice);
  model.lora->modules_to_save = {"embed_tokens"};
  refusal(Graph::build(model), {"the 3 new rows of head.weight"});
  model.lora->modules_to_save = {"embed_tokens", "lm_head"};
  CHECK_NOTHROW(open_huggingface(saved.path(), Graph::build(model)));
  // Without new tokens there is nothing to train.
  model.vocab_size = 11;
  model.lora->modules_to_save.clear();
  CHECK_NOTHROW(open_huggingface(saved.path(), Graph::build(model)));
}

TEST_CASE("A smaller vocabulary is refused") {
  const SavedModel saved(gpt2_model());
  check_error(ExitCode::bad_recipe, {"/model/vocab_size: is 10 in the recipe and 11 in ", "must be the same or larger"},
              [&] { open_huggingface(saved.path(), Graph::build(with_tokens(gpt2_model(), 10))); });
}

}  // namespace
}  // namespace llmtrain
