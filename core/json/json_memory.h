// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace llmtrain {

// A short text can be a large document: 57 MB of "[],[],…" would take 2.5 GB. What a document takes is counted before
// it is built, and is at most this: three times what the largest tokenizers take.
inline constexpr std::size_t most_json_memory = std::size_t{512} << 20;

// The end of a message about a file or a line with more, after "is" or its like.
inline constexpr std::string_view too_large_json =
    "takes more than 512 MiB of memory as JSON, the limit; it has too many values to be a file of this kind";

// About the memory that a document's values take, counted as they are read.
class JsonMemory {
 public:
  void add_value() { bytes_ += 32; }  // of a list that grows
  void add_text(std::size_t size) { bytes_ += 64 + size; }
  void add_container() { bytes_ += 96; }
  bool exceeds() const { return bytes_ > most_json_memory; }

 private:
  std::size_t bytes_ = 0;
};

// Whether a text takes more, as far as it is JSON. For those who let it be read by nlohmann::json::parse().
bool is_too_large_json(std::string_view text);

}  // namespace llmtrain
