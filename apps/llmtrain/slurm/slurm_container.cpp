// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/slurm/slurm_container.h"

#include "apps/llmtrain/slurm/shell_text.h"

namespace llmtrain::app {
namespace {

// "/work:/work,/data:/mnt"
std::string mounts_of(const SlurmContainerRecipe& container, const std::string& folder) {
  std::string text = folder + ":" + folder;
  for (const std::string& mount : container.mounts)
    text += "," + mount + (mount.find(':') == std::string::npos ? ":" + mount : "");
  return text;
}

}  // namespace

std::string pyxis_options(const SlurmContainerRecipe& container, const std::string& folder) {
  if (container.image.empty() || container.runtime != ContainerRuntime::pyxis) return "";
  return " --container-image=" + shell_word(container.image) +
         " --container-mounts=" + shell_word(mounts_of(container, folder)) +
         " --container-workdir=" + shell_word(folder);
}

std::string apptainer_prefix(const Recipe& recipe, const std::string& folder) {
  const SlurmContainerRecipe& container = recipe.launch.slurm.container;
  if (container.image.empty() || container.runtime != ContainerRuntime::apptainer) return "";
  // --nv brings the driver's libraries into it.
  return std::string("apptainer exec") + (recipe.cluster.device == DeviceKind::cuda ? " --nv" : "") + " --bind " +
         shell_word(mounts_of(container, folder)) + " --pwd " + shell_word(folder) + " " + shell_word(container.image) +
         " ";
}

}  // namespace llmtrain::app
