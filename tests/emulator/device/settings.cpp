// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/settings.h"

#include <cstdlib>

namespace emulated {
namespace {

std::string text_of(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const std::string text = text_of(name);
  return text.empty() ? otherwise : std::strtoull(text.c_str(), nullptr, 10);
}

Settings read_settings() {
  Settings s;
  s.devices = static_cast<int>(number_of("EMULATED_DEVICES", 2));
  s.memory = number_of("EMULATED_MEMORY", 4096) << 20;
  s.seed = number_of("EMULATED_SEED", s.seed);
  s.longest_delay = static_cast<int>(number_of("EMULATED_DELAY", 100));
  s.link_rate = number_of("EMULATED_LINK", s.link_rate);
  s.throws = text_of("EMULATED_REPORT") != "log";
  s.protection = text_of("EMULATED_PROTECTION");
  s.quarantine = number_of("EMULATED_QUARANTINE", 0);
  s.nccl_seconds = static_cast<int>(number_of("EMULATED_NCCL_SECONDS", 60));
  s.report_file = text_of("EMULATED_REPORT_FILE");
  s.summary = !text_of("EMULATED_SUMMARY").empty();
  return s;
}

}  // namespace

Settings& settings() {
  static Settings instance = read_settings();
  return instance;
}

}  // namespace emulated
