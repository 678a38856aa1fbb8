// SPDX-License-Identifier: Apache-2.0
// Which operators have kernels of their own, and on which devices: a row for each, made of the types and of the members
// of the GPU's table by which its calls find them, so that a row of what is not there does not compile. On a device
// without, an operator is a chain of LibTorch's operators (kernels/reference, or in the operator's own source), or in
// products and attention one of a library. LibTorch is not needed here.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "kernels/cuda/kernel_table.h"
#include "kernels/vector/activation.h"
#include "kernels/vector/adamw.h"
#include "kernels/vector/conversion.h"
#include "kernels/vector/cross_entropy.h"
#include "kernels/vector/dispatch.h"
#include "kernels/vector/dropout.h"
#include "kernels/vector/embedding.h"
#include "kernels/vector/fp8.h"
#include "kernels/vector/norm.h"
#include "kernels/vector/products/attention.h"
#include "kernels/vector/products/separate_rows.h"
#include "kernels/vector/random.h"
#include "kernels/vector/reduction.h"
#include "kernels/vector/rope.h"

namespace llmtrain::kernels {

struct ListedKernel {
  std::string_view name;
  std::string_view what;
  bool on_cpu, on_cuda;
};

// No kernels of the processor's.
struct NoLoops {};
// Loops in the operator's own source, the same at each instruction-set level.
struct PlainLoops {};

// `Loops`: what kernels/vector has, NoLoops or PlainLoops; `device`: the member of the GPU's table, or null.
template <class Loops, auto device>
constexpr ListedKernel listed(std::string_view name, std::string_view what) {
  return {name, what, !std::is_same_v<Loops, NoLoops>, !std::is_null_pointer_v<decltype(device)>};
}

constexpr std::array kernel_list{
    listed<vector::NormKernels<float>, &KernelTable::norm>("norm", "LayerNorm and RMSNorm, with the residual before"),
    listed<vector::ActivationKernels<float>, &KernelTable::activation>("swiglu", "SwiGLU"),
    listed<vector::ActivationKernels<float>, &KernelTable::gelu>("gelu", "GELU and its tanh form"),
    listed<vector::RopeLoop<float>, &KernelTable::rope>("rope", "rotations of queries and keys"),
    listed<NoLoops, &KernelTable::joined_heads>("joined_heads", "joining and rotating back of the heads' gradients"),
    listed<vector::AttentionKernels, nullptr>("attention", "causal attention"),
    listed<NoLoops, &KernelTable::decode>("decode", "attention of a new token to those before"),
    listed<vector::DropoutKernels, &KernelTable::dropout>("dropout", "dropout, with masks from a counter"),
    listed<vector::EmbeddingKernels<float>, &KernelTable::embedding>("embedding", "embeddings and their gradients"),
    listed<NoLoops, &KernelTable::bias>("bias", "gradients of biases"),
    listed<vector::CrossEntropyKernels, &KernelTable::cross_entropy>("cross_entropy", "the loss with its gradient"),
    listed<vector::AdamwKernels, &KernelTable::adamw>("adamw", "AdamW's step"),
    listed<vector::AdamwKernels, &KernelTable::scaled_adamw>("scaled_adamw", "AdamW's step of states in small types"),
    listed<vector::SumOfSquaresKernels, &KernelTable::squares>("squares", "sums of squares, for the norm of gradients"),
    listed<NoLoops, &KernelTable::muon>("muon", "Muon's passes over memory, between its products"),
    listed<vector::Fp8Kernels<float>, &KernelTable::fp8>("fp8", "casts to FP8 and back, and their scales"),
    listed<NoLoops, &KernelTable::routing>("routing", "what a router's logits decide"),
    listed<NoLoops, &KernelTable::load_importance>("load_importance", "the load-importance loss of routers"),
    listed<PlainLoops, &KernelTable::jitter>("jitter", "random factors of a router's inputs"),
    listed<PlainLoops, &KernelTable::expert_rows>("expert_rows", "the experts' rows of tokens"),
    listed<vector::DispatchKernels<float>, &KernelTable::dispatch>("dispatch",
                                                                   "from tokens to experts' rows, and back"),
    listed<NoLoops, &KernelTable::group_gradients>("group_gradients", "gradients of experts' weights, added up"),
    listed<vector::SeparateRowsLoop<float>, nullptr>("separate_rows", "products row by row, as texts grow by"),
    listed<vector::ConversionLoops, nullptr>("conversion", "bf16 to fp32 and back"),
    listed<vector::RandomKernels, nullptr>("initial_weights", "normal random numbers"),
};

// Each pointer of the table but that to the stream has its row.
static_assert(sizeof(KernelTable) ==
              sizeof(void*) *
                  (1 + static_cast<std::size_t>(std::ranges::count_if(kernel_list, &ListedKernel::on_cuda))));

}  // namespace llmtrain::kernels
