// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/stack_limit.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>

#include "core/base/error.h"
#include "core/base/units.h"

namespace llmtrain::app {

void raise_stack_limit() {
  constexpr rlim_t usual = 8 << 20, least = 1 << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= usual) return;
  limit.rlim_cur = std::min(usual, limit.rlim_max);
  if (limit.rlim_cur < least || ::setrlimit(RLIMIT_STACK, &limit) != 0)
    throw Error(ExitCode::cannot_write, "the limit of the stack is " +
                                            format_bytes(static_cast<std::int64_t>(limit.rlim_cur)) +
                                            " here (ulimit -s), too low for training: raise it to 1024 (KiB) or more");
  // The size for threads was taken from the limit when the program started.
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return;
  if (::pthread_attr_setstacksize(&attributes, limit.rlim_cur) == 0) ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

}  // namespace llmtrain::app
