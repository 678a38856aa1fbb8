// SPDX-License-Identifier: Apache-2.0
#include "core/machine/processor.h"

#include <sched.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <initializer_list>
#include <sstream>
#include <thread>

namespace llmtrain {
namespace {

ProcessorFeatures features_in(const std::string& text) {
  std::istringstream cpuinfo(text);
  return processor_features(cpuinfo);
}

TEST_CASE("cores that the scheduler withholds are not usable") {
  int cores = 0;
  // Its own thread: what it may use is that thread's alone.
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    if (::sched_setaffinity(0, sizeof one, &one) == 0) cores = usable_cores();
  }).join();
  CHECK(cores == 1);
}

TEST_CASE("the features of the first processor are read") {
  CHECK(features_in("processor\t: 0\nvmx flags\t: invvpid\nflags\t\t: fpu avx2\n\nprocessor\t: 1\nflags\t\t: sse2\n") ==
        ProcessorFeatures{"avx2", "fpu"});
  CHECK(features_in("processor\t: 0\nFeatures\t: fp asimd bf16\n") == ProcessorFeatures{"asimd", "bf16", "fp"});
  CHECK(features_in("").empty());
  CHECK(features_in("no colon\n: no key\nflags\t\t:\n").empty());
}

TEST_CASE("the level of the instruction set is that of the features that Linux lists") {
  const ProcessorFeatures features = processor_features();
  const auto has = [&features](std::initializer_list<const char*> names) {
    return std::ranges::all_of(names, [&](const char* name) { return features.contains(name); });
  };
  int level = has({"sse4_2"}) ? 2 : 0;
  if (has({"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm"})) level = 3;
  if (level == 3 && has({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})) level = 4;
  CHECK(instruction_set_level() == level);
}

std::string name_in(const std::string& text) {
  std::istringstream cpuinfo(text);
  return processor_name(cpuinfo);
}

TEST_CASE("a processor is named by its model or, on Arm, by its numbers") {
  CHECK(name_in("processor\t: 0\nmodel name\t: AMD EPYC 9B14\n\nprocessor\t: 1\nmodel name\t: other\n") ==
        "AMD EPYC 9B14");
  CHECK(name_in("processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n"
                "CPU revision\t: 1\n\nprocessor\t: 1\nmodel name\t: other\n") == "0x41 0x3 0xd0c");
  CHECK(name_in("processor\t: 0\n").empty());
}

TEST_CASE("AVX-512, AMX and Arm have instructions for bf16") {
  for (const std::string name : {"avx512_bf16", "amx_bf16", "bf16"})
    CHECK(has_bf16_instructions(features_in("flags : fpu " + name + " avx2\n")));
  CHECK_FALSE(has_bf16_instructions(features_in("flags : fpu avx2 avx512f amx_tile\n")));
}

}  // namespace
}  // namespace llmtrain
