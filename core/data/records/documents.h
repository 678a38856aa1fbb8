// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "core/data/records/record_reader.h"
#include "core/recipe/data_recipe.h"

namespace llmtrain {

// The document of a record: the value at `key` of a row, or the record itself, which is left empty. Throws BadLine
// that names the keys there are where that is not a JSON object with a string at `key`.
std::string document_of(Record& record, const std::filesystem::path& file, const std::string& key);

// Whether a row has the keys of a conversation, of a prompt with its answer, or of a preference between two: data of
// fine-tuning (core/data/conversations/conversation_forms.h), and no document.
bool is_of_conversations(const Record& record);

}  // namespace llmtrain
