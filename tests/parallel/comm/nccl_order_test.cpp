// SPDX-License-Identifier: Apache-2.0
// What the suite does not test, whose copies make the host wait: operations over NCCL between computation, without any
// wait of the host. A race of their streams makes the emulated GPU throw.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>

#include <catch2/catch.hpp>

#include "tests/parallel/comm/nccl_layer.h"
#include "tests/parallel/comm/rank_harness.h"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

constexpr std::int64_t elements = 10007;
constexpr int ranks = 2;

Array array(const at::Tensor& values) {
  return {values.data_ptr(), values.numel(), ElementType::float32, Memory::device};
}

void expect_all(const at::Tensor& values, double value, const char* what) {
  const at::Tensor here = values.cpu();
  expect(here.equal(at::full_like(here, value)), std::string(what) + " is not " + std::to_string(value));
}

}  // namespace

TEST_CASE("collectives over NCCL follow what computes their inputs, and precede what reads their outputs") {
  on_gpus(ranks, [](Communicator& communicator, const c10::Device& device) {
    const Group soon = communicator.make_group("soon", {0, 1});
    const Group beside = communicator.make_group("beside", {0, 1}, GroupUse::background);
    const at::Tensor sum = at::full({elements}, -1, at::TensorOptions(at::kFloat).device(device));
    const at::Tensor other = sum.clone(), whole = at::empty({elements * ranks}, sum.options());
    for (int round = 0; round < 3; ++round) {
      sum.fill_(communicator.rank() + round);
      other.fill_(communicator.rank());
      Handle late = communicator.all_gather(beside, Purpose::data_parallel, array(other), array(whole));
      communicator.all_reduce(soon, Purpose::tensor_parallel, array(sum)).wait();
      sum.mul_(2);
      late.wait();
      whole.add_(1);
      expect_all(sum, 2 + 4 * round, "a sum");
      expect_all(whole.narrow(0, elements, elements), 2, "what was gathered");
    }
  });
}

TEST_CASE("messages over NCCL follow computation, and precede it, in both directions at once") {
  on_gpus(ranks, [](Communicator& communicator, const c10::Device& device) {
    const Group on = communicator.make_group("on", {0, 1}, GroupUse::messages_on);
    const Group back = communicator.make_group("back", {0, 1}, GroupUse::messages_back);
    const int own = communicator.rank(), peer = 1 - own;
    const at::Tensor out = at::full({elements}, -1, at::TensorOptions(at::kFloat).device(device));
    const at::Tensor in = out.clone();
    for (int round = 0; round < 3; ++round) {
      for (const Group& group : {on, back}) {
        out.fill_(own + round);
        Handle sent = communicator.send(group, Purpose::pipeline, array(out), peer);
        communicator.receive(group, Purpose::pipeline, array(in), peer).wait();
        const at::Tensor seen = in.clone();
        sent.wait();
        expect_all(seen, peer + round, "a message");
      }
    }
  });
}
