// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/inference/inference_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"

namespace llmtrain {
namespace {

// The most devices that "auto" tries.
constexpr std::int64_t most_tried_devices = 4096;

Graph served_graph(const Recipe& recipe) {
  if (is_encoder(recipe.model.architecture))
    throw Error(ExitCode::bad_recipe, "model.architecture: an encoder generates no text; plan a decoder's inference");
  if (is_image_classifier(recipe.model.architecture))
    throw Error(ExitCode::bad_recipe,
                "model.architecture: an image classifier generates no text; plan a decoder's inference");
  return Graph::build(recipe.model, recipe.precision.high_precision);
}

// What cannot be of a request, whatever the devices.
void check_request(const ModelRecipe& model, const ServingRequest& request) {
  const auto refuse = [](const std::string& why) { throw Error(ExitCode::bad_recipe, "inference: " + why); };
  if (request.prompt + request.generated > model.max_sequence_length)
    refuse(
        fmt::format("prompt {} and generated {} are more tokens than model.max_sequence_length, {}; ask for fewer, or "
                    "--set model.max_sequence_length={}",
                    request.prompt, request.generated, model.max_sequence_length, request.prompt + request.generated));
  if (request.experts != ExpertLayout::automatic && !model.moe)
    refuse(fmt::format("experts \"{}\": the model has no experts (model.moe); leave it \"auto\"",
                       word_of(request.experts)));
  if (request.wait_passes > 0 && request.batching == Batching::whole)
    refuse(
        fmt::format("wait_passes {}: with batching \"whole\" all prompts have one pass; use batching=continuous, or "
                    "leave it out",
                    request.wait_passes));
  const std::string_view part = model.moe ? "model.moe" : model.latent_attention ? "model.latent_attention" : "";
  for (const PassLayout& pass : {request.prefill, request.decode})
    if (!part.empty() && pass.weights != WeightLayout::automatic && pass.weights != WeightLayout::stationary_1d)
      refuse(fmt::format("weights \"{}\": matrices of {} are split by features alone; use \"1d\" or \"auto\"",
                         word_of(pass.weights), part));
  const auto& [x, y, z] = request.axes;
  const std::int64_t product = x.value_or(1) * y.value_or(1) * z.value_or(1);
  if ((x || y || z) && request.devices && *request.devices % product != 0)
    refuse(fmt::format("x, y and z: {} devices are no divisor of devices, {}; leave one of them \"auto\"", product,
                       *request.devices));
}

// Parameters that a token multiplies, those of further predictions left out.
double used_parameters(const Graph& graph) {
  double unused = 0;
  for (const Block& block : graph.blocks)
    if (!is_served(block))
      for (const std::size_t index : block.parameters) unused += as_real(graph.parameters[index].elements());
  return as_real(graph.active_parameter_count()) - unused;
}

// The passes of single tokens for which prompts are held back in the mean, where so many of them come in each: the
// first one waits for all of `most`, and who comes meanwhile for half of them.
double held_back_passes(double most, double prompts) {
  const double others = most * prompts;
  return most * (1 + others / 2) / (1 + others);
}

// The weights that one pass reads, and its cache, over all devices.
double least_bytes(const Graph& graph, const PassPricer& pricer, const ServedPass& pass) {
  double bytes = 0;
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    if (!is_served(graph.blocks[block]) || graph.blocks[block].layer() == nullptr) continue;
    for (const ServedProduct& each : block_work(graph, block, pricer.compute(), {}, pass).products)
      bytes += each.product.batch * each.product.inner * each.product.columns *
               (each.of_layer ? pricer.weight_bytes() : pricer.element_bytes());
    if (!pass.is_prefill()) bytes += pricer.cached_bytes(cached_numbers(layer_shape(graph, block), {}, pass));
  }
  return bytes;
}

}  // namespace

ServedPass prefill_pass(const ServingRequest& request) {
  return {request.batching == Batching::continuous ? 1 : request.batch, request.prompt, request.prompt};
}

