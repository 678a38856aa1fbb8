// SPDX-License-Identifier: Apache-2.0
// The GPU's kernels of the process. The CUDA part brings them when it is loaded; an operator that finds none for its
// device and types takes LibTorch's operators (kernels/reference).
#pragma once

#include "kernels/cuda/activation_kernels.h"
#include "kernels/cuda/attention/decode_kernels.h"
#include "kernels/cuda/bias_kernels.h"
#include "kernels/cuda/cross_entropy_kernels.h"
#include "kernels/cuda/dropout_kernels.h"
#include "kernels/cuda/embedding_kernels.h"
#include "kernels/cuda/fp8/fp8_kernels.h"
#include "kernels/cuda/fp8/scaled_adamw_kernels.h"
#include "kernels/cuda/gelu_kernels.h"
#include "kernels/cuda/joined_heads_kernels.h"
#include "kernels/cuda/moe/dispatch_kernels.h"
#include "kernels/cuda/moe/expert_rows_kernels.h"
#include "kernels/cuda/moe/group_gradient_kernels.h"
#include "kernels/cuda/moe/jitter_kernels.h"
#include "kernels/cuda/moe/load_importance_kernels.h"
#include "kernels/cuda/moe/routing_kernels.h"
#include "kernels/cuda/norm_kernels.h"
#include "kernels/cuda/optimizer/adamw_kernels.h"
#include "kernels/cuda/optimizer/muon_kernels.h"
#include "kernels/cuda/optimizer/squares_kernels.h"
#include "kernels/cuda/rope_kernels.h"

namespace llmtrain::kernels {

struct KernelTable {
  void* (*current_stream)(int device);  // the cudaStream_t on which the calling thread enqueues its work
  const NormKernels* norm;
  const ActivationKernels* activation;
  const RopeKernels* rope;
  const JoinedHeadsKernels* joined_heads;
  const CrossEntropyKernels* cross_entropy;
  const EmbeddingKernels* embedding;
  const AdamwDeviceKernels* adamw;
  const Fp8Kernels* fp8;
  const ScaledAdamwDeviceKernels* scaled_adamw;
  const DispatchDeviceKernels* dispatch;
  const ExpertRowKernels* expert_rows;
  const RoutingKernels* routing;
  const JitterDeviceKernels* jitter;
  const LoadImportanceKernels* load_importance;
  const GroupGradientKernels* group_gradients;
  const DropoutDeviceKernels* dropout;
  const BiasKernels* bias;
  const GeluKernels* gelu;
  const SquaresKernels* squares;
  const MuonKernels* muon;
  const DecodeKernels* decode;
};

// Before any thread computes on a GPU; `table` stays for as long as the process.
void use_kernels(const KernelTable& table);

// Null where no CUDA part is loaded.
const KernelTable* kernel_table();
inline bool has_kernel_table() { return kernel_table() != nullptr; }

}  // namespace llmtrain::kernels
