// SPDX-License-Identifier: Apache-2.0
// LibTorch on the emulated device: its streams, events, memory and errors as on CUDA.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/normal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/emulator/tests/torch_programs.h"

using namespace emulated;
using namespace emulated::test;

namespace {

struct Training {
  std::vector<float> losses;
  at::Tensor weight;
  Counters before_last, after_last;  // step
};

// y = norm(x · Wᵀ) · g, loss = mean (y - t)²; backward by hand, plain gradient descent.
Training train(const c10::Device& where, int steps) {
  const std::int64_t rows = 16, in = 32, out = 24;
  const bool is_host = where.is_cpu();
  const at::TensorOptions options = at::TensorOptions(at::kFloat);
  Training made;
  at::Tensor weight = numbers({out, in}, 0.1).mul_(0.2).to(where), gain = at::ones({out}, options.device(where));
  at::Tensor host_x = at::empty({rows, in}, options.pinned_memory(!is_host));
  at::Tensor host_t = at::empty({rows, out}, options.pinned_memory(!is_host));
  for (int step = 0; step < steps; ++step) {
    if (!is_host) made.before_last = counters(0);
    host_x.copy_(numbers({rows, in}, step));
    host_t.copy_(numbers({rows, out}, 3 * step + 1));
    const at::Tensor x = host_x.to(where, true), t = host_t.to(where, true);
    const at::Tensor h = at::mm(x, weight.t()), rstd = at::rsqrt(h.square().mean(1, true).add_(1e-5));
    const at::Tensor normed = h * rstd, error = normed * gain - t, loss = error.square().mean();
    const at::Tensor dy = error * (2.0 / static_cast<double>(error.numel()));
    const at::Tensor dgain = (dy * normed).sum(0), dn = dy * gain;
    const at::Tensor dh = (dn - normed * (dn * normed).mean(1, true)) * rstd;
    weight.sub_(at::mm(dh.t(), x), 0.5);
    gain.sub_(dgain, 0.5);
    made.losses.push_back(loss.item<float>());
    if (!is_host) made.after_last = counters(0);
  }
  made.weight = weight.to(at::kCPU);
  return made;
}

}  // namespace

TEST_CASE("A training step gives the CPU's numbers, with one wait and nothing allocated beyond the cache") {
  must_be_right([] {
    const Training there = train(device(), 8), here = train(at::kCPU, 8);
    for (std::size_t i = 0; i < here.losses.size(); ++i)
      expect(std::abs(there.losses[i] - here.losses[i]) <= 1e-6F, "the losses");
    expect((there.weight - here.weight).abs().max().item<double>() <= 1e-6, "the weights");
    expect(here.losses.back() < here.losses.front(), "the loss falls");
    const Counters &before = there.before_last, &after = there.after_last;
    expect(after.synchronisations - before.synchronisations == 1, "one wait");
    expect(after.growths == before.growths, "no new memory");
  });
}

TEST_CASE("A copy on another stream needs an event") {
  const auto program = [](bool with_event) {
    const c10::Stream side = side_stream();
    at::Tensor x = at::full({1 << 12}, 1.0, on_device()), host = pinned(1 << 12);
    for (int i = 0; i < 20; ++i) x.add_(1);
    if (with_event) {
      c10::Event event(device_type);
      event.record(main_stream());
      event.block(side);
    }
    {
      const c10::StreamGuard on_side(side);
      host.copy_(x, true);
    }
    guard().synchronizeStream(side);
    expect(host.data_ptr<float>()[7] == 21, "the number that was copied");
  };
  must_be_right([=] { program(true); });
  must_be_caught("race: a copy to the host reads", [=] { program(false); });
}

TEST_CASE("An event is recorded on streams of its device alone") {
  must_be_caught("an event of device 0 is recorded on a stream of device 1", [] {
    c10::Event event(device_type);
    event.record(main_stream());
    event.record(guard().getStream({device_type, 1}));
  });
}

