// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/data/data_cache.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// Token files of the sources of text, made by one process with all processors and kept in the cache, so that no other
// process tokenises and all of them map one copy: by source, an empty path where none is made, and no list without a
// cache. With bytes as tokens, texts whose files are nothing but text need none (is_read_as_bytes()), while rows and
// packed files would fill the memory of each process; a source that has token files, too, is read as it is. A file is
// named by what its tokens follow from (the tokenizer's files, and the texts' paths, sizes and times of change, and
// whether bad lines are skipped), and
// serves all sources of the same text. Work that was stopped or killed goes on at the next call.
//
// `role` names the sources in messages: "/data/train". Throws what find_files(), open_tokenizer() and tokenize_files()
// throw, each message after the source's place, and stopped_while().
std::vector<std::filesystem::path> tokenized_sources(const std::vector<DataSource>& sources,
                                                     const TokenizerRecipe& tokenizer, std::int64_t vocab_size,
                                                     const DataCache& cache, const std::string& role,
                                                     OnBadLine on_bad_line = OnBadLine::stop);

// Finds the files of all sources, so that a mistake in the last is reported before the first has been tokenised, which
// may take hours. Throws what tokenized_sources() throws of them.
void check_sources(const std::vector<DataSource>& sources, const TokenizerRecipe& tokenizer, const DataCache& cache,
                   const std::string& role);

// Removes what tokenized_sources() has made of other texts, or begun. For all roles of a run at once, after which it
// needs none but `used`.
void remove_other_token_files(const DataCache& cache, const std::vector<std::filesystem::path>& used);

}  // namespace llmtrain
