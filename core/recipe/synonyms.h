// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace llmtrain {

// Words for one thing in other programs, in lower case.
struct Synonyms {
  std::string_view meant;
  std::vector<std::string_view> words;
};

// Names of the same settings in Hugging Face, axolotl, nanoGPT, Megatron-LM, DeepSpeed and papers, for keys, which are
// meant by their pointers. A word that begins with a slash is a whole pointer, for names that mean something else in
// other sections.
std::span<const Synonyms> key_synonyms();

// The same for words that keys take. Some are nearer to another word by their letters.
std::span<const Synonyms> value_synonyms();

}  // namespace llmtrain