TEST_CASE("Copies between devices are ordered on both") {
  must_be_right([] {
    const at::Tensor x = at::full({64}, 3.0, on_device());
    at::Tensor y = x.to(c10::Device(device_type, 1));
    y.add_(1);
    expect(y.sum().item<float>() == 256 && x.sum().item<float>() == 192, "the sums");
    expect(counters(0).pageable_copies == 0, "no copy through the host");
  });
}

TEST_CASE("Copies are blocking, and pageable, as CUDA's are") {
  must_be_right([] {
    const at::Tensor host = at::full({16}, 2.0), x = host.to(device(), true);
    expect(counters(0).synchronisations == 0 && counters(0).pageable_copies == 1, "staged before the call returns");
    at::Tensor back = at::zeros({16});
    back.copy_(x, true);
    expect(counters(0).synchronisations == 1 && back.data_ptr<float>()[3] == 2, "blocking to pageable memory");
    at::Tensor fast = pinned(16);
    fast.copy_(x, true);
    expect(counters(0).synchronisations == 1, "not blocking to pinned memory");
    expect(counters(0).bytes_to_device == 64 && counters(0).bytes_to_host == 128, "the bytes");
  });
}

TEST_CASE("Operators check their devices and generators") {
  must_be_caught("Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu",
                 [] { at::full({16}, 3.0, on_device()).add_(at::ones({16})); });
  must_be_caught("Expected a 'cuda' device type for generator but found 'cpu'",
                 [] { at::full({16}, 3.0, on_device()).normal_(0, 1, at::detail::createCPUGenerator(1)); });
  must_be_right([] {
    at::Tensor x = at::full({16}, 3.0, on_device());
    x.mul_(at::full({}, 2.0));  // a scalar of the host
    expect(x.sum().item<float>() == 96, "the sum");
  });
}

TEST_CASE("What a program must not do is found") {
  must_be_caught("the host touches memory of device 0", [] {
    const at::Tensor x = at::full({16}, 3.0, on_device());
    guard().synchronizeStream(main_stream());
    x.data_ptr<float>()[3] = 1;
  });
  must_be_caught("CUDA out of memory", [] {
    settings().memory = 1 << 20;
    at::empty({2 << 20}, on_device().dtype(at::kByte));
  });
  must_be_caught("forbidden synchronisation: item()", [] {
    const at::Tensor x = at::full({16}, 3.0, on_device());
    const NoSynchronisation none;
    x.sum().item<float>();
  });
  must_be_caught("device error, seen late: index out of range", [] {
    const at::Tensor table = at::ones({8, 4}, on_device()), rows = at::full({3}, 8, on_device().dtype(at::kLong));
    const at::Tensor taken = at::embedding(table, rows);  // returns
    guard().synchronizeStream(main_stream());
  });
  must_be_caught("synchronisation while a graph is captured: item()", [] {
    const at::Tensor x = at::zeros({4}, on_device());
    Graph graph;
    graph.begin(current_stream(0));
    x.add(1).sum().item<float>();
  });
}

TEST_CASE("An own kernel that writes beside its tensor is named") {
  must_be_caught("an own kernel writes 0 bytes behind the end of 64 bytes", [] {
    const at::Tensor x = at::zeros({16}, on_device());
    on_stream("an own kernel", {}, {x},
              [](const auto&, const auto& out) { out[0].template data_ptr<float>()[16] = 1; });
    guard().synchronizeStream(main_stream());
  });
}

TEST_CASE("A capture copies nothing from pageable memory") {
  must_be_caught("a copy from pageable memory while a graph is captured", [] {
    const at::Tensor host = at::zeros({4});
    Graph graph;
    graph.begin(current_stream(0));
    host.to(on_device(), /*non_blocking=*/true);
  });
}

TEST_CASE("A graph of LibTorch's operators replays") {
  must_be_right([] {
    at::Tensor x = at::zeros({4}, on_device()), y = at::zeros({4}, on_device());
    x.add_(1), y.add_(x);
    Graph graph;
    graph.begin(current_stream(0));
    x.add_(1);
    y.add_(x * 2);
    graph.end();
    for (int i = 0; i < 3; ++i) graph.replay(current_stream(0));
    expect(y.sum().item<float>() == 4 * (1 + 4 + 6 + 8), "the sum after three replays");
  });
}
