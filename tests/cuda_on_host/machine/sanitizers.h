// SPDX-License-Identifier: Apache-2.0
// What the sanitizers must be told of fibers. CUDA_ON_HOST_ADDRESS and CUDA_ON_HOST_THREAD say which one watches the
// kernels. It does not watch the machine itself, which is compiled without: what fibers share in here the scheduler
// orders, and the thread sanitizer would take every switch for a barrier between them.
#pragma once

#include <cstddef>

#ifdef CUDA_ON_HOST_ADDRESS
#include <sanitizer/common_interface_defs.h>
#else
inline void __sanitizer_start_switch_fiber(void**, const void*, std::size_t) {}
inline void __sanitizer_finish_switch_fiber(void*, const void**, std::size_t*) {}
#endif

#ifdef CUDA_ON_HOST_THREAD
extern "C" {
void* __tsan_get_current_fiber(void);
void* __tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#else
inline void* __tsan_get_current_fiber() { return nullptr; }
inline void* __tsan_create_fiber(unsigned) { return nullptr; }
inline void __tsan_switch_to_fiber(void*, unsigned) {}
inline void __tsan_acquire(void*) {}
inline void __tsan_release(void*) {}
#endif

namespace cuda_on_host {

#ifdef CUDA_ON_HOST_ADDRESS
constexpr bool address_sanitizer = true;
#else
constexpr bool address_sanitizer = false;
#endif
#ifdef CUDA_ON_HOST_THREAD
constexpr bool thread_sanitizer = true;
#else
constexpr bool thread_sanitizer = false;
#endif

// A switch of the thread sanitizer that orders nothing.
constexpr unsigned unordered_switch = 1;

}  // namespace cuda_on_host
