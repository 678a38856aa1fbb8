// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace llmtrain::app {

// A page on which a person talks to the served model, or has it go on with a text where it has no chat template: it
// asks the server that it came from, as any client does, and nothing else.
std::string chat_page();

// What a browser may do for it (W3C, Content Security Policy Level 3): nothing comes from or goes to elsewhere.
inline constexpr const char* chat_page_headers =
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n";

}  // namespace llmtrain::app
