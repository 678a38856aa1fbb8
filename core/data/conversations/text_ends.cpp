// SPDX-License-Identifier: Apache-2.0
#include "core/data/conversations/text_ends.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/data/conversations/chat_templates.h"
#include "core/recipe/model_from/model_files.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

// None where the template is not there any more.
std::optional<ChatTemplates> templates_of(const DataRecipe& recipe) {
  if (!recipe.fine_tuning) return std::nullopt;
  try {
    return ChatTemplates(*recipe.fine_tuning, recipe.tokenizer);
  } catch (const Error& error) {
    if (error.code() == ExitCode::missing_input) return std::nullopt;
    throw;
  }
}

bool are_in(const std::vector<NamedTemplate>& sources, const fs::path& folder) {
  const auto file = chat_template_in(folder);
  if (!file) return false;
  const auto there = read_chat_templates(*file);
  return std::ranges::all_of(sources,
                             [&](const NamedTemplate& each) { return std::ranges::find(there, each) != there.end(); });
}

}  // namespace

std::vector<std::int64_t> text_ends(const Recipe& recipe, const fs::path& checkpoint, const Tokenizer& tokenizer) {
  std::vector<std::int64_t> ends;
  const auto add = [&](std::int64_t id) {
    if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  };
  // What follows the first is no text.
  if (!tokenizer.marks().end.empty()) add(tokenizer.marks().end.front());
  if (const fs::path origin = origin_of_model(recipe, checkpoint); !origin.empty())
    for (const std::int64_t id : read_model_marks(origin).ends) add(id);
  if (const auto templates = templates_of(recipe.data)) {
    std::vector<TokenId> ids;
    tokenizer.make_encoder()->encode(templates->end_of_answer().value_or(""), ids);
    if (ids.size() == 1) add(ids.front());
  }
  return ends;
}

void write_chat_templates(const DataRecipe& recipe, const fs::path& folder) {
  if (!recipe.fine_tuning || recipe.tokenizer.kind == TokenizerKind::bytes) return;
  const ChatTemplates templates(*recipe.fine_tuning, recipe.tokenizer);
  if (are_in(templates.sources(), folder)) return;
  for (const auto& [name, source] : templates.sources()) {
    if (name == "default") {
      write_file_atomically(folder / "chat_template.jinja", source);
      continue;
    }
    create_folder(folder / named_templates_folder);
    write_file_atomically(folder / named_templates_folder / (fs::path(name).filename().string() + ".jinja"), source);
  }
}

}  // namespace llmtrain
