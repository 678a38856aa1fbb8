// SPDX-License-Identifier: Apache-2.0
// Shows tests in Python what becomes of conversations: conversation_tool RECIPE DATA FOLDER. Of each record of the file
// DATA that the recipe reads it prints {"parts": [[TEXT, COUNTS], …]}, or {"error": REASON}, and in the end {"ends":
// IDs that end a text, "answer": TEXT that ends an answer}. Into FOLDER go the tokenizer and the templates, as an
// export writes them.
#include <exception>
#include <iostream>
#include <string>

#include "core/base/error.h"
#include "core/data/conversations/conversation.h"
#include "core/data/conversations/text_ends.h"
#include "core/recipe/recipe_io.h"
#include "core/tokenizer/copy_tokenizer.h"
#include "core/tokenizer/open_tokenizer.h"

namespace {

using namespace llmtrain;

Json shown(const Conversation& conversation) {
  Json parts = Json::array();
  for (const LabelledText& part : conversation.parts) parts.push_back({part.text, part.counts});
  return {{"parts", parts}};
}

void show(RecordReader& reader, ConversationReader& conversations, const std::string& file) {
  for (Record record; reader.next(record);) {
    try {
      std::cout << shown(conversations.read(record, file)).dump() << "\n";
    } catch (const Error& error) {
      std::cout << Json{{"error", error.what()}}.dump() << "\n";
    }
  }
}

}  // namespace

int main(int, char** words) {
  try {
    const Recipe recipe = read_recipe(words[1]);
    const std::string file = words[2], folder = words[3];
    ConversationReader conversations(recipe.data.fine_tuning.value(), recipe.data.tokenizer);
    show(*open_conversation_records(file), conversations, file);
    const auto tokenizer = open_tokenizer(recipe.data.tokenizer);
    const auto answer = conversations.templates().end_of_answer();
    std::cout
        << Json{{"ends", text_ends(recipe, folder, *tokenizer)}, {"answer", answer ? Json(*answer) : Json()}}.dump()
        << "\n";
    copy_tokenizer(recipe.data.tokenizer, folder);
    write_chat_templates(recipe.data, folder);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
