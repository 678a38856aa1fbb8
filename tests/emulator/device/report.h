// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace emulated {

// What the devices have done, as JSON (README.md lists its keys). Waits for at most two seconds until the streams are
// idle.
std::string report_text();

// A process that has used a device calls it when it exits: writes report_text() to settings().report_file + "." + its
// process id, and prints a summary where settings().summary asks for it.
void write_report();

}  // namespace emulated
