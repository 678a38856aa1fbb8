// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "core/recipe/keys/key_table.h"

namespace llmtrain {
namespace {

constexpr std::array<std::string_view, 2> launcher_words = {"srun", "mpirun"};
constexpr std::array<std::string_view, 3> gpu_words = {"gpus-per-node", "gres", "none"};

constexpr std::array<std::string_view, 2> runtime_words = {"pyxis", "apptainer"};

void describe_container(KeyVisitor& keys, SlurmContainerRecipe& container) {
  keys.text({"image", "Image in which each rank runs, by the runtime's name or path for it; empty: no container."},
            container.image, {});
  keys.choice({"runtime", "What starts it: the option --container-image of srun that pyxis adds, or apptainer exec."},
              container.runtime, runtime_words);
  keys.texts({"mounts",
              "Folders that the container sees besides the job's working folder: /data, or /data:/mnt/data:ro to give "
              "another place and options."},
             container.mounts, "a list of mounts");
  keys.text({"program", "Path of llmtrain within the container; empty: the same as outside, which must be mounted."},
            container.program, {});
}

}  // namespace

void describe_slurm(KeyVisitor& keys, SlurmRecipe& slurm) {
  keys.choice({"launcher", "What starts the ranks within the job; srun needs Slurm's PMIx."}, slurm.launcher,
              launcher_words);
  keys.text({"partition", "Partitions that may take the job (--partition); empty: the site's default."},
            slurm.partition, {});
  keys.text({"account", "Account that is charged (--account); empty: the user's default."}, slurm.account, {});
  keys.text({"qos", "Quality of service (--qos); empty: the default."}, slurm.qos, {});
  keys.integer({"cpus_per_task",
                "Cores of each rank (--cpus-per-task), and its threads where OMP_NUM_THREADS is not set; 0: the site's "
                "default."},
               slurm.cpus_per_task, {0, 1 << 16});
  keys.text({"memory", "Memory on each node (--mem), such as 200G; 0: all of the node's; empty: the site's default."},
            slurm.memory, {});
  keys.boolean({"exclusive", "Whether the job has its nodes to itself (--exclusive)."}, slurm.exclusive);
  keys.choice({"gpus",
               "Option by which a job with cluster.device cuda asks for GPUs; none: not at all, where whole nodes are "
               "given."},
              slurm.gpus, gpu_words);
  keys.text({"gpu_type", "Type of the GPUs, as the site names it: h100 in --gpus-per-node=h100:8; empty: any."},
            slurm.gpu_type, {});
  keys.text({"log",
             "The job's log (--output), with sbatch's patterns; empty: NAME-%j.log, and NAME-%A_%a.log of a sweep's "
             "array."},
            slurm.log, {});
  keys.texts({"sbatch", "Further options of sbatch, such as --constraint=h100 or --mail-type=END."}, slurm.sbatch,
             "a list of options");
  keys.texts({"srun", "Further options of srun, such as --gpu-bind=none."}, slurm.srun, "a list of options");
  keys.text({"cpu_bind",
             "To which cores srun binds each rank (--cpu-bind), such as cores or none; empty: the site's "
             "default."},
            slurm.cpu_bind, {});
  keys.automatic_integer({"requeue_limit",
                          "How often the job may go back into the queue, after stops and after preemption and lost "
                          "nodes; auto: as often as the run needs."},
                         slurm.requeue_limit, {0, 1'000'000});
  keys.text({"scratch",
             "Folder on each node's own disk for temporary files and caches; may begin with a variable, as in "
             "$SLURM_TMPDIR; empty: TMPDIR and the home directory."},
            slurm.scratch, {});
  keys.texts({"modules", "Environment modules that the job loads."}, slurm.modules, "a list of names");
  keys.texts({"setup", "Lines of bash that the job runs first, after it has loaded its modules."}, slurm.setup,
             "a list of lines");
  keys.section({"container", "The container in which the ranks run."},
               [&] { describe_container(keys, slurm.container); });
}

}  // namespace llmtrain
