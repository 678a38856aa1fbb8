// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/kernel_table.h"

#include <atomic>

namespace llmtrain::kernels {
namespace {

std::atomic<const KernelTable*> loaded = nullptr;

}  // namespace

void use_kernels(const KernelTable& table) { loaded = &table; }

const KernelTable* kernel_table() { return loaded; }

}  // namespace llmtrain::kernels
