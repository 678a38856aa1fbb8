// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <omp.h>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/machine/processor.h"
#include "core/signals/signal_thread.h"
#include "kernels/onednn/matmul.h"
#include "kernels/onednn/matmul_library.h"
#include "kernels/onednn/widened_matmul.h"

namespace llmtrain::kernels {
namespace {

using Matmul = decltype(&llmtrain_onednn_matmul);

Matmul load() {
#if defined(LLMTRAIN_SANITIZED)
  // The sanitizers' runtime does not allow RTLD_DEEPBIND.
  return nullptr;
#else
  // By its bare name, so that it is found through the run path of the library or program that contains this code.
  // RTLD_NOW shows a oneDNN without the needed symbols here, where there is another path, and not in the first product.
  void* library = ::dlopen("libllmtrain_onednn.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library == nullptr) {
    log().warn("oneDNN cannot be loaded ({}): matrix products use LibTorch's slower path", ::dlerror());
    return nullptr;
  }
  return reinterpret_cast<Matmul>(::dlsym(library, "llmtrain_onednn_matmul"));
#endif
}

Matmul matmul() {
  static const Matmul loaded = load();
  return loaded;
}

// oneDNN's generated code points the stack pointer elsewhere while it runs, and reads weights of mapped files, which
// may become shorter (core/base/mapping_guard.h).
void give_threads_signal_stacks() {
  use_alternate_signal_stack();
  thread_local int prepared = 0;
  if (omp_in_parallel() != 0 || prepared >= omp_get_max_threads()) return;
  prepared = omp_get_max_threads();
#pragma omp parallel
  use_alternate_signal_stack();
}

void multiply(const MatmulProblem& problem) {
  give_threads_signal_stacks();
  if (const char* failure = matmul()(&problem)) throw Error(ExitCode::internal_error, failure);
}

// oneDNN takes bf16 from AVX-512 on, and without the processor's help widens one number at a time.
bool multiplies_bf16() {
  static const bool has_instructions = has_bf16_instructions(processor_features());
  return has_instructions;
}

}  // namespace

bool has_onednn() { return matmul() != nullptr; }

void onednn_matmul(const MatmulProblem& problem) {
  if (problem.operand_element == MatmulElement::bf16 && !multiplies_bf16()) {
    widened_matmul(problem, multiply);
  } else {
    multiply(problem);
  }
}

}  // namespace llmtrain::kernels
