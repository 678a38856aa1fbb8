// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/json_file.h"
#include "core/recipe/rules/rules.h"
#include "core/recipe/slurm/sbatch_option.h"

namespace llmtrain {
namespace {

constexpr std::string_view line_rule =
    "stands in a line #SBATCH, so it must have no quote, backslash, # or control character";

Verdict must_fit_line(const std::string& text) {
  if (fits_sbatch_line(text)) return {};
  return Refusal{quoted_text(text) + " would break out of its line", std::string(line_rule)};
}

// A value of one option: sbatch would take what follows a space as the next one.
template <std::string SlurmRecipe::*member>
Verdict check_word(const Recipe& recipe, const Known&) {
  const std::string& text = recipe.launch.slurm.*member;
  if (text.find(' ') != std::string::npos)
    return Refusal{quoted_text(text) + " has a space", "must be one word", "\"\""};
  return must_fit_line(text);
}

Verdict check_log(const Recipe& recipe, const Known&) { return must_fit_line(recipe.launch.slurm.log); }

Verdict check_memory_of_job(const Recipe& recipe, const Known&) {
  std::string_view text = recipe.launch.slurm.memory;
  if (text.empty()) return {};
  if (std::string_view("KMGT").find(text.back()) != std::string_view::npos) text.remove_suffix(1);
  const auto is_digit = [](unsigned char letter) { return std::isdigit(letter) != 0; };
  if (!text.empty() && std::ranges::all_of(text, is_digit)) return {};
  return Refusal{quoted_text(recipe.launch.slurm.memory) + " is no amount of memory",
                 "must be a whole number with K, M, G or T after it, or in megabytes"};
}

Verdict check_gpu_type(const Recipe& recipe, const Known& known) {
  if (recipe.launch.slurm.gpu_type.empty()) return {};
  if (recipe.launch.slurm.gpus == GpuRequest::none || recipe.cluster.device != DeviceKind::cuda)
    return Refusal{quoted_text(recipe.launch.slurm.gpu_type) + " is asked for by a job that asks for no GPUs",
                   "needs cluster.device \"cuda\" and launch.slurm.gpus \"gpus-per-node\" or \"gres\"", "\"\""};
  return check_word<&SlurmRecipe::gpu_type>(recipe, known);
}

// An option that the script sets, and what sets it.
struct OwnOption {
  std::string_view name, set_by;
};

constexpr std::array own_sbatch_options{OwnOption{"account", "launch.slurm.account"},
                                        OwnOption{"array", "llmtrain sweep --slurm"},
                                        OwnOption{"chdir", "the folder in which llmtrain slurm is called"},
                                        OwnOption{"cpus-per-task", "launch.slurm.cpus_per_task"},
                                        OwnOption{"gpus-per-node", "launch.slurm.gpus and cluster.devices_per_node"},
                                        OwnOption{"gpus-per-socket", "launch.slurm.gpus and cluster.devices_per_node"},
                                        OwnOption{"gpus-per-task", "launch.slurm.gpus and cluster.devices_per_node"},
                                        OwnOption{"job-name", "name"},
                                        OwnOption{"mem", "launch.slurm.memory"},
                                        OwnOption{"no-requeue", "the script itself, which continues the run"},
                                        OwnOption{"nodes", "cluster.nodes"},
                                        OwnOption{"ntasks", "launch.ranks"},
                                        OwnOption{"ntasks-per-core", "launch.ranks and cluster.nodes"},
                                        OwnOption{"ntasks-per-gpu", "launch.ranks and cluster.nodes"},
                                        OwnOption{"ntasks-per-node", "launch.ranks and cluster.nodes"},
                                        OwnOption{"ntasks-per-socket", "launch.ranks and cluster.nodes"},
                                        OwnOption{"open-mode", "the script itself, which continues the run"},
                                        OwnOption{"output", "launch.slurm.log"},
                                        OwnOption{"partition", "launch.slurm.partition"},
                                        OwnOption{"qos", "launch.slurm.qos"},
                                        OwnOption{"requeue", "the script itself, which continues the run"},
                                        OwnOption{"signal", "the script itself, which stops the run"},
                                        OwnOption{"tasks-per-node", "launch.ranks and cluster.nodes"},
                                        OwnOption{"time", "launch.time_limit_seconds"},
                                        OwnOption{"wrap", "the script itself"}};

// Also of an abbreviation, which sbatch takes: "--parti=long".
std::string_view setter_of(std::string_view name) {
  const auto own =
      std::ranges::find_if(own_sbatch_options, [&](const OwnOption& each) { return each.name.starts_with(name); });
  return own == own_sbatch_options.end() ? std::string_view() : own->set_by;
}

// The key whose value the option contradicts; empty where there is none.
std::string_view contradicted(const SbatchOption& option, const Recipe& recipe) {
  const SlurmRecipe& slurm = recipe.launch.slurm;
  const bool asks_for_gpus = recipe.cluster.device == DeviceKind::cuda && slurm.gpus != GpuRequest::none;
  if (option.name.starts_with("mem-per-") && !slurm.memory.empty()) return "launch.slurm.memory";
  if (option.name == "cpus-per-gpu" && slurm.cpus_per_task > 0) return "launch.slurm.cpus_per_task";
  if (option.name == "exclusive" && slurm.exclusive) return "launch.slurm.exclusive";
  if (option.name == "gres" && slurm.gpus == GpuRequest::gres && asks_for_gpus) return "launch.slurm.gpus";
  if (option.name == "gres" && asks_for_gpus && option.value && option.value->find("gpu") != std::string::npos)
    return "launch.slurm.gpus";
  return "";
}

Verdict check_sbatch_option(const std::string& text, const Recipe& recipe) {
  if (auto refusal = must_fit_line(text)) return refusal;
  const auto option = sbatch_option(text);
  if (!option)
    return Refusal{quoted_text(text) + " is no long option of sbatch",
                   "must be --name or --name=value, as in --constraint=h100"};
  if (const auto setter = setter_of(option->name); !setter.empty())
    return Refusal{fmt::format("--{} is set by {}", option->name, setter),
                   "must be an option that the script leaves open"};
  if (const auto key = contradicted(*option, recipe); !key.empty())
    return Refusal{fmt::format("--{} contradicts {}", option->name, key), "use one of the two"};
  return {};
}

Verdict check_sbatch(const Recipe& recipe, const Known&) {
  std::vector<std::string> names;
  for (const std::string& text : recipe.launch.slurm.sbatch) {
    if (auto refusal = check_sbatch_option(text, recipe)) return refusal;
    const std::string name = sbatch_option(text)->name;
    if (std::ranges::find(names, name) != names.end())
      return Refusal{"--" + name + " is there twice", "must have each option once"};
    names.push_back(name);
  }
  return {};
}

}  // namespace

std::vector<Rule> slurm_rules() {
  return {{"/launch/slurm/partition", {}, check_word<&SlurmRecipe::partition>},
          {"/launch/slurm/account", {}, check_word<&SlurmRecipe::account>},
          {"/launch/slurm/qos", {}, check_word<&SlurmRecipe::qos>},
          {"/launch/slurm/memory", {}, check_memory_of_job},
          {"/launch/slurm/gpu_type", {"/launch/slurm/gpus", "/cluster/device"}, check_gpu_type},
          {"/launch/slurm/log", {}, check_log},
          {"/launch/slurm/sbatch",
           {"/launch/slurm/memory", "/launch/slurm/cpus_per_task", "/launch/slurm/exclusive", "/launch/slurm/gpus",
            "/cluster/device"},
           check_sbatch}};
}

}  // namespace llmtrain
