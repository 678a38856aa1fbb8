// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "tests/emulator/torch/backend.h"

namespace llmtrain::kernels {

struct Counted {
  std::int64_t launches = 0, bytes = 0;
};

// What work() has launched of a kernel on the emulated GPU, and said that it reads and writes: in which races and
// overruns are looked for.
template <class Work>
Counted counted(const std::string& kernel, Work work) {
  const auto until_now = [&] {
    emulated::NamedCounts counts = emulated::named_counts();
    return Counted{counts["launches"][kernel], counts["bytes"][kernel]};
  };
  const Counted before = until_now();
  work();
  const Counted after = until_now();
  return {after.launches - before.launches, after.bytes - before.bytes};
}

}  // namespace llmtrain::kernels
