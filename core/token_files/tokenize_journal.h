// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/data/records/bad_lines.h"

namespace llmtrain {

// All that the tokens of a job follow from, each with a name for messages: the tokenizer, the files, …
using JobDescription = std::vector<std::pair<std::string, std::string>>;

// A place between two records of a job's files.
struct TextPosition {
  std::size_t file = 0;
  std::int64_t offset = 0;  // into the file's text, unpacked
  std::int64_t line = 0;    // lines before it
};

// How far a job had come: what its files held then is on the disk.
struct JobState {
  TextPosition next;  // what is not in the files yet begins there
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::int64_t text_bytes = 0;
  BadLines bad_lines{OnBadLine::skip};
};

// The file in which a job says how far it has come, so that another process can go on after a kill.
class TokenizeJournal {
 public:
  TokenizeJournal(std::filesystem::path file, JobDescription job) : file_(std::move(file)), job_(std::move(job)) {}

  const std::filesystem::path& file() const { return file_; }

  // None where there is no such file, or none that a job of this program has written. Throws Error(cannot_write) that
  // names what differs where it is of another job.
  std::optional<JobState> read() const;
  // Replaces the file as a whole. Throws Error(cannot_write).
  void write(const JobState& state) const;

 private:
  std::filesystem::path file_;
  JobDescription job_;
};

}  // namespace llmtrain
