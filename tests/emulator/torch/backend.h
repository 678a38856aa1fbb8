// SPDX-License-Identifier: Apache-2.0
// The emulated device as LibTorch's device type, chosen when compiling: -DEMULATED_AS=CUDA (in a process without
// libtorch_cuda) or -DEMULATED_AS=PrivateUse1. Linking or loading backend.cpp registers it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/emulator/device/runtime.h"

namespace emulated {

constexpr auto device_type = c10::DeviceType::CUDA;

// Runs `function` on the current stream of the first output's device, with CPU tensors over the same memory. What an
// operator does that the fallback cannot, and own kernels, call this.
using HostFunction = std::function<void(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs)>;
void on_stream(const std::string& name, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs,
               HostFunction function);

// Calls per operator, by the way that it was run: "written", "meta", "dry run", "host", "by hand".
std::map<std::string, std::map<std::string, int>>& operator_ways();

}  // namespace emulated
