// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "apps/llmtrain/doctor/findings.h"
#include "core/base/units.h"
#include "core/machine/control_groups.h"
#include "core/machine/host_memory.h"
#include "core/machine/processor.h"

namespace llmtrain::app {
namespace {

constexpr std::int64_t gibibyte = std::int64_t{1} << 30;

std::string or_unknown(const std::string& text) { return text.empty() ? "unknown" : text; }

void find_processor(std::vector<Finding>& findings) {
  findings.push_back({FindingState::ok, "processor", or_unknown(processor_name()), ""});
}

void find_vector_instructions(std::vector<Finding>& findings) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> known = {{{"avx2", "AVX2"},
                                                                                   {"avx512f", "AVX-512"},
                                                                                   {"avx512_bf16", "AVX-512 bf16"},
                                                                                   {"amx_tile", "AMX"},
                                                                                   {"asimd", "NEON"}}};
  const ProcessorFeatures features = processor_features();
  std::string names;
  for (const auto& [feature, name] : known) {
    if (features.contains(feature)) names.append(names.empty() ? "" : ", ").append(name);
  }
  findings.push_back(names.empty()
                         ? Finding{FindingState::note, "vectors", "neither AVX2 nor AVX-512: training is slow",
                                   "use a processor made after 2013"}
                         : Finding{FindingState::ok, "vectors", names, ""});
  findings.push_back(has_bf16_instructions(features)
                         ? Finding{FindingState::ok, "bf16", "multiplied by instructions of its own", ""}
                         : Finding{FindingState::note, "bf16",
                                   "no instructions for it: widened to fp32 in products, so no faster than fp32",
                                   "use it where it saves memory or traffic, else precision.compute \"fp32\""});
}

void find_cores(std::vector<Finding>& findings) {
  const int cores = usable_cores();
  const std::string text = fmt::format("{} of {} usable", cores, ::sysconf(_SC_NPROCESSORS_ONLN));
  const auto quota = control_group_limits().cores;
  // A container may see all cores and still get the time of a few: more threads than that wait for each other.
  if (quota && *quota < cores) {
    findings.push_back({FindingState::note, "cores", fmt::format("{}, CPU time limited to {:.1f} cores", text, *quota),
                        fmt::format("export OMP_NUM_THREADS={}", std::max(1, static_cast<int>(*quota)))});
    return;
  }
  findings.push_back({FindingState::ok, "cores", text, ""});
}

void find_memory(std::vector<Finding>& findings) {
  const HostMemory memory = host_memory();
  std::string text = format_bytes(memory.total) + ", " + format_bytes(memory.available) + " available";
  if (memory.limit > 0) text += ", which is the limit of this container or job";
  findings.push_back(memory.available < 2 * gibibyte ? Finding{FindingState::note, "memory", text, "end other programs"}
                                                     : Finding{FindingState::ok, "memory", text, ""});
}

void find_huge_pages(std::vector<Finding>& findings) {
  const std::string file = "/sys/kernel/mm/transparent_hugepage/enabled";
  const std::string words = first_line(file);
  const auto begin = words.find('[');
  const auto end = words.find(']');
  if (begin == std::string::npos || end == std::string::npos) {
    findings.push_back({FindingState::ok, "huge pages", "not offered by this kernel", ""});
    return;
  }
  const std::string chosen = words.substr(begin + 1, end - begin - 1);
  findings.push_back(chosen == "never" ? Finding{FindingState::note, "huge pages", "never: large models train slower",
                                                 "echo madvise | sudo tee " + file}
                                       : Finding{FindingState::ok, "huge pages", chosen, ""});
}

void find_disk(std::vector<Finding>& findings) {
  std::error_code failed;
  const std::string folder = std::filesystem::current_path(failed).string();
  struct statvfs space {};
  if (::statvfs(".", &space) != 0) return;
  const auto free = static_cast<std::int64_t>(space.f_bavail * space.f_frsize);
  const std::string text = format_bytes(free) + " free in " + folder;
  if (::access(".", W_OK) != 0) {
    findings.push_back({FindingState::note, "disk", text + ", which is not writable", "use --run-dir"});
  } else {
    findings.push_back(free < gibibyte ? Finding{FindingState::note, "disk", text, "make room, or use --run-dir"}
                                       : Finding{FindingState::ok, "disk", text, ""});
  }
}

}  // namespace

void find_machine(std::vector<Finding>& findings) {
  find_processor(findings);
  find_vector_instructions(findings);
  find_cores(findings);
  find_memory(findings);
  find_huge_pages(findings);
  find_disk(findings);
}

}  // namespace llmtrain::app
