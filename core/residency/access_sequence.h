// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace llmtrain {

// What the tasks of one training step do to the tensors whose place is planned, in the order in which a device runs
// them: all that a policy of memory knows.

struct ManagedTensor {
  std::string name;
  std::int64_t bytes = 0;
  // Whether the step before has left its contents, on the host or on the device, and the next step needs them: weights
  // and optimizer states. Others, such as activations, are made by their first use and are gone after their last.
  bool is_lasting = true;
};

enum class Access : std::uint8_t {
  read,
  change,  // reads it and writes it
  make,    // writes all of it, whatever it was
};

struct TensorUse {
  std::size_t tensor = 0;
  Access access = Access::read;
  bool is_last = false;  // its contents are not needed after the task: not of a lasting one
};

enum class TaskPlace : std::uint8_t { device, host };

struct AccessTask {
  std::vector<TensorUse> uses;          // each tensor once
  std::int64_t working_bytes = 0;       // of the device, while it runs
  TaskPlace place = TaskPlace::device;  // whose copies it uses
};

struct AccessSequence {
  std::vector<ManagedTensor> tensors;
  std::vector<AccessTask> tasks;
};

}  // namespace llmtrain
