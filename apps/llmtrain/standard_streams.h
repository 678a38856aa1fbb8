// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "parallel/plan/report/text_layout.h"

namespace llmtrain::app {

// Must be called first. A reader that goes away (`| head -1`) or a file that grows past its limit must not kill the
// program but fail its write, and a standard stream that the caller closed must not become the next file that is
// opened.
void prepare_standard_streams();

// Writes a command's result to standard output. A reader that has gone away is not an error. Throws
// Error(cannot_write).

// For people: names that others have chosen steer no terminal (painted_message()).
void write_result(std::string_view text);
// JSON of the same value, in which no character steers a terminal (escaped_json()).
void write_json(std::string_view json);
// Text that a model writes, or reads: whole as far as it is printable(), whatever its language.
void write_model_text(std::string_view text);
// Exactly where standard output is a file or a pipe, for a shell; on a terminal as write_result().
void write_script(std::string_view text);

// How results are printed: as wide as the terminal, and in colour unless NO_COLOR is set; page_width columns where
// standard output is no terminal.
TextStyle style_of_output();

}  // namespace llmtrain::app
