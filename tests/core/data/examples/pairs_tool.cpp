// SPDX-License-Identifier: Apache-2.0
// Prints pairs of texts as samples, for tests in Python: pairs_tool TOKENIZER.json DATA LENGTH TARGET_LENGTH VOCABULARY
// [DECODER_START]. A JSON list with the fields of each sample by their names, and "starts", the documents' by sequence.
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/data/samples/dataset.h"

int main(int count, char** arguments) {
  using namespace llmtrain;
  const std::vector<std::string> given(arguments + 1, arguments + count);
  TextFormat format{{TokenizerKind::huggingface, given.at(0)}};
  format.pairs = PairsRecipe{.prefix = "translate: ", .target_length = std::stoll(given.at(3))};
  if (given.size() > 5) format.pairs->decoder_start = std::stoll(given[5]);
  const Dataset data({DataSource{given.at(1), 1}}, format, std::stoll(given.at(2)), std::stoll(given.at(4)), false, 1,
                     "/data/train");
  nlohmann::json printed = nlohmann::json::array();
  for (std::int64_t number = 0; number < data.samples(); ++number) {
    const auto rows = [&](std::size_t sequence) {
      return std::vector<std::int64_t>(static_cast<std::size_t>(data.sequences()[sequence].length));
    };
    auto source = rows(0), read = rows(1), targets = rows(1), source_starts = rows(0), target_starts = rows(1);
    std::vector<std::uint8_t> counted(read.size());
    FieldMemory memory;
    memory.set(BatchField::source_ids, std::span(source));
    memory.set(BatchField::token_ids, std::span(read));
    memory.set(BatchField::targets, std::span(targets));
    memory.set(BatchField::counted_rows, std::span(counted));
    memory.document_starts = {source_starts, target_starts};
    data.read(number, memory);
    printed.push_back({{"source_ids", source},
                       {"token_ids", read},
                       {"targets", targets},
                       {"counted_rows", counted},
                       {"weight", data.weight(0, number, 1)},
                       {"starts", {source_starts, target_starts}}});
  }
  std::cout << printed.dump() << "\n";
}
