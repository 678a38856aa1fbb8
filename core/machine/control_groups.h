// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace llmtrain {

// What the control groups (cgroups) allow that this process is in: those of a container, a Slurm job or a systemd unit,
// of version 1, 2 or both, each with all groups above it that can be seen from here.
struct ControlGroupLimits {
  std::optional<std::int64_t> memory{};       // bytes, the lowest limit; none where nothing limits it
  std::optional<std::int64_t> memory_used{};  // of that limit, without what the kernel gives back before it kills
  std::optional<double> cores{};              // CPU time ÷ time, the lowest quota
};

// As the kernel says in the folders /proc and /sys below `root`. What cannot be read does not limit.
ControlGroupLimits control_group_limits(const std::filesystem::path& root = "/");

}  // namespace llmtrain
