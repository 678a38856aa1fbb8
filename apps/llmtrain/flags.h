// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/recipe_io.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain::app {

// The positional argument of a recipe's file, or of several: one that exists, or one of the bundled recipes, which its
// name selects (recipe_file_meant()).
CLI::Option* add_recipe_argument(CLI::App& command, std::string& file, const std::string& name = "RECIPE",
                                 const std::string& help = "The recipe's file, or a bundled recipe's name");
CLI::Option* add_recipe_arguments(CLI::App& command, std::vector<std::string>& files);

// A model that open_source() finds.
void add_source_argument(CLI::App& command, std::string& source);

// `--set pointer.path=JSON`, repeatable.
void add_set_flag(CLI::App& command, std::vector<Override>& overrides);

// Flags of run and of the job that starts it.
struct RunFlags {
  std::optional<std::string> directory;
  std::optional<std::string> ranks;

  // The keys that they stand for.
  std::vector<Override> overrides() const;
};
void add_run_dir_flag(CLI::App& command, RunFlags& flags);
void add_ranks_flag(CLI::App& command, RunFlags& flags);

// The override that sets `pointer_path` to a string, whatever its content.
Override text_override(const std::string& pointer_path, const std::string& text);
// The same for a list of strings.
Override texts_override(const std::string& pointer_path, const std::vector<std::string>& texts);

// `--tensor` and `--pipeline` of commands that use a trained model.
void add_inference_rank_flags(CLI::App& command, InferenceRanks& ranks);

// `--weight-memory` and `--weight-folder` of commands that use a trained model. The flags outlive the parsing.
struct WeightMemoryFlags {
  std::optional<std::uint64_t> bytes;
  std::string folder;
  // None where the first flag is not given.
  std::optional<WeightMemory> memory() const;
};
void add_weight_memory_flags(CLI::App& command, WeightMemoryFlags& flags);

// `--kv-cache-dtype` of commands with which texts grow.
CLI::Option* add_key_value_flag(CLI::App& command, KeyValueType& type);

// The option takes one of `words`; another is refused with the one that was probably meant.
CLI::Option* choose_from(CLI::Option* option, const std::vector<std::string>& words);

// Flag values: numbers of at least 0 or above 0, without "nan" and "inf"; from 0 to 1; whole numbers that fit 64 bits.
CLI::Validator not_negative();
CLI::Validator positive();
CLI::Validator share();
CLI::Validator whole_number();
CLI::Validator whole_number_not_negative();
CLI::Validator whole_number_positive();
CLI::Validator text_not_empty();

// Words as choose_from() takes them.
std::vector<std::string> words_of(std::span<const std::string_view> words);

}  // namespace llmtrain::app
