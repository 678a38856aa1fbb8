// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/row_messages.h"

#include "parallel/shard/tensor_array.h"

namespace llmtrain {

RowsUnderWay RowMessages::start(at::Tensor rows, std::span<const std::int64_t> sent, at::Tensor result,
                                std::span<const std::int64_t> received) const {
  const auto elements = [&](std::span<const std::int64_t> numbers) {
    std::vector<std::int64_t> counts(numbers.begin(), numbers.end());
    for (std::int64_t& count : counts) count *= rows.size(1);
    return counts;
  };
  const std::vector<std::int64_t> input = elements(sent), output = elements(received);
  Handle handle =
      communicator_->all_to_all_v(group_, Purpose::expert, array_of(rows), array_of(result), {input, output});
  return {std::move(rows), std::move(result), std::move(handle)};
}

std::vector<std::int64_t> RowMessages::exchange(std::span<const std::int64_t> numbers) const {
  std::vector<std::int64_t> theirs(numbers.size());
  const auto bytes = static_cast<std::int64_t>(numbers.size_bytes());
  communicator_
      ->all_to_all(group_, Purpose::expert, ConstArray{numbers.data(), bytes, ElementType::uint8},
                   Array{theirs.data(), bytes, ElementType::uint8})
      .wait();
  return theirs;
}

}  // namespace llmtrain
