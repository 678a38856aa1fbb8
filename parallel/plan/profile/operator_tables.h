// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmtrain {

// Whether a looked-up efficiency was measured at these sizes, lies between sizes that were, or beyond all of them.
enum class Basis { measured, interpolated, extrapolated };
constexpr std::array<std::string_view, 3> basis_words = {"measured", "interpolated", "extrapolated"};

// Measured efficiencies over a grid of sizes: the rate that an operator reached ÷ the device's peak. Between sizes the
// logarithm of the efficiency is linear in those of the sizes, as in AIConfigurator's tables (NVIDIA, Apache-2.0).
class EfficiencyTable {
 public:
  static constexpr std::size_t most_axes = 4;

  EfficiencyTable() = default;
  // `efficiencies`: one for each combination of sizes, the last axis fastest. Each axis has two or more positive sizes
  // in increasing order.
  EfficiencyTable(std::vector<std::vector<double>> axes, std::vector<double> efficiencies);

  struct Found {
    double efficiency = 0;
    Basis basis = Basis::measured;
  };
  // Beyond the grid: the efficiency at its nearest point. `sizes`: one per axis, positive.
  Found find(std::span<const double> sizes) const;

  bool is_empty() const { return efficiencies_.empty(); }
  const std::vector<std::vector<double>>& axes() const { return axes_; }
  const std::vector<double>& efficiencies() const { return efficiencies_; }

 private:
  std::vector<std::vector<double>> axes_;
  std::vector<double> efficiencies_;
  std::vector<std::vector<double>> log_axes_;  // to the base 2
  std::vector<double> log_efficiencies_;
};

// By the type of the operands: "bf16" (for fp16, too), "fp8" with a scale per tensor, "fp8_block" with one per block,
// and "nvfp4". FP8 products were measured with the cast of their first operand from 16 bits. Collectives are by name.
using TablesByType = std::map<std::string, EfficiencyTable>;
constexpr std::array<const char*, 4> table_types = {"bf16", "fp8", "fp8_block", "nvfp4"};
constexpr std::array<const char*, 4> table_collectives = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};

// A device's operators as they were measured one by one: a profile's section "operators".
struct OperatorTables {
  static constexpr std::array<const char*, 3> product_axes = {"rows", "columns", "inner"};
  static constexpr std::array<const char*, 4> attention_axes = {"sequence", "heads", "heads_per_key", "head_size"};
  static constexpr std::array<const char*, 3> grouped_axes = {"rows", "experts", "elements"};
  static constexpr std::array<const char*, 2> collective_axes = {"ranks", "bytes"};

  // The profile whose device was measured; another one than the profile's own where it borrows the tables.
  std::string measured_on;
  // Its speed in a step ÷ that of an operator alone, because the clock is lower where the device is hot.
  double training_speed = 1;
  // A pass over memory reaches this part of the bandwidth, after so many seconds.
  double memory_fraction = 1;
  double memory_seconds = 0;
  // What FP8 products' times include of the cast of their first operand, for each of its elements.
  double fp8_cast_seconds = 0;
  TablesByType products;
  // The forward of fused causal attention, FLOPs counted without the masked half; heads are those of the whole batch.
  TablesByType attention;
  // Products of several experts, each with rows of its own, in one kernel: by the rows of an expert, the experts of a
  // device, and the elements of an expert's matrix. The time at the device's peak or of the bytes at its bandwidth,
  // whichever is longer, ÷ the time that it takes. Empty where none was measured.
  TablesByType grouped_products;
  // Among devices of one node: the bytes that each sends around a ring (ring_bytes) ÷ time, relative to the node's
  // link bandwidth; bytes are those of the whole tensor. Empty where none was measured.
  TablesByType collectives;
};

// Null where nothing was measured with this type.
const EfficiencyTable* table_of(const TablesByType& tables, const std::string& type);

// The JSON of a profile's section "operators".
nlohmann::ordered_json to_json(const OperatorTables& tables);

}  // namespace llmtrain
