// SPDX-License-Identifier: Apache-2.0
#include "core/token_files/tokenized_sources.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/progress_lines.h"
#include "core/data/file_search.h"
#include "core/data/records/skipped_lines.h"
#include "core/data/token_source.h"
#include "core/machine/processor.h"
#include "core/token_files/token_file_writer.h"
#include "core/token_files/tokenize_files.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* format_name = "megatron";
// How the names of all files begin that are made here.
constexpr std::string_view prefix = "tokens-";

// Sixteen digits: names are told apart, and no one makes collisions on purpose in a run of their own.
std::string job_name(const JobDescription& job) {
  std::string text;
  for (const auto& [what, value] : job) text += what + "\n" + value + "\n";
  return sha256_of(text).substr(0, 16);
}

void make_token_file(const TokenizeJob& job, const TokenizerRecipe& recipe, std::int64_t vocab_size,
                     const fs::path& file, const std::string& path, const DataCache::Stops& stops) {
  const auto tokenizer = open_tokenizer(recipe, vocab_size);
  TokenFileWriter writer(file, TokenFileFormat::megatron, tokenizer->vocab_size(),
                         description_of(job, recipe, format_name));
  ProgressLines lines("tokenising " + path);
  tokenize_files(job, *tokenizer, writer, [&](const TokenizeProgress& progress) {
    if (stops()) {
      writer.leave_to_another();
      throw stopped_while("tokenising " + path);
    }
    lines.show(progress.share(), progress.text_bytes);
  });
  writer.close();
  log().info("{}: made of {}, {} tokens", writer.file().string(), path, writer.tokens());
}

// The token file of a source that needs one, else an empty path. On the process that makes it.
std::string token_file_of(const DataSource& source, const TokenizerRecipe& recipe, std::int64_t vocab_size,
                          const fs::path& folder, OnBadLine on_bad_line, const DataCache::Stops& stops) {
  TokenizeJob job{find_files(source.path), source.text_key, usable_cores()};
  job.on_bad_line = on_bad_line;
  if (std::ranges::any_of(job.files, is_token_file)) return "";
  // Their bytes are the tokens, mapped as they lie.
  const auto as_bytes = [&](const fs::path& text) { return is_read_as_bytes(text, source.text_key); };
  if (recipe.kind == TokenizerKind::bytes && std::ranges::all_of(job.files, as_bytes)) return "";
  JobDescription description = description_of(job, recipe, format_name);
  if (on_bad_line == OnBadLine::skip) description.emplace_back("bad lines", "skipped");
  const fs::path file = folder / (std::string(prefix) + job_name(description) + ".bin");
  // Its index is put in place before it.
  if (!entry_exists(file)) {
    create_folder(folder);
    make_token_file(job, recipe, vocab_size, file, source.path, stops);
  }
  return file.string();
}

// Calls work(source, stops) for each source on the process that makes the files, and names the source in its errors.
template <class Work>
std::vector<fs::path> of_each(const std::vector<DataSource>& sources, const TokenizerRecipe& tokenizer,
                              const DataCache& cache, const std::string& role, const Work& work) {
  std::vector<fs::path> files;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    files.emplace_back(cache.once([&](const DataCache::Stops& stops) -> std::string {
      try {
        return work(sources[i], stops);
      } catch (const Error& error) {
        if (error.code() == ExitCode::stopped) throw;
        throw with_key(error, tokenizer, fmt::format("{}/{}/path", role, i));
      }
    }));
  }
  return files;
}

}  // namespace

void check_sources(const std::vector<DataSource>& sources, const TokenizerRecipe& tokenizer, const DataCache& cache,
                   const std::string& role) {
  if (cache.folder.empty()) return;
  of_each(sources, tokenizer, cache, role, [](const DataSource& source, const DataCache::Stops&) {
    find_files(source.path);
    return std::string();
  });
}

std::vector<fs::path> tokenized_sources(const std::vector<DataSource>& sources, const TokenizerRecipe& tokenizer,
                                        std::int64_t vocab_size, const DataCache& cache, const std::string& role,
                                        OnBadLine on_bad_line) {
  if (cache.folder.empty()) return {};
  return of_each(sources, tokenizer, cache, role, [&](const DataSource& source, const DataCache::Stops& stops) {
    return token_file_of(source, tokenizer, vocab_size, cache.folder, on_bad_line, stops);
  });
}

void remove_other_token_files(const DataCache& cache, const std::vector<fs::path>& used) {
  if (cache.folder.empty()) return;
  cache.once([&](const DataCache::Stops&) {
    std::error_code ignored;
    std::vector<fs::path> others;
    for (const fs::directory_entry& entry : fs::directory_iterator(cache.folder, ignored)) {
      const fs::path& path = entry.path();
      const bool is_used = std::ranges::any_of(used, [&](const fs::path& file) {
        return path == file || path == fs::path(file).replace_extension(".idx") || path == skipped_lines_file(file);
      });
      if (path.filename().string().starts_with(prefix) && !is_used) others.push_back(path);
    }
    for (const fs::path& other : others) fs::remove(other, ignored);
    return std::string();
  });
}

}  // namespace llmtrain
