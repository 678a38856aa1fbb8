// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/launch/network_interfaces.h"

#include <net/if.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/machine/host_name.h"

namespace llmtrain::app {
namespace {

std::vector<std::string> interfaces_here() {
  const std::unique_ptr<struct if_nameindex, decltype(&::if_freenameindex)> list(::if_nameindex(), &::if_freenameindex);
  std::vector<std::string> names;
  // The last entry has no name.
  for (const auto* entry = list.get(); entry != nullptr && entry->if_name != nullptr; ++entry)
    names.emplace_back(entry->if_name);
  return names;
}

}  // namespace

void use_network_interfaces(const std::string& file, const LaunchRecipe& launch) {
  if (launch.network_interfaces.empty()) return;
  const std::vector<std::string> here = interfaces_here();
  for (const std::string& name : launch.network_interfaces)
    if (std::ranges::find(here, name) == here.end())
      throw Error(ExitCode::bad_recipe,
                  fmt::format("{}: /launch/network_interfaces: host {} has no interface {}; it has {}", file,
                              host_name(), name, fmt::join(here, ", ")));
  const std::string names = fmt::format("{}", fmt::join(launch.network_interfaces, ","));
  // 0: a value that is set stays. "=": NCCL takes whole names, not their beginnings.
  ::setenv("OMPI_MCA_btl_tcp_if_include", names.c_str(), 0);
  ::setenv("NCCL_SOCKET_IFNAME", ("=" + names).c_str(), 0);
}

}  // namespace llmtrain::app
