// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "core/recipe/keys/key_table.h"

namespace llmtrain {
namespace {

constexpr IntegerRange rank_range{1, 1 << 20};
constexpr std::int64_t most_steps = 1'000'000'000'000;

constexpr std::array<std::string_view, 3> device_words = {"auto", "cpu", "cuda"};
constexpr std::array<std::string_view, 4> backend_words = {"auto", "local", "mpi", "nccl"};
constexpr std::array<std::string_view, 1> profile_words = {"auto"};
constexpr std::array<std::string_view, 2> resume_words = {"auto", "never"};

void describe_cluster(KeyVisitor& keys, ClusterRecipe& cluster) {
  keys.text(
      {"profile", "The machine that plans are priced for: auto (this one), a name in recipes/clusters, or a file."},
      cluster.profile, {TextKind::path_or_name, profile_words});
  keys.integer({"nodes", "Machines."}, cluster.nodes, rank_range);
  keys.automatic_integer({"devices_per_node", "Devices of one machine; auto: as the profile or this machine has."},
                         cluster.devices_per_node, {1, 1 << 10});
  keys.choice({"device", "What computes."}, cluster.device, device_words);
}

void describe_launch(KeyVisitor& keys, LaunchRecipe& launch) {
  keys.automatic_integer({"ranks", "Ranks that llmtrain run starts; auto: nodes × devices_per_node, one on a CPU."},
                         launch.ranks, rank_range);
  keys.choice(
      {"backend",
       "How ranks talk to each other; auto: nccl where each has a GPU of its own, else mpi, or local without MPI."},
      launch.backend, backend_words);
  keys.number({"link_delay_microseconds", "Delay that the local backend adds to every message."},
              launch.link_delay_microseconds, {0, 1e9});
  keys.number({"link_megabytes_per_second",
               "Rate at which the local backend lets each rank's messages and collectives out; 0: at once."},
              launch.link_megabytes_per_second, {0, 1e9});
  // A wait cannot be interrupted, so the limit keeps it to a few seconds even for the deepest stages.
  keys.number({"layer_delay_microseconds",
               "Time of a layer's forward on a device that the local backend imitates beside the processor; a backward "
               "takes twice as long."},
              launch.layer_delay_microseconds, {0, 1e5});
  keys.number({"watchdog_seconds", "A rank that is silent for so long counts as lost; 0: wait for ever."},
              launch.watchdog_seconds, {0, 1e9});
}

void describe_checkpoint(KeyVisitor& keys, CheckpointRecipe& checkpoint) {
  keys.integer({"every", "Steps between checkpoints; 0: one, at the end."}, checkpoint.every, {0, most_steps});
  keys.integer({"keep", "The newest checkpoints that are kept; 0: all."}, checkpoint.keep, {0, 1'000'000});
  keys.boolean({"async", "Training goes on while a checkpoint is written."}, checkpoint.async);
  keys.text({"resume", "auto goes on with the run in the run directory, never starts anew, a path names a checkpoint."},
            checkpoint.resume, {TextKind::path, resume_words});
}

}  // namespace

void describe_running(KeyVisitor& keys, Recipe& recipe) {
  keys.section({"cluster", "The machines."}, [&] { describe_cluster(keys, recipe.cluster); });
  keys.section({"launch", "How ranks are started and watched."}, [&] { describe_launch(keys, recipe.launch); });
  keys.section({"checkpoint", "What is saved, and what a run starts from."},
               [&] { describe_checkpoint(keys, recipe.checkpoint); });
  keys.section({"log", "What a run leaves to read."}, [&] {
    keys.text({"directory", "The run directory, relative to the working directory.", "runs/<name>"},
              keys.otherwise(recipe.log.directory, "runs/" + recipe.name), {TextKind::working_path});
    keys.integer({"every", "Steps between rows of metrics.jsonl and lines on the console."}, recipe.log.every,
                 {1, most_steps});
    keys.boolean({"tensorboard", "Also writes TensorBoard's event file."}, recipe.log.tensorboard);
  });
}

}  // namespace llmtrain
