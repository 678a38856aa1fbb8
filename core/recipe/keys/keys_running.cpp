// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "core/recipe/enum_words.h"
#include "core/recipe/keys/key_table.h"

namespace llmtrain {
namespace {

constexpr IntegerRange rank_range{1, 1 << 20};

constexpr std::array<std::string_view, 1> profile_words = {"auto"};
constexpr std::array<std::string_view, 2> failure_words = {"stop", "continue"};
constexpr std::array<std::string_view, 2> resume_words = {"auto", "never"};

void describe_cluster(KeyVisitor& keys, ClusterRecipe& cluster) {
  keys.text({"profile", "Cluster profile that plans use: auto (this machine), a name in recipes/clusters, or a file."},
            cluster.profile, {TextKind::path_or_name, profile_words});
  keys.text({"program",
             "Software whose run plans price: a name in recipes/programs, or a file. llmtrain run trains as ever."},
            cluster.program, {TextKind::path_or_name});
  keys.integer({"nodes", "Number of machines."}, cluster.nodes, rank_range);
  keys.automatic_integer({"devices_per_node", "Devices per machine; auto: as many as the profile or this machine has."},
                         cluster.devices_per_node, {1, 1 << 10});
  keys.choice({"device", "Compute device."}, cluster.device, device_words);
  keys.nullable_number({"price_per_device_hour", "Price of a device for an hour, for plans; null: the profile's."},
                       cluster.price_per_device_hour, {0, 1e6});
  keys.text({"currency", "Currency of the price, as plans name it."}, cluster.currency, {TextKind::plain});
}

void describe_launch(KeyVisitor& keys, LaunchRecipe& launch) {
  keys.automatic_integer({"ranks", "Ranks that llmtrain run starts; auto: nodes × devices_per_node, or one on a CPU."},
                         launch.ranks, rank_range);
  keys.choice(
      {"backend", "How ranks communicate; auto: nccl if each has its own GPU, otherwise mpi, or local without MPI."},
      launch.backend, backend_words);
  keys.number({"link_delay_microseconds", "Latency that the local backend adds to every message."},
              launch.link_delay_microseconds, {0, 1e9});
  keys.number({"link_megabytes_per_second",
               "Bandwidth at which the local backend sends each rank's messages and collectives; 0: unlimited."},
              launch.link_megabytes_per_second, {0, 1e9});
  keys.number({"link_message_microseconds",
               "Time for which the local backend occupies a rank's link with each message that the rank sends."},
              launch.link_message_microseconds, {0, 1e9});
  keys.number({"node_link_speedup",
               "How many times as fast all of that is between ranks of one node (cluster.devices_per_node)."},
              launch.node_link_speedup, {1, 1e6});
  // A wait cannot be interrupted, so the limit keeps it to a few seconds even for the deepest stages.
  keys.number({"layer_delay_microseconds",
               "Forward time per layer of the device that the local backend emulates; a backward takes twice as long."},
              launch.layer_delay_microseconds, {0, 1e5});
  keys.number({"watchdog_seconds", "A rank that is silent for this long counts as lost; 0: wait forever."},
              launch.watchdog_seconds, {0, 1e9});
  keys.number({"time_limit_seconds",
               "A run saves and stops, to be resumed, so that it ends within this time or its Slurm job's; 0: only the "
               "latter."},
              launch.time_limit_seconds, {0, 1e9});
  keys.integer({"check_replicas_every",
                "Steps between comparisons of the weights and states that several ranks hold, also made before each "
                "checkpoint; a difference ends the run and names the rank. 0: never."},
               launch.check_replicas_every, {0, most_steps});
  keys.texts({"network_interfaces",
              "Names of the network interfaces, such as ib0, through which ranks of several nodes communicate; empty: "
              "MPI and NCCL choose."},
             launch.network_interfaces, "a list of names");
  keys.section({"slurm", "What llmtrain slurm and llmtrain sweep --slurm write into their scripts."},
               [&] { describe_slurm(keys, launch.slurm); });
}

void describe_checkpoint(KeyVisitor& keys, CheckpointRecipe& checkpoint, const OffloadRecipe& offload) {
  keys.integer({"every", "Steps between checkpoints; 0: only one, at the end."}, checkpoint.every, {0, most_steps});
  keys.integer({"keep", "Number of newest checkpoints to keep; 0: all. One that is being read goes with a later one."},
               checkpoint.keep, {0, 1'000'000});
  keys.integer({"keep_every", "Checkpoints of steps that this divides are kept besides, however many; 0: none."},
               checkpoint.keep_every, {0, most_steps});
  keys.integer({"keep_best",
                "Number of checkpoints with the lowest validation losses at their own steps to keep besides; 0: none."},
               checkpoint.keep_best, {0, 1'000'000});
  keys.boolean({"save_base",
                "Whether checkpoints of a run with model.lora that began with a folder of transformers hold its frozen "
                "weights, too; false: they name the folder, and are read together with it."},
               checkpoint.save_base);
  keys.boolean(
      {"async",
       "Training continues while a checkpoint is written, and what is trained meanwhile is not saved until the next "
       "one, which waits for this one: a run that is killed loses the interval and one write, at most two "
       "intervals; false: the interval.",
       "true; false with memory.offload.optimizer \"disk\""},
      keys.otherwise(checkpoint.async, offload.optimizer != StatesPlace::disk));
  keys.choice({"on_failure",
               "What follows where a checkpoint cannot be written: stop ends the run; continue goes on training until "
               "the next one, and ends the run only if it is the last."},
              checkpoint.on_failure, failure_words);
  keys.text(
      {"resume",
       "auto: resume the run in the run directory; never: start a new run; a path: start from that checkpoint, and "
       "go on with the run that began with it."},
      checkpoint.resume, {TextKind::path, resume_words});
}

}  // namespace

void describe_running(KeyVisitor& keys, Recipe& recipe) {
  keys.section({"cluster", "The cluster."}, [&] { describe_cluster(keys, recipe.cluster); });
  keys.section({"launch", "How ranks are started and monitored."}, [&] { describe_launch(keys, recipe.launch); });
  keys.section({"checkpoint", "What is saved, and what a run starts from."},
               [&] { describe_checkpoint(keys, recipe.checkpoint, recipe.memory.offload); });
  keys.section({"log", "Logs and metrics of the run."}, [&] {
    keys.text({"directory", "The run directory, relative to the working directory.", "runs/<name>"},
              keys.otherwise(recipe.log.directory, "runs/" + recipe.name), {TextKind::working_path});
    keys.integer({"every", "Steps between rows of metrics.jsonl; the console follows the clock."}, recipe.log.every,
                 {1, most_steps});
    keys.boolean({"tensorboard", "Also writes a TensorBoard event file."}, recipe.log.tensorboard);
    keys.boolean({"routing", "Writes routing.jsonl: how many tokens chose each expert, by step and layer."},
                 recipe.log.routing);
    keys.boolean({"fp8_statistics",
                  "Rows of metrics.jsonl also say how well FP8 represents inputs, weights and gradients; takes a few "
                  "passes over them in these steps."},
                 recipe.log.fp8_statistics);
  });
}

}  // namespace llmtrain
