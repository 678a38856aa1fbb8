// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llmtrain {

// What starts the ranks within a Slurm job.
enum class JobLauncher { srun, mpirun };

// By which option of sbatch a job asks for GPUs, where it trains on them.
enum class GpuRequest { gpus_per_node, gres, none };

enum class ContainerRuntime { pyxis, apptainer };

struct SlurmContainerRecipe {
  std::string image;  // empty: no container
  ContainerRuntime runtime = ContainerRuntime::pyxis;
  std::vector<std::string> mounts;  // "/data" or "/data:/mnt/data:ro"
  std::string program;              // llmtrain's path in the container; empty: the same as outside

  bool operator==(const SlurmContainerRecipe&) const = default;
};

// What `llmtrain slurm` and `llmtrain sweep --slurm` write into their scripts. Empty texts: not said, so that Slurm or
// the site decides.
struct SlurmRecipe {
  JobLauncher launcher = JobLauncher::srun;
  std::string partition, account, qos;
  std::int64_t cpus_per_task = 0;  // 0: not said
  std::string memory;              // of a node, as in sbatch's --mem
  bool exclusive = false;
  GpuRequest gpus = GpuRequest::gpus_per_node;
  std::string gpu_type;                       // as in --gpus-per-node=h100:8
  std::string log;                            // file, with sbatch's patterns
  std::vector<std::string> sbatch;            // further options, "--name" or "--name=value"
  std::vector<std::string> srun;              // the same, of srun
  std::string cpu_bind;                       // as in srun's --cpu-bind
  std::optional<std::int64_t> requeue_limit;  // none: as often as needed
  std::string scratch;                        // folder of each node's own; may begin with a variable: "$SLURM_TMPDIR"
  std::vector<std::string> modules;
  std::vector<std::string> setup;  // lines of bash
  SlurmContainerRecipe container;

  bool operator==(const SlurmRecipe&) const = default;
};

}  // namespace llmtrain
