// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/data/samples/dataset.h"
#include "core/data/samples/sample_source.h"
#include "core/recipe/recipe.h"
#include "core/recipe/step_shapes.h"

namespace llmtrain {

// A step's number (from 0), how many samples of the data set's order earlier steps consumed, what it makes of those of
// a micro-batch, and which percent of the samples, the easiest, it reads.
struct BatchPlace {
  std::int64_t step = 0;
  std::int64_t first_sample = 0;
  StepShape shape{};
  std::int64_t easiest_percent = 100;

  bool operator==(const BatchPlace&) const = default;
};

// The sequences of one step's global batch, micro-batch by micro-batch: the next samples of the data set's
// order, or what its shape cuts out of them (StepShapes describes that).
class StepSamples final : public SampleSource {
 public:
  // `data` outlives this. Throws std::invalid_argument where its samples would be cut and cannot be.
  StepSamples(const Dataset& data, const BatchRecipe& batch, const BatchPlace& place);

  std::span<const SampleField> fields() const override { return fields_; }
  std::span<const SampleSequence> sequences() const override { return sequences_; }
  // How many the step trains on.
  std::int64_t samples() const override { return place_.shape.global_batch / batch_.micro * place_.shape.sequences; }
  // Whole sequences alone.
  void read(std::int64_t number, const FieldMemory& into) const override;
  double weight(std::size_t term, std::int64_t first, std::int64_t count) const override;

 private:
  // Where a sequence begins in the data.
  struct Place {
    std::int64_t sample = 0;
    std::int64_t row = 0;
  };
  Place place_of(std::int64_t number) const;
  bool is_cut() const { return place_.shape.sequence_length != batch_.sequence_length; }

  const Dataset& data_;
  BatchRecipe batch_;
  BatchPlace place_;
  std::vector<SampleSequence> sequences_;
  std::vector<SampleField> fields_;
};

}  // namespace llmtrain
