// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/nccl/element_types.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tests/emulator/cuda/small_floats.h"
#include "tests/emulator/device/fault.h"

namespace emulated {
namespace {

float as_float(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
std::uint32_t as_bits(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Numbers of 16 bits that compute in fp32, rounded to the nearest, ties to even.
struct Bfloat16 {
  std::uint16_t bits = 0;

  operator float() const { return as_float(std::uint32_t{bits} << 16); }
  Bfloat16& operator=(float value) {
    const std::uint32_t word = as_bits(value);
    bits = static_cast<std::uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16);
    return *this;
  }
};

struct Half {
  std::uint16_t bits = 0;

  operator float() const {
    const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16, rest = bits & 0x7fffU;
    if (rest >= 0x7c00) return as_float(sign | 0x7f800000 | rest << 13);  // infinite, or no number
    return as_float(sign | as_bits(as_float(rest << 13) * 0x1p112F));     // the exponents' offsets differ by 112
  }
  Half& operator=(float value) {
    const std::uint32_t word = as_bits(value), rest = word & 0x7fffffff;
    std::uint32_t narrow = 0;
    if (rest > 0x7f800000)
      narrow = 0x7e00;
    else if (rest >= as_bits(65536))
      narrow = 0x7c00;
    else if (rest < as_bits(0x1p-14F))
      narrow = as_bits(as_float(rest) + 0.5F) - as_bits(0.5F);  // this sum's unit is that of small halves
    else
      narrow = (rest - (std::uint32_t{112} << 23) + 0xfff + (rest >> 13 & 1)) >> 13;
    bits = static_cast<std::uint16_t>(word >> 16 & 0x8000U) | static_cast<std::uint16_t>(narrow);
    return *this;
  }
};

template <ncclDataType_t type>
struct Float8 {
  static constexpr Fp8Format format = type == ncclFloat8e4m3 ? e4m3 : e5m2;
  std::uint8_t bits = 0;

  operator float() const { return widened_fp8(bits, format); }
  Float8& operator=(float value) {
    bits = narrowed_fp8(value, format);
    return *this;
  }
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
      return combine_as<Half>(sum, other, bytes, operation);
    case ncclBfloat16:
      return combine_as<Bfloat16>(sum, other, bytes, operation);
    case ncclFloat8e4m3:
      return combine_as<Float8<ncclFloat8e4m3>>(sum, other, bytes, operation);
    case ncclFloat8e5m2:
      return combine_as<Float8<ncclFloat8e5m2>>(sum, other, bytes, operation);
    default:
      throw Fault("NCCL's sum of elements of type " + std::to_string(type) + " is not emulated");
  }
}

}  // namespace emulated
