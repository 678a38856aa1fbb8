// SPDX-License-Identifier: Apache-2.0
#include "core/machine/control_groups.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

// Where a hierarchy of groups is mounted, and which of its groups is to be seen there.
struct Mount {
  fs::path group;   // "/", or a container's
  fs::path folder;  // "/sys/fs/cgroup/memory"
  bool is_version_2 = false;
  std::string controllers;  // of version 1: "rw,cpu,cpuacct"
};

// This process's group in a hierarchy.
struct Membership {
  std::string controllers;  // "cpu,cpuacct"; empty: version 2
  std::string group;        // "/system.slice/a.service"
};

bool lists(const std::string& names, std::string_view name) {
  std::istringstream list(names);
  for (std::string each; std::getline(list, each, ',');)
    if (each == name) return true;
  return false;
}

// The kernel writes spaces, tabs, newlines and backslashes of paths as three octal digits.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string digits = text[i] == '\\' ? text.substr(i + 1, 3) : "";
    if (digits.size() == 3 && digits.find_first_not_of("01234567") == std::string::npos) {
      plain += static_cast<char>(std::stoi(digits, nullptr, 8));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory", with any number of words before the "-".
std::vector<Mount> mounts_of(const fs::path& root) {
  std::vector<Mount> mounts;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string skipped, group, folder, type, source, options;
    words >> skipped >> skipped >> skipped >> group >> folder;
    while (words >> skipped && skipped != "-") {
    }
    words >> type >> source >> options;
    if (type != "cgroup" && type != "cgroup2") continue;
    mounts.push_back(
        {unescaped(group), root / fs::path(unescaped(folder)).relative_path(), type == "cgroup2", options});
  }
  return mounts;
}

// "4:memory:/docker/1a2b" and "0::/system.slice".
std::vector<Membership> memberships_of(const fs::path& root) {
  std::vector<Membership> memberships;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    memberships.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return memberships;
}

// The folders of a process's group and of those above it, up to the one that is mounted. Outside of what is mounted, as
// in a container that sees its group alone but is told the name that it has outside, the mounted one is the nearest.
std::vector<fs::path> groups_in(const Mount& mount, const std::string& group) {
  const fs::path below = fs::path(group).lexically_relative(mount.group);
  std::vector<fs::path> folders{mount.folder};
  if (below.empty() || below == "." || *below.begin() == "..") return folders;
  for (const fs::path& part : below) folders.push_back(folders.back() / part);
  std::ranges::reverse(folders);
  return folders;
}

std::vector<fs::path> groups_with(std::string_view controller, bool is_version_2, const fs::path& root) {
  std::vector<fs::path> folders;
  const auto mounts = mounts_of(root);
  for (const Membership& membership : memberships_of(root)) {
    if (is_version_2 ? !membership.controllers.empty() : !lists(membership.controllers, controller)) continue;
    for (const Mount& mount : mounts) {
      if (mount.is_version_2 != is_version_2 || (!is_version_2 && !lists(mount.controllers, controller))) continue;
      const auto found = groups_in(mount, membership.group);
      folders.insert(folders.end(), found.begin(), found.end());
    }
  }
  return folders;
}

// The number that a file begins with; none for "max".
template <class Number>
std::optional<Number> number_in(const fs::path& path) {
  std::ifstream file(path);
  Number number{};
  return file >> number ? std::optional(number) : std::nullopt;
}

// "inactive_file 4096", one line of many.
std::optional<std::int64_t> statistic(const fs::path& path, std::string_view name) {
  std::ifstream file(path);
  std::string word;
  for (std::int64_t value = 0; file >> word >> value;)
    if (word == name) return value;
  return std::nullopt;
}

// What the files of a version are called.
struct MemoryFiles {
  const char* limit;
  const char* used;
  const char* cache;  // a statistic: what was read from files and not lately used
};

void read_memory(const std::vector<fs::path>& groups, const MemoryFiles& files, ControlGroupLimits& limits) {
  for (const fs::path& group : groups) {
    const auto limit = number_in<std::int64_t>(group / files.limit);
    if (!limit || *limit <= 0 || *limit >= limits.memory.value_or(std::numeric_limits<std::int64_t>::max())) continue;
    limits.memory = limit;
    limits.memory_used = number_in<std::int64_t>(group / files.used);
    if (limits.memory_used)
      *limits.memory_used -= std::min(*limits.memory_used, statistic(group / "memory.stat", files.cache).value_or(0));
  }
}

void limit_cores(std::optional<double> quota, std::optional<double> period, ControlGroupLimits& limits) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return;
  limits.cores = std::min(limits.cores.value_or(*quota / *period), *quota / *period);
}

// "max 100000" or "150000 100000": microseconds of CPU time in each period.
void read_cores_of_version_2(const std::vector<fs::path>& groups, ControlGroupLimits& limits) {
  for (const fs::path& group : groups) {
    std::ifstream file(group / "cpu.max");
    double quota = 0, period = 0;
    if (file >> quota >> period) limit_cores(quota, period, limits);
  }
}

}  // namespace

ControlGroupLimits control_group_limits(const fs::path& root) {
  ControlGroupLimits limits;
  const auto groups = groups_with("", true, root);
  read_memory(groups, {"memory.max", "memory.current", "inactive_file"}, limits);
  read_cores_of_version_2(groups, limits);
  read_memory(groups_with("memory", false, root),
              {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}, limits);
  for (const fs::path& group : groups_with("cpu", false, root))
    limit_cores(number_in<double>(group / "cpu.cfs_quota_us"), number_in<double>(group / "cpu.cfs_period_us"), limits);
  return limits;
}

}  // namespace llmtrain