ServedPass decode_pass(const ServingRequest& request, std::int64_t sequences) {
  return {sequences, 1, request.prompt + (request.generated + 1) / 2};
}

ServedPass last_pass(const ServingRequest& request) { return {request.batch, 1, request.prompt + request.generated}; }

InferencePlanner::InferencePlanner(const Recipe& recipe, const ClusterProfile& profile)
    : recipe_(recipe),
      profile_(profile),
      devices_per_node_(devices_per_node(recipe, profile)),
      graph_(served_graph(recipe)) {}

PassPricer InferencePlanner::pricer_of(const ServingRequest& request) const {
  return {graph_, profile_, recipe_.precision, request, devices_per_node_};
}

PlannedPass InferencePlanner::planned_pass(const PassPricer& pricer, const DeviceSplit& split, const ServedPass& pass,
                                           const std::optional<WeightReads>& reads) const {
  PlannedPass planned{split, pass, pricer.price(split, pass)};
  if (reads) planned.price.weight_seconds = std::max(0.0, reads->seconds(pass) - planned.price.seconds());
  const double devices = as_real(split.devices()), tokens = pass.all_tokens();
  const double least_seconds = 2 * used_parameters(graph_) * tokens / (devices * pricer.peak_flops());
  planned.bound_seconds =
      std::max(least_seconds, least_bytes(graph_, pricer, pass) / (devices * profile_.device.memory_bandwidth));
  planned.mfu = least_seconds / planned.price.seconds();
  planned.device_seconds_per_token = devices * planned.price.seconds() / tokens;
  return planned;
}

// Requests of one length take the place of each other, so that as many run at any time.
std::int64_t InferencePlanner::running_sequences(const InferencePlan& plan, const ServingFacts& facts) const {
  const ServingRequest& request = plan.request;
  if (request.batching == Batching::whole || plan.device_memory_bytes == 0) return request.batch;
  const ServedMemory& memory = plan.memory;
  const double free = (facts.memory * plan.device_memory_bytes - memory.weights - memory.working) * facts.free_memory;
  const double longest = as_real(request.prompt + request.generated);
  const double tokens = facts.reserves_answers ? longest : as_real(request.prompt) + as_real(request.generated) / 2;
  const double of_one = memory.cache / as_real(request.batch) * tokens / longest;
  // A model that has no room for one sequence cannot be served so, whatever waits.
  if (free < of_one || free >= of_one * as_real(request.batch)) return request.batch;
  return static_cast<std::int64_t>(free / of_one);
}

InferencePlan InferencePlanner::joined(const PassPricer& pricer, const ServingRequest& request,
                                       const PlannedPass& prefill, const PlannedPass& decode,
                                       const std::optional<WeightReads>& reads) const {
  InferencePlan plan;
  plan.name = recipe_.name;
  plan.profile = profile_.name;
  plan.program = profile_.program.name;
  plan.request = request;
  plan.devices = decode.split.devices();
  plan.request.devices = plan.devices;
  plan.parameters = graph_.parameter_count();
  plan.active_parameters = graph_.active_parameter_count();
  plan.prefill = prefill;
  plan.decode = decode;
  plan.memory = served_memory(graph_, pricer, prefill.split, prefill.pass, decode.split, last_pass(request));
  plan.reads = reads;
  if (reads) plan.memory.weights = as_real(reads->weights.memory_bytes());
  plan.device_memory_bytes = profile_.device.memory_bytes;
  plan.fits = plan.device_memory_bytes == 0 || plan.memory.sum() <= plan.device_memory_bytes;
  plan.running = running_sequences(plan, pricer.facts());
  if (plan.running < request.batch)
    plan.decode = planned_pass(pricer, decode.split, decode_pass(request, plan.running), reads);
  const double prompt = prefill.price.seconds(), token = plan.decode.price.seconds();
  const double generated = as_real(request.generated), batch = as_real(request.batch), running = as_real(plan.running);
  plan.first_token_seconds = pricer.facts().request_seconds + prompt + (reads ? reads->first_seconds() : 0);
  plan.per_token_seconds = token;
  if (request.batching == Batching::continuous && running > 1) {
    // A prompt's pass interrupts all answers, each of which meets one for every request that ends while it grows. What
    // the host takes beyond the device they do not wait for: it launches their tokens meanwhile.
    plan.per_token_seconds +=
        pricer.facts().interruption * (running - 1) * (prompt - prefill.price.host_seconds) / generated;
    plan.first_token_seconds +=
        pricer.facts().waited_prompts * (running - 1) * prompt + pricer.facts().waited_tokens * plan.per_token_seconds;
    plan.first_token_seconds +=
        held_back_passes(as_real(request.wait_passes), running / generated) * plan.per_token_seconds;
  }
  // The first token is the prompt's pass's own.
  const double answer_seconds = (generated - 1) * plan.per_token_seconds;
  // The requests that do not run wait for as many of those that do, of which each leaves its place after its time
  // (Little's law).
  plan.first_token_seconds += (batch - running) / running * (plan.first_token_seconds + answer_seconds);
  plan.request_seconds = plan.first_token_seconds + answer_seconds;
  plan.tokens_per_second = batch * generated / plan.request_seconds;
  plan.device_seconds_per_token = as_real(plan.devices) / plan.tokens_per_second;
  return plan;
}

