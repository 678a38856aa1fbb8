// SPDX-License-Identifier: Apache-2.0
#include "tests/core/checkpoint/checkpoint_fixture.h"

#include <utility>

#include "core/checkpoint/safetensors.h"
#include "core/checkpoint/tensor_slice.h"

namespace llmtrain::test {

SampleCheckpoint::SampleCheckpoint(int salt) : salt_(salt) {
  state_.data_position = 32 * salt;
  state_.seed = -5;
  state_.recipe = {{"name", "sample"}, {"model", {{"layers", 2}, {"norm_eps", 1e-5}}}};
  parts_.reserve(16);
  add("layers.0.attention.query.weight", "F32", {6, 4});
  add("layers.0.attention.query.bias", "BF16", {5}, 0.125);
  add_quarters("embedding.weight.m", 8, 6);
  add("scalar", "I64", {});
  add("empty", "F32", {0, 3});
}

void SampleCheckpoint::add(const std::string& name, const std::string& dtype, std::vector<std::int64_t> shape,
                           double scale) {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(*safetensors_bytes(dtype, shape)) + 1);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<unsigned char>(i * 7 + name.size() + static_cast<std::size_t>(salt_) * 31);
  parts_.push_back(bytes);
  bytes.pop_back();  // the spare byte only gives empty tensors an address
  bytes_[name] = std::move(bytes);
  const std::vector<std::int64_t> origin(shape.size(), 0);
  slices_.push_back({name, dtype, shape, origin, shape, parts_.back().data(), scale});
}

void SampleCheckpoint::add_quarters(const std::string& name, std::int64_t rows, std::int64_t columns) {
  std::vector<unsigned char> whole(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < whole.size(); ++i)
    whole[i] = static_cast<unsigned char>(i + static_cast<std::size_t>(salt_));
  for (std::int64_t top : {std::int64_t{0}, rows / 2})
    for (std::int64_t left : {std::int64_t{0}, columns / 2}) {
      std::vector<unsigned char> part;
      for (std::int64_t row = top; row < top + rows / 2; ++row)
        for (std::int64_t column = left; column < left + columns / 2; ++column)
          part.push_back(whole[static_cast<std::size_t>(row * columns + column)]);
      parts_.push_back(std::move(part));
      slices_.push_back({name, "U8", {rows, columns}, {top, left}, {rows / 2, columns / 2}, parts_.back().data(), 1});
    }
  bytes_[name] = std::move(whole);
}

std::filesystem::path SampleCheckpoint::write(const std::filesystem::path& checkpoints, std::int64_t step,
                                              std::int64_t keep) {
  state_.step = step;
  return write_checkpoint(checkpoints, state_, slices_, keep, 120);
}

bool SampleCheckpoint::is_in(const std::filesystem::path& folder) const {
  const CheckpointReader reader(folder);
  if (reader.tensors().size() != bytes_.size()) return false;
  for (const auto& [name, expected] : bytes_) {
    const LogicalTensor* tensor = reader.find(name);
    if (tensor == nullptr) return false;
    std::vector<unsigned char> bytes(expected.size());
    const SliceBox whole{std::vector<std::int64_t>(tensor->shape.size()), tensor->shape};
    reader.read_box(name, whole, std::as_writable_bytes(std::span(bytes)));
    if (bytes != expected) return false;
  }
  return true;
}

void read_range(const CheckpointReader& reader, const std::string& name, std::int64_t begin, std::int64_t end,
                std::span<std::byte> destination) {
  const LogicalTensor* tensor = reader.find(name);
  const std::size_t width = begin == end ? 0 : destination.size() / static_cast<std::size_t>(end - begin);
  for (const SliceBox& box : boxes_of_range(tensor->shape, begin, end)) {
    const auto part = destination.first(static_cast<std::size_t>(element_count(box.shape)) * width);
    reader.read_box(name, box, part);
    destination = destination.subspan(part.size());
  }
}

}  // namespace llmtrain::test
