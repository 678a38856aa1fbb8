// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmtrain::test {

// A name or a text as somebody might write it who wants to steer a terminal or a page: markup, the ends of strings and
// scripts, control characters, marks of writing direction and bytes that are not UTF-8 between words of several
// languages. Equal seeds give equal texts, none of which is empty.
std::string hostile_text(std::uint64_t seed);

// The start and end tags of a page, with the names of their attributes: what a browser makes of it.
std::vector<std::string> tags_of(std::string_view page);

// Whether the text has characters that steer a terminal or the direction of writing, other than newline and tab, or is
// not UTF-8.
bool steers_terminal(std::string_view text);

}  // namespace llmtrain::test
