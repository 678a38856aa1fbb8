// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/data/samples/sample_source.h"

namespace llmtrain {

// The samples of the files that one entry of data.train or data.validation names, in the order of the files. Numbers
// are below samples(): a Dataset makes an order without end of those of its sources.
class FileSamples : public SampleSource {
 public:
  // What find_files() has found.
  virtual const std::vector<std::filesystem::path>& paths() const = 0;
  // Tokens of all files; of conversations those that samples hold.
  virtual std::int64_t tokens() const = 0;
  // What each sample weighs, where all weigh the same: nobody counts them one by one then.
  virtual std::optional<double> weight_of_each(std::size_t term) const = 0;
};

}  // namespace llmtrain
