// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/profile/operator_tables.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace llmtrain {
namespace {

std::vector<double> logarithms(const std::vector<double>& values) {
  std::vector<double> logs;
  for (const double value : values) logs.push_back(std::log2(value));
  return logs;
}

// Between which two sizes of an axis a size lies, and how far it is from the lower one to the upper one.
struct Place {
  std::size_t lower = 0;
  double fraction = 0;
  Basis basis = Basis::measured;
};

Place place_of(const std::vector<double>& axis, double at) {
  Place place;
  const double clamped = std::clamp(at, axis.front(), axis.back());
  while (place.lower + 2 < axis.size() && axis[place.lower + 1] <= clamped) ++place.lower;
  place.fraction = (clamped - axis[place.lower]) / (axis[place.lower + 1] - axis[place.lower]);
  if (clamped != at)
    place.basis = Basis::extrapolated;
  else if (place.fraction > 0 && place.fraction < 1)
    place.basis = Basis::interpolated;
  return place;
}

}  // namespace

EfficiencyTable::EfficiencyTable(std::vector<std::vector<double>> axes, std::vector<double> efficiencies)
    : axes_(std::move(axes)), efficiencies_(std::move(efficiencies)), log_efficiencies_(logarithms(efficiencies_)) {
  for (const std::vector<double>& axis : axes_) log_axes_.push_back(logarithms(axis));
}

EfficiencyTable::Found EfficiencyTable::find(std::span<const double> sizes) const {
  // The corners of the cell around the sizes, with their offsets and weights; each axis doubles them.
  std::array<std::size_t, 1U << most_axes> offsets{};
  std::array<double, 1U << most_axes> weights{1};
  std::size_t corners = 1;
  Found found;
  for (std::size_t axis = 0; axis < log_axes_.size(); ++axis) {
    const Place place = place_of(log_axes_[axis], std::log2(sizes[axis]));
    found.basis = std::max(found.basis, place.basis);
    for (std::size_t corner = 0; corner < corners; ++corner) {
      const std::size_t lower = offsets[corner] * log_axes_[axis].size() + place.lower;
      offsets[corner] = lower;
      offsets[corners + corner] = lower + 1;
      weights[corners + corner] = weights[corner] * place.fraction;
      weights[corner] *= 1 - place.fraction;
    }
    corners *= 2;
  }
  double sum = 0;
  for (std::size_t corner = 0; corner < corners; ++corner) sum += weights[corner] * log_efficiencies_[offsets[corner]];
  found.efficiency = std::exp2(sum);
  return found;
}

const EfficiencyTable* table_of(const TablesByType& tables, const std::string& type) {
  const auto found = tables.find(type);
  return found == tables.end() ? nullptr : &found->second;
}

}  // namespace llmtrain
