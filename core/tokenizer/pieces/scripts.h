// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain {

// A number for the script that a character belongs to, as SentencePiece's training cuts texts: Chinese characters and
// kana are one script, and a space, like what Unicode 9 did not know, belongs to none, -1.
int script_of(char32_t code);

}  // namespace llmtrain
