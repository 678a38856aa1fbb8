// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/inference/sample_file.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "core/base/error.h"

namespace llmtrain::app {

SampleFile::SampleFile(const std::filesystem::path& file, const std::vector<Json>& prompts, std::int64_t samples)
    : file_(file), samples_(samples), end_(file), held_(open_file(file, O_RDWR)) {
  if (held_ && try_lock(*held_, FileLock::exclusive) == FileLocking::taken)
    throw Error(ExitCode::cannot_write, file.string() + ": another process writes it");
  const std::int64_t bytes = keep(read_file(file), prompts);
  if (!held_ || ftruncate(*held_, bytes) != 0)
    throw Error(ExitCode::cannot_write, file.string() + ": cannot be cut: " + std::strerror(errno));
}

std::int64_t SampleFile::keep(const std::string& content, const std::vector<Json>& prompts) {
  std::int64_t bytes = 0, lines = 0;
  for (std::size_t begin = 0, end = content.find('\n'); end != std::string::npos; end = content.find('\n', begin)) {
    const JsonText line = parse_json(content.substr(begin, end - begin));
    const std::int64_t prompt = lines / samples_;
    const bool is_own = line.error.empty() && line.value.is_object() && prompt < std::ssize(prompts) &&
                        line.value.value("prompt", Json()) == prompts[static_cast<std::size_t>(prompt)] &&
                        line.value.value("sample", Json()) == lines % samples_;
    if (!is_own)
      throw Error(ExitCode::bad_data,
                  fmt::format("{}: line {} is not the text of prompt {}, sample {}; go on with the prompts and "
                              "--samples that the file was begun with, or name another --output",
                              file_.string(), lines + 1, prompt + 1, lines % samples_ + 1));
    begin = end + 1;
    if (++lines % samples_ != 0) continue;
    bytes = static_cast<std::int64_t>(begin);
    kept_lines_ = lines;
  }
  return bytes;
}

}  // namespace llmtrain::app
