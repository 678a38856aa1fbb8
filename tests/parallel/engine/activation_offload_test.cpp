// SPDX-License-Identifier: Apache-2.0
// Activations on their way to the host and back, on the emulated GPU.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/model/activation_offload.h"
#include "tests/emulator/device/runtime.h"

namespace llmtrain::test {
namespace {

struct Kept : SavedActivations {
  std::vector<at::Tensor> tensors;

  explicit Kept(std::vector<at::Tensor> all) : tensors(std::move(all)) {}
  void visit(const KeptTensorVisitor& visit) override {
    for (at::Tensor& tensor : tensors) visit(tensor);
  }
};

at::Tensor numbers(std::int64_t elements, at::ScalarType type = at::kFloat) {
  return at::arange(elements, at::kFloat).remainder_(251).to(at::TensorOptions(type).device(at::Device(at::kCUDA, 0)));
}

std::vector<at::Tensor> on_host(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.defined() ? tensor.cpu() : tensor);
  return copies;
}

void check_same(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    REQUIRE(tensors[i].defined() == expected[i].defined());
    if (!expected[i].defined()) continue;
    CHECK(at::equal(tensors[i].cpu(), expected[i]));
    CHECK(tensors[i].scalar_type() == expected[i].scalar_type());
  }
}

// Bytes of tensors of the device.
std::int64_t allocated() { return emulated::counters(0).allocated; }

TEST_CASE("activations come back as they were, and the host has one copy of what blocks share") {
  constexpr std::int64_t elements = 3000;
  ActivationOffload host(at::Device(at::kCUDA, 0));
  for (int micro = 0; micro < 2; ++micro) {
    const std::int64_t before = allocated();
    at::Tensor shared = numbers(elements);
    const at::Tensor on_cpu = at::arange(elements), small = numbers(8);
    Kept first({shared, at::Tensor(), numbers(elements, at::kBFloat16), on_cpu});
    // Two views share a storage, one of them strided and with an offset.
    at::Tensor wide = numbers(4 * elements).view({elements, 4});
    Kept second({wide, wide.narrow(1, 2, 2), small, shared});
    const std::vector<at::Tensor> of_first = on_host(first.tensors), of_second = on_host(second.tensors);
    OffloadedActivations saved(host, 3);
    saved.leave(0, &first);
    shared.reset();
    wide.reset();
    saved.leave(1, nullptr);
    CHECK_FALSE(first.tensors[0].defined());
    CHECK(first.tensors[3].is_same(on_cpu));
    saved.leave(2, &second);
    CHECK(second.tensors[0].defined());
    saved.finish_leaving();
    CHECK_FALSE(second.tensors[3].defined());
    // Only `small` is left.
    CHECK(allocated() - before <= 512);
    CHECK(second.tensors[2].is_same(small));
    // 3000 and 12000 numbers of 4 bytes and 3000 of 2, each from a multiple of 512 bytes on.
    CHECK(host.bytes() >= 66000);
    CHECK(host.bytes() <= 66000 + 3 * 512 + 2 * ActivationOffload::smallest_piece);

    saved.expect(2);
    saved.arrive(2, &second);
    saved.expect(1);
    saved.arrive(1, nullptr);
    saved.expect(0);
    check_same(second.tensors, of_second);
    CHECK(second.tensors[0].data_ptr() == second.tensors[1].storage().data());
    const std::int64_t both = allocated();
    saved.arrive(0, &first);
    check_same(first.tensors, of_first);
    CHECK(first.tensors[0].data_ptr() == second.tensors[3].data_ptr());
    CHECK(allocated() == both);
    CHECK(both >= before);
  }
  CHECK(emulated::counters(0).races == 0);
}

}  // namespace
}  // namespace llmtrain::test
