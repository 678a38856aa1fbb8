// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/data/samples/sample_source.h"

namespace llmtrain {

// A document of a sample: consecutive rows of its sequence.
struct DocumentRows {
  std::int64_t begin = 0;
  std::int64_t length = 0;

  bool operator==(const DocumentRows&) const = default;
};

// The samples of the files that one entry of data.train or data.validation names, in the order of the files. Numbers
// are below samples(): a Dataset makes an order without end of those of its sources.
class FileSamples : public SampleSource {
 public:
  // What find_files() has found.
  virtual const std::vector<std::filesystem::path>& paths() const = 0;
  // Tokens of all files; of conversations those that samples hold.
  virtual std::int64_t tokens() const = 0;
  // The documents of a sample, without padding; of several sequences those of one after another.
  virtual std::vector<DocumentRows> documents_of(std::int64_t) const { return {{0, sequences().front().length}}; }
  // The same sample for a source that draws random numbers for it: `draw` counts the times that the source has been
  // read, so that a sample differs each time. What it weighs does not. Others ignore it.
  virtual void read_drawn(std::int64_t number, std::int64_t, const FieldMemory& into) const { read(number, into); }
  // Whether a row's target is the token that stands there, or stood there before it was hidden; else it is the token
  // that follows.
  virtual bool restores_tokens() const { return false; }
  // Whose samples these are made of, if any, else these.
  virtual const FileSamples& origin() const { return *this; }
  // What each sample weighs, where all weigh the same: nobody counts them one by one then.
  virtual std::optional<double> weight_of_each(std::size_t term) const = 0;
};

}  // namespace llmtrain
