// SPDX-License-Identifier: Apache-2.0
#include "core/machine/gpu.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("GPUs have the names that the driver gives them, in the order of the bus") {
  const test::TemporaryDirectory driver;
  CHECK(gpu_models(driver.path()).empty());
  const auto add = [&](const char* bus, const char* text) {
    const auto folder = driver.path() / "gpus" / bus;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "information") << text;
  };
  add("0000:3b:00.0", "Model: \t\t Tesla V100-SXM2-32GB\nIRQ:   \t\t 11\n");
  add("0000:0f:00.0", "IRQ: 4\nModel: \t\t NVIDIA H100 80GB HBM3 \nGPU UUID: x\n");
  add("0000:60:00.0", "IRQ: 5\n");
  std::filesystem::create_directories(driver.path() / "gpus/0000:70:00.0");
  CHECK(gpu_models(driver.path()) == Names{"NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-32GB"});
}

TEST_CASE("programs see the GPUs that CUDA_VISIBLE_DEVICES lets them see") {
  const Names all{"A", "A", "A", "A"};
  const auto seen = [&](const char* visible) { return visible_gpus(all, visible).size(); };
  CHECK(seen(nullptr) == 4);
  CHECK(seen("") == 0);
  CHECK(seen("-1") == 0);
  CHECK(seen("2") == 1);
  CHECK(seen("0,3,GPU-5a") == 3);
  CHECK(seen("1,-1,2") == 1);
  CHECK(seen("0,1,2,3,4,5") == 4);
}

}  // namespace
}  // namespace llmtrain
