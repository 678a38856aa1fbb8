// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/comm/communicator.h"
#include "parallel/layout/layout.h"

namespace llmtrain {

// The ranks that hold the stages of one copy of the model; stage i is on position i mod ranks(). Copied freely.
class PipelineParallel {
 public:
  // Blocks until all ranks of the world have called it. The communicator outlives this.
  PipelineParallel(Communicator& communicator, const Layout& layout);

  int ranks() const { return activations_.size(); }
  int position() const { return activations_.position(); }

  bool is_end() const { return position() == 0 || position() + 1 == ranks(); }

  // What passes between stages, each kind in a channel of its own, in the order of the calls. Contiguous tensors; they
  // stay as they are until the handle is done.
  enum class Channel { activations, gradients };
  Handle send(Channel channel, const at::Tensor& tensor, int position) const;
  Handle receive(Channel channel, const at::Tensor& tensor, int position) const;

  // In place, over the first and the last position, which hold one parameter together: only they call it.
  Handle sum_ends(const at::Tensor& tensor) const;

 private:
  const Group& group(Channel channel) const { return channel == Channel::activations ? activations_ : gradients_; }

  Communicator* communicator_;
  Group activations_, gradients_, ends_;
};

}  // namespace llmtrain
