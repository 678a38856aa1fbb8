// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/nccl/element_types.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tests/emulator/device/fault.h"

namespace emulated {
namespace {

// Numbers of 16 bits, as a type that computes in fp32.
class Bfloat16 {
 public:
  operator float() const {
    const std::uint32_t word = std::uint32_t{bits_} << 16;
    float value = 0;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
  Bfloat16& operator=(float value) {
    std::uint32_t word = 0;
    std::memcpy(&word, &value, sizeof word);
    bits_ = static_cast<std::uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16);  // to the nearest, ties to even
    return *this;
  }

 private:
  std::uint16_t bits_ = 0;
};

template <class T>
void combine_as(char* sum, const char* other, std::size_t bytes, ncclRedOp_t operation) {
  for (std::size_t i = 0; i < bytes; i += sizeof(T)) {
    T a, b;
    std::memcpy(&a, sum + i, sizeof a);
    std::memcpy(&b, other + i, sizeof b);
    switch (operation) {
      case ncclSum:
        a = a + b;
        break;
      case ncclMax:
        a = a < b ? b : a;
        break;
      case ncclMin:
        a = b < a ? b : a;
        break;
      default:
        throw Fault("NCCL's operation " + std::to_string(operation) + " is not emulated");
    }
    std::memcpy(sum + i, &a, sizeof a);
  }
}

}  // namespace

std::size_t type_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

void combine(char* sum, const char* other, std::size_t bytes, ncclDataType_t type, ncclRedOp_t operation) {
  switch (type) {
    case ncclFloat32:
      return combine_as<float>(sum, other, bytes, operation);
    case ncclFloat64:
      return combine_as<double>(sum, other, bytes, operation);
    case ncclInt32:
      return combine_as<std::int32_t>(sum, other, bytes, operation);
    case ncclInt64:
      return combine_as<std::int64_t>(sum, other, bytes, operation);
    case ncclUint8:
      return combine_as<std::uint8_t>(sum, other, bytes, operation);
    case ncclFloat16:
      return combine_as<_Float16>(sum, other, bytes, operation);
    case ncclBfloat16:
      return combine_as<Bfloat16>(sum, other, bytes, operation);
    default:
      throw Fault("NCCL's sum of elements of type " + std::to_string(type) + " is not emulated");
  }
}

}  // namespace emulated
