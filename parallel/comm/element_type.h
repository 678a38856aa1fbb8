// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace llmtrain {

// What the memory given to a Communicator holds. float8_e4m3 is the finite kind with NaN and no infinity.
enum class ElementType { float32, bfloat16, float16, float8_e4m3, float8_e5m2, int32, int64, uint8 };

// Bytes of one element.
std::int64_t element_size(ElementType type);

// "fp32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "int32", "int64", "uint8".
std::string_view element_name(ElementType type);

// Whose memory it is: the processor's, or the GPU's of the rank.
enum class Memory { host, device };

// Memory that a Communicator reads or writes; the caller owns it. It may lie at any address.
struct ConstArray {
  const void* data = nullptr;
  std::int64_t count = 0;  // elements
  ElementType type = ElementType::uint8;
  Memory memory = Memory::host;

  std::int64_t bytes() const { return count * element_size(type); }
};

struct Array {
  void* data = nullptr;
  std::int64_t count = 0;  // elements
  ElementType type = ElementType::uint8;
  Memory memory = Memory::host;

  std::int64_t bytes() const { return count * element_size(type); }
  operator ConstArray() const { return {data, count, type, memory}; }
};

}  // namespace llmtrain