std::vector<InferencePlan> InferencePlanner::plans_on(const ServingRequest& request, std::int64_t devices,
                                                      std::string& refused) const {
  const OpenSplits prompts =
      open_splits(recipe_.model, request, request.prefill, devices, prefill_pass(request).sequences);
  const OpenSplits tokens = open_splits(recipe_.model, request, request.decode, devices, request.batch);
  const PassPricer pricer = pricer_of(request);
  if (request.weights_from != WeightsPlace::memory && devices > 1) {
    refused =
        fmt::format("inference: weights_from \"{}\": one device alone reads its weights from there; use devices=1",
                    word_of(request.weights_from));
    return {};
  }
  const std::optional<WeightReads> reads = weight_reads(recipe_, profile_, request);
  std::vector<PlannedPass> prefills;
  for (const DeviceSplit& split : prompts.splits)
    prefills.push_back(planned_pass(pricer, split, prefill_pass(request), reads));
  std::vector<InferencePlan> plans;
  for (const DeviceSplit& split : tokens.splits) {
    const PlannedPass* fastest = nullptr;
    for (const PlannedPass& each : prefills)
      if (each.split.x == split.x && each.split.experts == split.experts &&
          (fastest == nullptr || each.price.seconds() < fastest->price.seconds()))
        fastest = &each;
    if (fastest == nullptr) continue;
    plans.push_back(joined(pricer, request, *fastest,
                           planned_pass(pricer, split, decode_pass(request, request.batch), reads), reads));
  }
  if (!plans.empty()) return plans;
  if (prompts.splits.empty())
    refused = "inference: prefill: " + prompts.refused;
  else if (tokens.splits.empty())
    refused = "inference: decode: " + tokens.refused;
  else
    refused = "inference: prefill and decode cut the weights differently; both must have one x (\"1d\" has 1)";
  return plans;
}

bool is_better(const InferencePlan& plan, const InferencePlan& other) {
  if (plan.fits != other.fits) return plan.fits;
  return plan.request_seconds < other.request_seconds;
}

InferencePlan InferencePlanner::plan(const ServingRequest& request) const {
  check_request(recipe_.model, request);
  std::optional<InferencePlan> best;
  std::string refused, first_refused;
  for (std::int64_t devices = request.devices.value_or(1); devices <= most_tried_devices; devices *= 2) {
    for (InferencePlan& plan : plans_on(request, devices, refused))
      if (!best || is_better(plan, *best)) best = std::move(plan);
    if (first_refused.empty()) first_refused = refused;
    if (request.devices || (best && best->fits) || request.weights_from != WeightsPlace::memory) break;
  }
  if (!best) throw Error(ExitCode::bad_recipe, first_refused);
  return *std::move(best);
}

}  // namespace llmtrain
