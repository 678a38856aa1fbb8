// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/profile/program.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "parallel/plan/profile/named_file.h"
#include "parallel/plan/profile/profile_reader.h"

namespace llmtrain {
namespace {

constexpr ProfileRange ratio_range{0, 1e3};
constexpr ProfileRange copies_range{0, 8};
constexpr ProfileRange adapters_range{0, 1e6};
constexpr ProfileRange blocks_range{0, 1e4};

void visit_traffic(ProfileReader& reader, TrafficFacts& traffic) {
  reader.section("traffic", [&] {
    reader.number("elementwise", traffic.elementwise, ratio_range);
    reader.number("rms_norm", traffic.rms_norm, ratio_range);
    reader.number("rotation", traffic.rotation, ratio_range);
    reader.number("gate", traffic.gate, ratio_range);
    reader.number("adapter_inputs", traffic.adapter_inputs, ratio_range);
    reader.number("adapter_outputs", traffic.adapter_outputs, ratio_range);
    reader.number("softmax_forward", traffic.softmax_forward, ratio_range);
    reader.number("softmax_backward", traffic.softmax_backward, ratio_range);
    reader.number("cross_entropy", traffic.cross_entropy, ratio_range);
    reader.boolean("loss_in_fp32", traffic.loss_in_fp32);
    reader.number("cast", traffic.cast, ratio_range);
    reader.number("optimizer", traffic.optimizer, ratio_range);
    reader.number("gradient_sums", traffic.gradient_sums, ratio_range);
  });
}

void visit_memory(ProfileReader& reader, MemoryFacts& memory) {
  reader.section("memory", [&] {
    reader.boolean("keeps_gathered", memory.keeps_gathered);
    reader.number("blocks_ahead", memory.blocks_ahead, blocks_range);
    reader.boolean("keeps_activated_gate", memory.keeps_activated_gate);
    reader.boolean("reduces_by_block", memory.reduces_by_block);
    reader.boolean("keeps_compute_gradients", memory.keeps_compute_gradients);
    reader.boolean("remakes_elementwise", memory.remakes_elementwise);
    reader.choice("logits", memory.logits, kept_logits_words);
    reader.boolean("narrow_states", memory.narrow_states);
    reader.number("allocator_reserve", memory.allocator_reserve, fraction_or_none_range);
    reader.number("loss_copies", memory.loss_copies, copies_range);
    reader.number("parallel_loss_copies", memory.parallel_loss_copies, copies_range);
  });
}

void visit_serving(ProfileReader& reader, ServingFacts& serving) {
  reader.section("serving", [&] {
    reader.number("products", serving.products, ratio_range);
    reader.number("attention", serving.attention, ratio_range);
    reader.number("movement", serving.movement, ratio_range);
    reader.number("exchanges", serving.exchanges, ratio_range);
    reader.number("widened_products", serving.widened_products, ratio_range);
    reader.number("pass_seconds", serving.pass_seconds, seconds_range);
    reader.number("prefill", serving.prefill, ratio_range);
    reader.number("operator_seconds", serving.operator_seconds, seconds_range);
    reader.number("interruption", serving.interruption, fraction_or_none_range);
    reader.number("waited_prompts", serving.waited_prompts, ratio_range);
    reader.number("waited_tokens", serving.waited_tokens, ratio_range);
    reader.number("request_seconds", serving.request_seconds, seconds_range);
    reader.number("memory", serving.memory, fraction_range);
    reader.number("free_memory", serving.free_memory, fraction_range);
    reader.boolean("reserves_answers", serving.reserves_answers);
  });
}

// This program's passes over memory on CPUs, with which its plans were compared with runs (scripts/check_plan).
Program on_cpu(Program program) {
  TrafficFacts& traffic = program.traffic;
  traffic.elementwise = 0.8;
  traffic.softmax_forward = 0.602;
  traffic.softmax_backward = 2.49;
  traffic.cross_entropy = 4.5;
  traffic.cast = 1.0;
  traffic.optimizer = 0.7;
  return program;
}

// The single list of a program's keys with their ranges.
void visit_program(ProfileReader& reader, Program& program) {
  reader.text("name", program.name);
  reader.text("description", program.description);
  reader.text("based_on", program.based_on);
  reader.section("kernels", [&] {
    reader.choice("rates", program.kernels.rates, kernel_rates_words);
    reader.choice("collectives", program.kernels.collectives, kernel_rates_words);
    reader.number("attention_backward", program.kernels.attention_backward, fraction_range);
    reader.number("speed", program.kernels.speed, fraction_range);
  });
  reader.attention_by_device("attention", program.attention);
  visit_traffic(reader, program.traffic);
  reader.section("overlap", [&] {
    reader.choice("tensor", program.overlap.tensor, tensor_overlap_words);
    reader.number("exposed", program.overlap.exposed, fraction_or_none_range);
    reader.number("sequence_regather", program.overlap.sequence_regather, fraction_or_none_range);
    reader.number("slowdown", program.overlap.slowdown, slowdown_range);
  });
  reader.section("host", [&] {
    reader.number("launch", program.host.launch, ratio_range);
    reader.number("backward", program.host.backward, ratio_range);
    reader.number("blocking_transfer", program.host.blocking_transfer, ratio_range);
    reader.boolean("synchronous", program.host.synchronous);
    reader.boolean("takes_turns", program.host.takes_turns);
    reader.boolean("waits_for_turns", program.host.waits_for_turns);
    reader.number("tensor_seconds", program.host.tensor_seconds, seconds_range);
  });
  reader.section("network", [&] {
    reader.integer("adapters", program.network.adapters, adapters_range);
    reader.number("efficiency", program.network.efficiency, fraction_or_none_range);
  });
  reader.section("data", [&] {
    reader.number("gather_adapters", program.data.gather_adapters, ratio_range);
    reader.number("tensor_messages", program.data.tensor_messages, ratio_range);
    reader.boolean("all_reduces", program.data.all_reduces);
    reader.number("reduced_bytes", program.data.reduced_bytes, copies_range);
  });
  reader.section("fp8", [&] {
    reader.boolean("states", program.fp8.states);
    reader.boolean("agrees_on_scales", program.fp8.agrees_on_scales);
    reader.choice("weight_casts", program.fp8.weight_casts, weight_casts_words);
    reader.boolean("keeps_both_orders", program.fp8.keeps_both_orders);
    reader.number("scale_bytes", program.fp8.scale_bytes, fraction_or_none_range);
  });
  reader.section("experts", [&] {
    reader.boolean("sends_tokens_once", program.experts.sends_tokens_once);
    reader.boolean("launches_each", program.experts.launches_each);
  });
  visit_memory(reader, program.memory);
  reader.section("stages", [&] {
    reader.boolean("even", program.stages.even);
    reader.boolean("sends_copies", program.stages.sends_copies);
  });
  visit_serving(reader, program.serving);
  reader.sources("sources", program.sources);
}

// The program of a file, which has what it does not state from the one that it is based on, and so on, the last one
// from `base`. `below`: the files that lead here.
Program read_program(const std::filesystem::path& file, const std::filesystem::path& folder, const Program& base,
                     std::vector<std::filesystem::path> below) {
  const std::string text = read_file(file);
  Program found = parse_program(text, file.string(), base);
  if (found.based_on.empty()) return found;
  below.push_back(file.lexically_normal());
  const std::filesystem::path parent = named_file({"/based_on", "program"}, found.based_on, folder);
  if (std::ranges::count(below, parent.lexically_normal()) > 0)
    throw Error(ExitCode::bad_recipe, file.string() + ": /based_on: \"" + found.based_on +
                                          "\" is based on this one; begin with a program that is based on none");
  return parse_program(text, file.string(), read_program(parent, folder, base, std::move(below)));
}

}  // namespace

std::optional<AttentionProfile> Program::attention_on(const std::string& profile) const {
  const auto found = attention.find(profile.substr(0, profile.find('-')));
  if (found == attention.end()) return std::nullopt;
  return found->second;
}

Program parse_program(std::string_view text, const std::string& file, Program base) {
  const Json root = parse_profile_text(text, file);
  ProfileReader reader(root, file, "a program", ProfileReader::Keys::optional);
  visit_program(reader, base);
  reader.require_sources();
  reader.finish();
  return base;
}

Program load_program(const std::string& program, const std::filesystem::path& folder, DeviceKind device,
                     const Program& base) {
  // On a GPU the default's facts are the header's without its file, so that a run starts where only the profiles were
  // copied.
  const bool has_file = device == DeviceKind::cuda && std::filesystem::exists(folder / (program + ".json"));
  if (program == Program{}.name && !has_file) return device == DeviceKind::cuda ? base : on_cpu(base);
  return read_program(named_file({"/cluster/program", "program"}, program, folder), folder, base, {});
}

}  // namespace llmtrain
