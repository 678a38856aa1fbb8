// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/comm/communicator.h"
#include "parallel/layout/layout.h"

namespace llmtrain {

// The ranks that hold the stages of one copy of the model; stage i is on position i mod ranks(). Copyable; copies share
// the groups.
class PipelineParallel {
 public:
  // Collective over the world; blocks. The communicator must outlive this.
  PipelineParallel(Communicator& communicator, const Layout& layout);

  int ranks() const { return activations_.size(); }
  int position() const { return activations_.position(); }

  bool is_end() const { return position() == 0 || position() + 1 == ranks(); }

  // Transfers between stages, matched in the order of the calls within each channel. Tensors are contiguous and must
  // not be touched until the handle is done.
  enum class Channel { activations, gradients };
  Handle send(Channel channel, const at::Tensor& tensor, int position) const;
  Handle receive(Channel channel, const at::Tensor& tensor, int position) const;

  // Sums in place over the first and the last position, which share one parameter: only they call it.
  Handle sum_ends(const at::Tensor& tensor) const;

 private:
  const Group& group(Channel channel) const { return channel == Channel::activations ? activations_ : gradients_; }

  Communicator* communicator_;
  Group activations_, gradients_, ends_;
};

}  // namespace llmtrain
