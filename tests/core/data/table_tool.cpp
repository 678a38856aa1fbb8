// SPDX-License-Identifier: Apache-2.0
// Shows tests in Python what is read of tables: table_tool FILE SKIPPED prints the records behind the first SKIPPED
// rows, a line each.
#include <cstdlib>
#include <exception>
#include <iostream>

#include "core/data/records/table_records.h"

int main(int, char** words) {
  try {
    const auto reader = llmtrain::open_column_table(words[1]);
    const std::int64_t skipped = std::atoll(words[2]);
    if (skipped > 0) reader->skip(skipped, skipped);
    for (llmtrain::Record record; reader->next(record);) std::cout << record.line << " " << record.text << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
