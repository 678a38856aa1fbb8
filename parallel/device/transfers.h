// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

// Copies of several small tensors between the host and a GPU that its work does not stand still for; of one,
// kernels/host_copy.h. On a CPU nothing is copied.
namespace llmtrain {

// Tensors of the host, one after another in pinned memory. Any thread may make one.
class PackedTensors {
 public:
  PackedTensors() = default;
  explicit PackedTensors(std::span<const at::Tensor> tensors);

  // The tensors on the device, in one copy for which nobody waits: it runs on the calling thread's stream, and LibTorch
  // lets nobody have the pinned memory before it is done. The results share one memory.
  std::vector<at::Tensor> send(const at::Device& device) const;

 private:
  struct Place {
    std::int64_t begin = 0;  // in bytes
    std::int64_t bytes = 0;
    at::ScalarType type{};
    std::vector<std::int64_t> shape;

    at::Tensor in(const at::Tensor& packed) const { return packed.narrow(0, begin, bytes).view(type).view(shape); }
  };
  at::Tensor packed_;  // bytes
  std::vector<Place> places_;
};

// The same at once.
std::vector<at::Tensor> to_device(std::span<const at::Tensor> tensors, const at::Device& device);

// The numbers of tensors of any shape, one after another, in float64. Waits once for those that are a GPU's, however
// many they are: for what has been enqueued before them, and not for what others enqueue.
std::vector<double> read_numbers(std::span<const at::Tensor> tensors);

// What people and tests read of a tensor, whatever its type: in fp32, contiguous, in the host's memory; undefined if it
// is. Waits for a GPU's.
at::Tensor read_floats(const at::Tensor& tensor);

// Keeps the host at most one round of work ahead of a GPU: what it says of progress is then true, and memory bounded.
class RoundAhead {
 public:
  explicit RoundAhead(const at::Device& device) : device_(device) {}
  // After a round's work has been enqueued: waits for the round before it.
  void end_round();

 private:
  at::Device device_;
  std::optional<c10::Event> last_;
};

}  // namespace llmtrain
