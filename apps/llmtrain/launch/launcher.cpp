// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/launch/launcher.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace llmtrain::app {
namespace {

std::optional<std::int64_t> number_of(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  // Slurm writes "4(x2)" where two nodes have four each.
  const bool is_number = end == digits.data() + digits.size() || *end == '(';
  if (failure != std::errc() || !is_number || value < 0) return std::nullopt;
  return value;
}

// The environment variables of one kind of launcher; the first two are required.
struct Kind {
  const char* name;
  const char* rank;
  const char* ranks;
  const char* ranks_here;
  const char* local_rank;
  bool is_certain = false;
};

// More specific ones first: several launchers also set the general variables.
constexpr std::array<Kind, 5> kinds{{
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", true},
    {"srun (PMIx)", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_LOCALID"},
    {"srun (PMI2)", "PMI_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_LOCALID"},
    {"a PMI launcher", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK"},
}};

}  // namespace

std::optional<Launcher> find_launcher() {
  for (const Kind& kind : kinds) {
    const auto rank = number_of(kind.rank), ranks = number_of(kind.ranks);
    // Variables left over in a shell need not fit together.
    if (!rank || !ranks || *rank >= *ranks) continue;
    const std::int64_t here = std::max<std::int64_t>(1, number_of(kind.ranks_here).value_or(1));
    return Launcher{kind.name, *rank, *ranks, here, number_of(kind.local_rank).value_or(*rank % here), kind.is_certain};
  }
  return std::nullopt;
}

}  // namespace llmtrain::app
