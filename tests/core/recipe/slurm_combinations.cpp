// SPDX-License-Identifier: Apache-2.0
#include "tests/core/recipe/bad_combinations.h"

namespace llmtrain::test {
namespace {

Combination with_slurm(const std::string& keys, const std::string& pointer, std::vector<std::string> words) {
  return {R"({"cluster": {"device": "cuda"}, "launch": {"slurm": )" + keys + "}}", pointer, std::move(words)};
}

Combination with_option(const std::string& option, std::vector<std::string> words) {
  const std::string pointer = words.empty() ? "" : "/launch/slurm/sbatch";
  return with_slurm(R"({"sbatch": [")" + option + R"("]})", pointer, std::move(words));
}

}  // namespace

std::vector<Combination> slurm_combinations() {
  return {
      with_slurm(R"({"partition": "long,short", "account": "a_b", "qos": "high", "log": "my logs/%x-%j.log"})", "", {}),
      with_slurm(R"({"partition": "long\n#SBATCH --wrap=x"})", "/launch/slurm/partition", {"has a space"}),
      with_slurm(R"({"account": "long\n--hold"})", "/launch/slurm/account", {"break out of its line"}),
      with_slurm(R"({"qos": "a'b"})", "/launch/slurm/qos", {"must have no quote"}),
      with_slurm(R"({"log": "a\"b"})", "/launch/slurm/log", {"must have no quote"}),
      with_slurm(R"({"memory": "200G"})", "", {}),
      with_slurm(R"({"memory": "0"})", "", {}),
      with_slurm(R"({"memory": "200 GB"})", "/launch/slurm/memory", {"is no amount of memory", "K, M, G or T"}),
      with_slurm(R"({"memory": "G"})", "/launch/slurm/memory", {"is no amount of memory"}),
      with_slurm(R"({"gpu_type": "h100"})", "", {}),
      with_slurm(R"({"gpu_type": "h100", "gpus": "none"})", "/launch/slurm/gpu_type", {"asks for no GPUs"}),
      {R"({"launch": {"slurm": {"gpu_type": "h100"}}})",
       "/launch/slurm/gpu_type",
       {"needs cluster.device \"cuda\"", "did you mean \"\"?"}},
      with_option("--constraint=h100&nvlink", {}),
      with_option("--comment=a long run", {}),
      with_option("--time-min 10", {}),
      with_option("--gres=lustre:1", {}),
      with_option("-C h100", {"is no long option"}),
      with_option("constraint=h100", {"is no long option"}),
      with_option("--constraint=", {"is no long option"}),
      with_option(R"(--comment=\"x\")", {"break out of its line"}),
      with_option("--partition=long", {"--partition is set by launch.slurm.partition"}),
      with_option("--parti=long", {"--parti is set by launch.slurm.partition"}),
      with_option("--gpus=8", {"set by launch.slurm.gpus"}),
      with_option("--gres=gpu:8", {"--gres contradicts launch.slurm.gpus"}),
      with_option("--time=10", {"launch.time_limit_seconds"}),
      with_option("--array=1-3", {"llmtrain sweep --slurm"}),
      with_option(R"(--hold", "--hold)", {"--hold is there twice"}),
      with_slurm(R"({"gpus": "none", "sbatch": ["--gres=gpu:8"]})", "", {}),
      with_slurm(R"({"gpus": "gres", "sbatch": ["--gres=lustre:1"]})", "/launch/slurm/sbatch",
                 {"--gres contradicts launch.slurm.gpus"}),
      with_option("--mem-per-cpu=2G", {}),
      with_slurm(R"({"memory": "2G", "sbatch": ["--mem-per-cpu=2G"]})", "/launch/slurm/sbatch",
                 {"--mem-per-cpu contradicts launch.slurm.memory"}),
      with_slurm(R"({"cpus_per_task": 2, "sbatch": ["--cpus-per-gpu=2"]})", "/launch/slurm/sbatch",
                 {"contradicts launch.slurm.cpus_per_task"}),
      with_option("--exclusive=user", {}),
      with_slurm(R"({"exclusive": true, "sbatch": ["--exclusive=user"]})", "/launch/slurm/sbatch",
                 {"contradicts launch.slurm.exclusive"}),
  };
}

std::vector<Combination> slurm_start_combinations() {
  return {
      with_slurm(R"({"srun": ["--gpu-bind=none", "--mpi=pmix_v4"], "cpu_bind": "cores"})", "", {}),
      with_slurm(R"({"srun": ["-v"]})", "/launch/slurm/srun", {"is no long option of srun"}),
      with_slurm(R"({"srun": ["--cpu-bi=none"]})", "/launch/slurm/srun", {"--cpu-bi is set by the script"}),
      with_slurm(R"({"srun": ["--label"], "launcher": "mpirun"})", "/launch/slurm/srun",
                 {"needs launch.slurm.launcher"}),
      with_slurm(R"({"cpu_bind": "none", "launcher": "mpirun"})", "/launch/slurm/cpu_bind",
                 {"mpirun starts the ranks"}),
      with_slurm(R"({"scratch": "/local/scratch"})", "", {}),
      with_slurm(R"({"scratch": "${TMP}/x"})", "", {}),
      with_slurm(R"({"scratch": "scratch"})", "/launch/slurm/scratch", {"must be an absolute path"}),
      with_slurm(R"({"scratch": "/tmp/$(id)/x"})", "/launch/slurm/scratch", {"must be an absolute path"}),
      with_slurm(R"({"scratch": "/tmp/\"; id; \""})", "/launch/slurm/scratch", {"must be an absolute path"}),
      with_slurm(R"({"modules": ["cuda/12.4", "openmpi"]})", "", {}),
      with_slurm(R"({"modules": ["cuda openmpi"]})", "/launch/slurm/modules", {"is no module's name"}),
      with_slurm(R"({"modules": ["--force"]})", "/launch/slurm/modules", {"is no module's name"}),
      with_slurm(R"({"setup": ["export A='x y'", "\tulimit -l unlimited"]})", "", {}),
      with_slurm(R"({"setup": ["a\nb"]})", "/launch/slurm/setup", {"is more than a line"}),
      with_slurm(R"({"container": {"image": "nvcr.io#nvidia/pytorch:24.07-py3", "mounts": ["/data:/mnt:ro"]}})", "",
                 {}),
      with_slurm(R"({"container": {"image": "-x"}})", "/launch/slurm/container/image", {"taken as an option"}),
      with_slurm(R"({"container": {"image": "x"}, "launcher": "mpirun"})", "/launch/slurm/container/runtime",
                 {"pyxis is an option of srun", "did you mean \"apptainer\"?"}),
      with_slurm(R"({"container": {"image": "x", "runtime": "apptainer"}, "launcher": "mpirun"})", "", {}),
      with_slurm(R"({"container": {"mounts": ["/data"]}})", "/launch/slurm/container/mounts",
                 {"there is no container"}),
      with_slurm(R"({"container": {"image": "x", "mounts": ["/a,/b"]}})", "/launch/slurm/container/mounts",
                 {"without commas"}),
      with_slurm(R"({"container": {"program": "/llmtrain"}})", "/launch/slurm/container/program",
                 {"there is no container"}),
  };
}

}  // namespace llmtrain::test
