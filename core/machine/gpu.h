// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace llmtrain {

// The names of this machine's GPUs as NVIDIA's driver gives them, such as "NVIDIA H100 80GB HBM3"; empty where there is
// none. `driver` is the folder that the driver shows of itself: asking needs neither CUDA nor a context on a GPU.
std::vector<std::string> gpu_models(const std::filesystem::path& driver = "/proc/driver/nvidia");

// The same for those that programs with this value of CUDA_VISIBLE_DEVICES see, null where it is not set. Which of
// several they are is not told apart: the GPUs of a machine are of one kind.
std::vector<std::string> visible_gpus(std::vector<std::string> models, const char* visible_devices);

}  // namespace llmtrain
