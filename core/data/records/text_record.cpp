// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/text_record.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/data/records/text_check.h"
#include "core/machine/host_memory.h"

namespace llmtrain {
namespace {

// The longest text, in bytes, that is read from a file that is one record.
std::size_t most_text() {
  const std::int64_t available = host_memory().available;  // 0: unknown
  return available == 0 ? std::numeric_limits<std::int64_t>::max()
                        : std::max(longest_line, static_cast<std::size_t>(available / 2));
}

}  // namespace

TextReader::TextReader(const std::filesystem::path& file) : file_(file), stream_(open_input(file)) {}

void TextReader::skip(std::int64_t offset, std::int64_t) {
  stream_->skip(offset);
  read_ = offset;
}

bool TextReader::next(Record& record) {
  record = {};
  std::optional<std::size_t> most;
  std::vector<char> block(std::size_t{1} << 20);
  while (const std::size_t count = stream_->read(block)) {
    if (record.text.empty()) require_text(file_, {block.data(), count});
    record.text.append(block.data(), count);
    read_ += static_cast<std::int64_t>(count);
    if (record.text.size() <= longest_line) continue;
    // Asked once: the text itself takes of it.
    if (!most) most = most_text();
    if (record.text.size() > *most)
      throw Error(ExitCode::bad_data,
                  fmt::format("{}: has more than {} of text, half of the memory that this machine has left; divide it "
                              "into several files, or write it as JSON Lines, a document a line",
                              file_.string(), format_bytes(static_cast<std::int64_t>(*most))));
  }
  return !record.text.empty();
}

}  // namespace llmtrain
