// SPDX-License-Identifier: Apache-2.0
#include "core/data/samples/token_samples.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/base/error.h"
#include "core/base/units.h"

namespace llmtrain {
namespace {

// One token more than a sample's input, for the last target.
void check_length(const TokenSource& source, const std::string& path, std::int64_t sequence_length) {
  if (source.tokens() > sequence_length) return;
  const auto skipped = source.bad_lines().sentences();
  throw Error(
      ExitCode::bad_data,
      fmt::format("'{}': holds {} tokens in {}; one sample needs {} (batch.sequence_length + 1)", path, source.tokens(),
                  format_number_of(static_cast<std::int64_t>(source.files()), "file"), sequence_length + 1) +
          (skipped.empty() ? "" : fmt::format("; {}", fmt::join(skipped, "; "))));
}

// Where no token ends documents, something else must.
void check_documents(const TokenSource& source, const std::string& path, const TokenSampleFormat& format) {
  if (format.document_end != no_token || source.dividers(no_token, 0).are_indexes) return;
  throw Error(ExitCode::bad_data, fmt::format("'{}': has files without an .idx that says where documents begin; "
                                              "data.document_mask.end_of_text must be the id that ends them",
                                              path));
}

}  // namespace

TokenSamples::TokenSamples(TokenSource source, const TokenSampleFormat& format, const std::string& path)
    : source_(std::move(source)),
      format_(format),
      sequence_{format.sequence_length, format.document_end.has_value(), true},
      fields_{{BatchField::token_ids, ElementType::int64, {format.sequence_length}, 0},
              {BatchField::targets, ElementType::int64, {format.sequence_length}, 0}} {
  check_length(source_, path, format.sequence_length);
  check_documents(source_, path, format);
}

// The last token is only ever a target, so n tokens have (n − 1) / T samples.
std::int64_t TokenSamples::samples() const { return (source_.tokens() - 1) / format_.sequence_length; }

void TokenSamples::read_valid(std::int64_t first, std::span<std::int64_t> tokens) const {
  source_.read(first, tokens);
  const auto invalid =
      std::ranges::find_if(tokens, [size = format_.vocab_size](std::int64_t id) { return id < 0 || id >= size; });
  if (invalid == tokens.end()) return;
  throw Error(ExitCode::bad_data,
              fmt::format("{} has the id {}, which is not below model.vocab_size ({}) and was not there when the file "
                          "was opened: files of tokens must not change while they are read",
                          source_.place_of(first + (invalid - tokens.begin())), *invalid, format_.vocab_size));
}

void TokenSamples::read(std::int64_t number, const FieldMemory& into) const {
  std::span<std::int64_t> ids = into.values<std::int64_t>(BatchField::token_ids);
  const std::span<std::int64_t> targets = into.values<std::int64_t>(BatchField::targets), starts = into.starts();
  const std::size_t length = std::max({ids.size(), targets.size(), starts.size()});
  const auto fits = [&](std::size_t size) { return size == 0 || size == length; };
  if (number < 0 || into.first_row < 0 || !fits(ids.size()) || !fits(targets.size()) || !fits(starts.size()) ||
      into.first_row + static_cast<std::int64_t>(length) > format_.sequence_length)
    throw std::invalid_argument("a sample has a number from 0, and fields of one length within the sequence");
  if (length == 0) return;
  const std::int64_t first = number * format_.sequence_length + into.first_row;
  // Documents are found among the tokens, also where nobody else asks for these.
  std::vector<std::int64_t> tokens;
  if (ids.empty() && !starts.empty()) {
    tokens.resize(length);
    ids = tokens;
  }
  read_valid(first, ids);
  if (!starts.empty()) source_.mark_documents(first, format_.document_end.value(), ids, starts);
  if (targets.empty()) return;
  if (ids.empty()) return read_valid(first + 1, targets);
  std::ranges::copy(ids.subspan(1), targets.begin());
  read_valid(first + static_cast<std::int64_t>(length), targets.last(1));
}

std::vector<DocumentRows> TokenSamples::documents_of(std::int64_t sample) const {
  if (!format_.document_end) return FileSamples::documents_of(sample);
  std::vector<std::int64_t> starts(static_cast<std::size_t>(format_.sequence_length));
  FieldMemory memory;
  memory.document_starts.emplace_back(starts);
  read(sample, memory);
  std::vector<DocumentRows> documents;
  for (std::int64_t row = 0; row < format_.sequence_length; ++row) {
    if (row == 0 || starts[static_cast<std::size_t>(row)] != 0) documents.push_back({row, 0});
    ++documents.back().length;
  }
  return documents;
}

double TokenSamples::weight(std::size_t term, std::int64_t, std::int64_t count) const {
  return static_cast<double>(count) * weight_of_each(term).value();
}

std::optional<double> TokenSamples::weight_of_each(std::size_t) const {
  return static_cast<double>(format_.sequence_length);
}

}  // namespace llmtrain
