// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <iosfwd>
#include <set>
#include <string>

namespace llmtrain {

// Cores that the scheduler lets this process use: launchers and containers restrict them.
int usable_cores();

// The highest level of the x86-64 instruction set that this machine's processors have: 4 has AVX-512, 3 AVX2 and FMA,
// 2 SSE4.2, which every processor that we build for has. 0 on other architectures.
int instruction_set_level();

// The name of this machine's first processor, as Linux gives it. For Arm's, which it does not name, the numbers of
// their maker, variant and part. Empty where it gives none of these.
std::string processor_name();
// The same from the contents of /proc/cpuinfo.
std::string processor_name(std::istream& cpuinfo);

// Extensions of the instruction set by Linux's names, such as "avx2" or "asimd".
using ProcessorFeatures = std::set<std::string, std::less<>>;

// What this machine's first processor can do; empty where the system does not say.
ProcessorFeatures processor_features();
// The same from the contents of /proc/cpuinfo, where x86 lists "flags" and Arm "Features".
ProcessorFeatures processor_features(std::istream& cpuinfo);

// Whether bf16 is multiplied by instructions of its own. Elsewhere it is widened to fp32 first, so that a step takes
// about as long as in fp32.
bool has_bf16_instructions(const ProcessorFeatures& features);

}  // namespace llmtrain
