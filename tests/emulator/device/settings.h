// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emulated {

// What the environment asks for. A test may change them before the process first uses a device.
struct Settings {
  int devices = 2;                            // EMULATED_DEVICES
  std::size_t memory = std::size_t{4} << 30;  // EMULATED_MEMORY, given in MiB: bytes of each device
  std::uint64_t seed = 1;                     // EMULATED_SEED of the random delays
  int longest_delay = 100;                    // EMULATED_DELAY: of work on a stream, in µs
  std::uint64_t link_rate = 0;                // EMULATED_LINK: bytes a second each way to the host; 0: no time
  bool throws = true;                         // EMULATED_REPORT: "log" prints races and overruns and goes on
  std::string protection;                     // EMULATED_PROTECTION: "keys", "alias" or "none"; else the best
  std::size_t quarantine = 0;                 // EMULATED_QUARANTINE: freed blocks of a size that wait for reuse
  int nccl_seconds = 60;                      // EMULATED_NCCL_SECONDS: how long a rank waits for the others
  std::string report_file;                    // EMULATED_REPORT_FILE (report.h)
  bool summary = false;                       // EMULATED_SUMMARY (report.h)
};

Settings& settings();

}  // namespace emulated
