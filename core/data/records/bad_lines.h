// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/data/records/record_reader.h"
#include "core/recipe/data_recipe.h"

namespace llmtrain {

// A line of a file that is no document or no conversation, or cannot be read.
class BadLine : public Error {
 public:
  // `reason` follows "line 3 "; `advice`, if any, says what a line should be. The message says how such lines are
  // skipped, too.
  BadLine(const std::filesystem::path& file, std::int64_t line, std::string reason, const std::string& advice = "");

  const std::string& place() const { return place_; }    // "a.jsonl: line 3"
  const std::string& reason() const { return reason_; }  // of this and other lines

 private:
  std::string place_, reason_;
};

// What becomes of bad lines (data.on_bad_line), and how many were skipped, by their reasons.
class BadLines {
 public:
  struct Reason {
    std::string reason;
    std::int64_t count = 0;
    std::string first;  // its place

    bool operator==(const Reason&) const = default;
  };
  // More reasons than these are counted together: they may name what the lines say.
  static constexpr std::size_t most_reasons = 50;
  static constexpr const char* other_reasons = "has another reason";

  explicit BadLines(OnBadLine policy = OnBadLine::stop) : policy_(policy) {}

  // What `read` returns; nothing where it throws BadLine and such lines are skipped.
  template <class Read>
  auto read(const Read& read) -> std::optional<decltype(read())> {
    if (policy_ == OnBadLine::stop) return read();
    try {
      return read();
    } catch (const BadLine& line) {
      add({line.reason(), 1, line.place()});
      return std::nullopt;
    }
  }
  // The next record that can be read; false at the end.
  bool next(RecordReader& reader, Record& record);

  // Counts those of lines that follow.
  void add(const BadLines& later);

  OnBadLine policy() const { return policy_; }
  std::int64_t count() const;
  // In the order of their first lines.
  const std::vector<Reason>& reasons() const { return reasons_; }

  // A sentence for each reason: "3 lines were skipped (data.on_bad_line): is not valid JSON, first in a.jsonl: line 3".
  std::vector<std::string> sentences() const;

  // That the files of `path` hold no `what`, with the sentences.
  Error nothing_left(const std::string& path, const char* what) const;

  // {"count": …, "reasons": [{"reason", "count", "first"}, …]}
  nlohmann::ordered_json json() const;
  // What json() has written, of the policy "skip". Throws nlohmann::json::exception for anything else.
  static BadLines of_json(const nlohmann::ordered_json& json);

 private:
  void add(const Reason& more);

  OnBadLine policy_;
  std::vector<Reason> reasons_;
};

}  // namespace llmtrain
