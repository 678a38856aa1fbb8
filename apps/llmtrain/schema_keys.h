// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace llmtrain::app {

// A key of recipes that is not a section, as the JSON Schema of the key table describes it.
struct SchemaKey {
  std::string path;  // "batch.micro"; the entry 0 stands for those of a list
  std::string description;
  std::vector<std::string> words;       // that it accepts, as --set takes them, true and false among them
  bool default_follows_others = false;  // from other keys, or the key is required
};

// All of them, in the order of the key table.
std::vector<SchemaKey> schema_keys();

}  // namespace llmtrain::app
