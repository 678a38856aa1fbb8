// SPDX-License-Identifier: Apache-2.0
#include "core/body/passes/chunking.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <variant>

#include "core/base/error.h"
#include "core/body/passes/rewriting.h"
#include "core/body/step_shape.h"

namespace llmtrain::body {
namespace {

// The type does not count in a choice that all must make alike.
constexpr ElementBytes any_type{4, 4};

bool draws(const Primitive& primitive) {
  const auto* dropout = std::get_if<Dropout>(&primitive);
  const auto* attention = std::get_if<Attention>(&primitive);
  return (dropout != nullptr && dropout->probability > 0) || (attention != nullptr && attention->dropout > 0);
}

std::string in_the_way(const Body& body, const Step& step, const std::string& reason) {
  return StepShape(body, step).text() + ": " + reason;
}

// Why a step cannot take parts of the axis.
std::optional<std::string> step_refusal(const Body& body, const Step& step, AxisId axis, const ChunkingRules& rules) {
  const std::string& name = body.axes[axis].name;
  if (std::holds_alternative<Chunked>(step.primitive)) return in_the_way(body, step, "it is in pieces already");
  if (!StepShape(body, step).has(axis)) return in_the_way(body, step, "it has no axis " + name);
  if (draws(step.primitive) && body.tensors[step.inputs[0]].axes.front() != axis)
    return in_the_way(body, step, "what it drops depends on all of " + name);
  const auto* attention = std::get_if<Attention>(&step.primitive);
  if (attention != nullptr && !rules.cuts_queries && body.tensors[step.inputs[0]].axes[1] == axis)
    return in_the_way(body, step, "it keeps to documents along " + name);
  switch (axis_use(body, step, axis)) {
    case AxisUse::independent:
      if (body.tensors[step.output].has(axis)) return std::nullopt;
      return in_the_way(body, step, "its result has no axis " + name);
    case AxisUse::summed:
      return std::nullopt;
    case AxisUse::whole:
      return in_the_way(body, step, "it needs all of " + name + " at once");
    case AxisUse::window:
      return in_the_way(body, step, "it reads beyond the parts of " + name);
  }
  return std::nullopt;
}

// By tensor, one past the last step that reads it; of outputs one more than there are steps.
std::vector<std::size_t> read_until(const Body& body) {
  std::vector<std::size_t> until(body.tensors.size());
  for (std::size_t i = 0; i < body.steps.size(); ++i)
    for (const TensorId input : body.steps[i].inputs) until[input] = i + 1;
  for (const TensorId output : body.outputs) until[output] = body.steps.size() + 1;
  return until;
}

// The tensors that a run reads and does not make, in the order in which it reads them.
std::vector<TensorId> entering(const Body& body, const StepRun& run) {
  std::vector<TensorId> read, made;
  const auto has = [](const std::vector<TensorId>& all, TensorId id) {
    return std::ranges::find(all, id) != all.end();
  };
  for (std::size_t i = run.begin; i < run.end; ++i) {
    for (const TensorId input : body.steps[i].inputs)
      if (!has(read, input) && !has(made, input)) read.push_back(input);
    made.push_back(body.steps[i].output);
  }
  return read;
}

Body inner_body(const Body& body, const StepRun& run, const std::vector<TensorId>& operands) {
  Body inner{.axes = body.axes, .tensors = {}, .steps = {}, .outputs = {}};
  std::map<TensorId, TensorId> place;
  for (const TensorId id : operands) {
    place[id] = inner.tensors.size();
    BodyTensor tensor = body.tensors[id];
    if (tensor.role == BodyTensor::Role::made)
      tensor.role = tensor.has_gradient ? BodyTensor::Role::input : BodyTensor::Role::field;
    inner.tensors.push_back(std::move(tensor));
  }
  for (std::size_t i = run.begin; i < run.end; ++i) {
    Step step = body.steps[i];
    for (TensorId& input : step.inputs) input = place.at(input);
    place[step.output] = inner.tensors.size();
    inner.tensors.push_back(body.tensors[step.output]);
    step.output = place.at(step.output);
    inner.steps.push_back(std::move(step));
  }
  inner.outputs = {inner.steps.back().output};
  return inner;
}

double flops_again(const Body& body, const StepRun& run) {
  double flops = 0;
  for (std::size_t i = run.begin; i < run.end; ++i) flops += work(body, body.steps[i]).forward_flops;
  return flops;
}

// The body with the run in pieces that needs least, and what it needs; none where no run spares anything.
struct Least {
  Body body;
  std::int64_t peak = 0;
};
std::optional<Least> least_of(const Body& body, std::int64_t pieces, std::int64_t peak, const ChunkingRules& rules) {
  std::optional<Least> best;
  std::tuple<std::int64_t, double> least{peak, -1};
  for (const StepRun& run : chunkable_runs(body, rules)) {
    if (body.axes[run.axis].extent < 2) continue;
    Body cut = chunked(body, run, pieces, rules);
    const std::tuple<std::int64_t, double> needed{pass_memory(cut, Keeping::all, any_type).peak,
                                                  flops_again(body, run)};
    if (needed >= least) continue;
    least = needed;
    best = Least{std::move(cut), std::get<0>(needed)};
  }
  return best;
}

// Why the step at the peak is in the way: along each of its axes.
std::string peak_text(const Body& body, const Step& step, const ChunkingRules& rules) {
  const StepShape shape(body, step);
  std::string text = shape.text();
  for (AxisId axis = 0; axis < body.axes.size(); ++axis) {
    if (!shape.has(axis)) continue;
    const std::optional<std::string> reason = step_refusal(body, step, axis, rules);
    if (reason) text += "; " + reason->substr(reason->rfind(": ") + 2);
  }
  return text;
}

}  // namespace

std::optional<std::string> refusal(const Body& body, const StepRun& run, const ChunkingRules& rules) {
  if (run.begin >= run.end || run.end > body.steps.size()) return "there are no such steps";
  const std::vector<std::size_t> until = read_until(body);
  for (std::size_t i = run.begin; i < run.end; ++i) {
    const Step& step = body.steps[i];
    if (std::optional<std::string> reason = step_refusal(body, step, run.axis, rules)) return reason;
    if (i + 1 == run.end) continue;
    if (until[step.output] > run.end)
      return in_the_way(body, step, "its result is read behind the run, which makes one alone");
    if (!body.tensors[step.output].has(run.axis))
      return in_the_way(body, step, "what it sums is there when all pieces are, and the run reads it");
  }
  return std::nullopt;
}

Body chunked(const Body& body, const StepRun& run, std::int64_t pieces, const ChunkingRules& rules) {
  if (const std::optional<std::string> reason = refusal(body, run, rules))
    throw Error(ExitCode::internal_error, "chunks: " + *reason);
  std::vector<TensorId> operands = entering(body, run);
  Body cut = body;
  const Chunked primitive{std::make_shared<const Body>(inner_body(body, run, operands)), run.axis, pieces};
  const auto at = [&](std::size_t step) { return cut.steps.begin() + static_cast<std::ptrdiff_t>(step); };
  const TensorId output = body.steps[run.end - 1].output;
  cut.steps.erase(at(run.begin), at(run.end));
  cut.steps.insert(at(run.begin), Step{primitive, std::move(operands), output});
  cut = in_order_of_steps(std::move(cut));
  check(cut, cut.steps[run.begin]);
  return cut;
}

std::vector<StepRun> chunkable_runs(const Body& body, const ChunkingRules& rules) {
  std::vector<StepRun> runs;
  const std::vector<std::size_t> until = read_until(body);
  for (AxisId axis = 0; axis < body.axes.size(); ++axis) {
    std::vector<bool> allows;
    for (const Step& step : body.steps) allows.push_back(!step_refusal(body, step, axis, rules));
    for (std::size_t begin = 0; begin < body.steps.size(); ++begin) {
      std::size_t reaches = 0;  // where the results are read that the run has made so far
      for (std::size_t end = begin + 1; end <= body.steps.size() && allows[end - 1]; ++end) {
        if (reaches <= end) runs.push_back({begin, end, axis});
        const TensorId output = body.steps[end - 1].output;
        if (!body.tensors[output].has(axis)) break;
        reaches = std::max(reaches, until[output]);
      }
    }
  }
  return runs;
}

Body with_least_memory(const Body& body, std::int64_t pieces, const ChunkingRules& rules) {
  Body cut = body;
  if (pieces == 1) return cut;
  std::int64_t peak = pass_memory(cut, Keeping::all, any_type).peak;
  while (std::optional<Least> less = least_of(cut, pieces, peak, rules)) {
    cut = std::move(less->body);
    peak = less->peak;
  }
  return cut;
}

ChunkedWithin chunked_within(const Body& body, std::int64_t limit, const ElementBytes& bytes,
                             const ChunkingRules& rules) {
  std::int64_t most = 1;
  for (const Axis& axis : body.axes) most = std::max(most, axis.extent);
  Body least = body;
  std::int64_t least_peak = pass_memory(body, Keeping::all, bytes).peak;
  for (std::int64_t pieces = 1; pieces <= most; ++pieces) {
    Body cut = with_least_memory(body, pieces, rules);
    const std::int64_t peak = pass_memory(cut, Keeping::all, bytes).peak;
    if (peak <= limit) return {std::move(cut), pieces, peak};
    if (peak >= least_peak) continue;
    least = std::move(cut);
    least_peak = peak;
  }
  const PassMemory memory = pass_memory(least, Keeping::all, bytes);
  const Step& step = least.steps[memory.peak_step(least.steps.size())];
  throw Error(ExitCode::bad_recipe, "chunks: " + std::to_string(limit) +
                                        " bytes are less than the least of any number "
                                        "of pieces, " +
                                        std::to_string(least_peak) + ", which " + peak_text(least, step, rules) +
                                        "; use a higher limit, or fewer tokens");
}

}  // namespace llmtrain::body
