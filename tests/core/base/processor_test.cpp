// SPDX-License-Identifier: Apache-2.0
#include "core/base/processor.h"

#include <catch2/catch.hpp>
#include <sstream>

namespace llmtrain {
namespace {

ProcessorFeatures features_in(const std::string& text) {
  std::istringstream cpuinfo(text);
  return processor_features(cpuinfo);
}

TEST_CASE("the features of the first processor are read") {
  CHECK(features_in("processor\t: 0\nvmx flags\t: invvpid\nflags\t\t: fpu avx2\n\nprocessor\t: 1\nflags\t\t: sse2\n") ==
        ProcessorFeatures{"avx2", "fpu"});
  CHECK(features_in("processor\t: 0\nFeatures\t: fp asimd bf16\n") == ProcessorFeatures{"asimd", "bf16", "fp"});
  CHECK(features_in("").empty());
  CHECK(features_in("no colon\n: no key\nflags\t\t:\n").empty());
}

TEST_CASE("AVX-512, AMX and Arm have instructions for bf16") {
  for (const std::string name : {"avx512_bf16", "amx_bf16", "bf16"})
    CHECK(has_bf16_instructions(features_in("flags : fpu " + name + " avx2\n")));
  CHECK_FALSE(has_bf16_instructions(features_in("flags : fpu avx2 avx512f amx_tile\n")));
}

}  // namespace
}  // namespace llmtrain
