// SPDX-License-Identifier: Apache-2.0
#include "core/base/element_type.h"

#include <array>

namespace llmtrain {
namespace {

struct Description {
  std::int64_t size;
  std::string_view name;
};

constexpr std::array<Description, 8> descriptions{{{4, "fp32"},
                                                   {2, "bf16"},
                                                   {2, "fp16"},
                                                   {1, "fp8_e4m3"},
                                                   {1, "fp8_e5m2"},
                                                   {4, "int32"},
                                                   {8, "int64"},
                                                   {1, "uint8"}}};

const Description& describe(ElementType type) { return descriptions[static_cast<std::size_t>(type)]; }

}  // namespace

std::int64_t element_size(ElementType type) { return describe(type).size; }

std::string_view element_name(ElementType type) { return describe(type).name; }

}  // namespace llmtrain
