// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace llmtrain::app {

// ok: as it should be; note: training works, but see the text; missing: training cannot work.
enum class FindingState { ok, note, missing };

struct Finding {
  FindingState state = FindingState::ok;
  std::string name;
  std::string text;
  std::string fix;  // one command or change that fixes it; empty for ok
};

// Each appends its findings; none throws for what a machine lacks.
void find_software(std::vector<Finding>& findings);  // llmtrain, compiler, LibTorch, GPU, CUDA, MPI
void find_machine(std::vector<Finding>& findings);   // processor, memory, disk
void find_limits(std::vector<Finding>& findings);    // what the system lets this process use

// The first line of a file; empty when there is none.
std::string first_line(const std::string& file);

}  // namespace llmtrain::app
