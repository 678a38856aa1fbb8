// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/checkpoint_difference.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>

#include "core/base/element_type.h"
#include "core/base/error.h"
#include "core/base/small_float.h"
#include "core/checkpoint/safetensors.h"
#include "core/checkpoint/stored_scale.h"
#include "core/checkpoint/tensor_slice.h"

namespace llmtrain {
namespace {

constexpr std::int64_t piece_elements = 1 << 20;  // 8 MB as double, for either checkpoint

template <class Stored, class Widen>
void widen_all(std::span<const std::byte> bytes, std::vector<double>& values, Widen widen) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    values[i] = static_cast<double>(widen(stored));
  }
}

template <class Stored>
void convert_all(std::span<const std::byte> bytes, std::vector<double>& values) {
  widen_all<Stored>(bytes, values, [](Stored stored) { return stored; });
}

using Decode = void (*)(std::span<const std::byte>, std::vector<double>&);

Decode decoder_of(const std::string& dtype) {
  if (dtype == "F32") return convert_all<float>;
  if (dtype == "F64") return convert_all<double>;
  if (dtype == "BF16")
    return [](auto bytes, auto& values) { widen_all<std::uint16_t>(bytes, values, BrainFloat::widen); };
  if (dtype == "F16") return [](auto bytes, auto& values) { widen_all<std::uint16_t>(bytes, values, Float16::widen); };
  if (dtype == "F8_E4M3")
    return [](auto bytes, auto& values) { widen_all<std::uint8_t>(bytes, values, Float8E4M3::widen); };
  if (dtype == "I64") return convert_all<std::int64_t>;
  if (dtype == "I32") return convert_all<std::int32_t>;
  if (dtype == "I16") return convert_all<std::int16_t>;
  if (dtype == "I8") return convert_all<std::int8_t>;
  if (dtype == "U8" || dtype == "BOOL") return convert_all<std::uint8_t>;
  return nullptr;
}

// One tensor of one checkpoint, read box by box.
class TensorValues {
 public:
  TensorValues(const CheckpointReader& checkpoint, const LogicalTensor& tensor)
      : checkpoint_(checkpoint),
        tensor_(tensor),
        scale_(tensor.scale / read_number(checkpoint, scale_name(tensor.name)).value_or(1)),
        decode_(decoder_of(tensor.dtype)) {
    if (decode_ == nullptr)
      throw Error(ExitCode::bad_data, checkpoint.folder().string() + ": " + tensor.name + ": its dtype " +
                                          tensor.dtype +
                                          " cannot be compared; it must be F64, F32, BF16, F16, F8_E4M3 "
                                          "or an integer of at most 64 bits");
  }

  const std::vector<double>& read(const SliceBox& box) {
    const std::int64_t bytes = safetensors_bytes(tensor_.dtype, box.shape).value_or(0);
    bytes_.resize(static_cast<std::size_t>(bytes));
    values_.resize(static_cast<std::size_t>(element_count(box.shape)));
    checkpoint_.read_box(tensor_.name, box, bytes_);
    decode_(bytes_, values_);
    for (double& value : values_) value *= scale_;
    return values_;
  }

 private:
  const CheckpointReader& checkpoint_;
  const LogicalTensor& tensor_;
  double scale_;  // of what is stored, in the tensor's values
  Decode decode_;
  std::vector<std::byte> bytes_;
  std::vector<double> values_;
};

void add_values(const std::vector<double>& first, const std::vector<double>& second, TensorDifference& difference,
                double& squares, double& squared_difference) {
  for (std::size_t i = 0; i < first.size(); ++i) {
    const double a = first[i], b = second[i];
    if (!std::isnan(a)) squares += a * a;
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    ++difference.differing;
    const double distance = std::abs(a - b);
    squared_difference += distance * distance;
    // Not std::max(), which would lose a NaN.
    if (!(distance <= difference.largest)) difference.largest = distance;
  }
}

TensorDifference compare_values(const CheckpointReader& first, const LogicalTensor& of_first,
                                const CheckpointReader& second, const LogicalTensor& of_second) {
  TensorDifference difference{.name = of_first.name, .reason = ""};
  TensorValues firsts(first, of_first), seconds(second, of_second);
  difference.elements = element_count(of_first.shape);
  double squares = 0, squared_difference = 0;
  for (std::int64_t begin = 0; begin < difference.elements; begin += piece_elements) {
    const std::int64_t end = std::min(begin + piece_elements, difference.elements);
    for (const SliceBox& box : boxes_of_range(of_first.shape, begin, end))
      add_values(firsts.read(box), seconds.read(box), difference, squares, squared_difference);
  }
  if (difference.differing > 0) difference.relative = std::sqrt(squared_difference) / std::sqrt(squares);
  return difference;
}

TensorDifference missing_in(const CheckpointReader& there, const LogicalTensor& tensor) {
  return {.name = tensor.name, .reason = "is only in " + there.folder().string()};
}

}  // namespace

CheckpointDifference compare_checkpoints(const CheckpointReader& first, const CheckpointReader& second) {
  CheckpointDifference result;
  for (const LogicalTensor& tensor : first.tensors()) {
    const LogicalTensor* other = second.find(tensor.name);
    if (other == nullptr) {
      result.tensors.push_back(missing_in(first, tensor));
      continue;
    }
    ++result.compared;
    if (tensor.shape != other->shape) {
      result.tensors.push_back({.name = tensor.name,
                                .reason = fmt::format("has shape [{}] and [{}]", fmt::join(tensor.shape, ", "),
                                                      fmt::join(other->shape, ", "))});
      continue;
    }
    TensorDifference difference = compare_values(first, tensor, second, *other);
    if (difference.differing > 0) result.tensors.push_back(std::move(difference));
  }
  for (const LogicalTensor& tensor : second.tensors())
    if (first.find(tensor.name) == nullptr) result.tensors.push_back(missing_in(second, tensor));
  return result;
}

}  // namespace llmtrain
