// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace llmtrain {

// Bytes of the text before the first that begins no well-formed UTF-8 character; its size where all of it is UTF-8.
std::size_t well_formed_length(std::string_view text);

// Whether the text is well-formed UTF-8.
bool is_utf8(std::string_view text);

// Whether the text has an ASCII control character, which could steer a terminal.
bool has_control_character(std::string_view text);

// The text made safe for a terminal: bytes that are not well-formed UTF-8, and control characters other than newline
// and tab, become U+FFFD, one per byte. A byte-level model can generate any of them.
std::string printable(std::string_view text);

// The same for a line of messages or figures, where names of others stand between words of the program: the marks that
// set the direction of writing (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069) become U+FFFD, too, because
// they could reorder the words around a name. Texts of any language stay readable without them.
std::string message_text(std::string_view text);

// JSON of the same value in which all of these are escaped, as \u202e. `json` is well-formed.
std::string escaped_json(std::string_view json);

// Any bytes, of which there are less than 1 GiB, in base 64 (RFC 4648, section 4).
std::string in_base64(std::string_view bytes);

}  // namespace llmtrain
