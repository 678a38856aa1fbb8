// SPDX-License-Identifier: Apache-2.0
// The emulated device as LibTorch's CUDA device, in a process that has not loaded libtorch_cuda. Linking or loading
// this library registers it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/emulator/device/runtime.h"

namespace emulated {

constexpr auto device_type = c10::DeviceType::CUDA;

// Runs `function` on the current stream of the first output's device (without outputs, the first input's), with CPU
// tensors over the same memory. Returns at once. As a launched kernel it keeps no tensor's memory alive. What an
// operator does that the fallback cannot, and own kernels, call this.
using HostFunction = std::function<void(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs)>;
void on_stream(const std::string& name, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs,
               HostFunction function);

}  // namespace emulated
