// SPDX-License-Identifier: Apache-2.0
// What a step exchanges with a GPU, on the emulated one: it says who waits, and which copies and updates race.
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <future>
#include <string>
#include <vector>

#include "kernels/host_copy.h"
#include "kernels/reduction.h"
#include "parallel/comm/communicator.h"
#include "parallel/device/state_copy.h"
#include "parallel/device/transfers.h"
#include "parallel/engine/data/batch_prefetch.h"
#include "parallel/engine/model_state.h"
#include "tests/emulator/device/runtime.h"
#include "tests/parallel/engine/training_setting.h"

namespace llmtrain::test {
namespace {

const at::Device gpu(at::kCUDA, 0);

struct GpuTrainer : LoneRank, Trainer {
  explicit GpuTrainer(const Recipe& recipe) : Trainer(layout_of(recipe, 1), *communicator, gpu) {}
};

// The bytes of what a checkpoint would hold.
std::vector<std::byte> bytes_of(const StateSlices& state) {
  std::vector<std::byte> bytes;
  for (const TensorSlice& slice : state.slices) {
    const auto* data = static_cast<const std::byte*>(slice.data);
    bytes.insert(bytes.end(), data, data + bytes_of(slice));
  }
  return bytes;
}

struct Copied {
  std::vector<at::Tensor> tensors;
  std::vector<std::vector<std::byte>> memory;
  std::vector<StateCopy::Piece> pieces;

  // One that needs more than a buffer, and small ones that share one.
  Copied() {
    const std::int64_t more = state_copy_buffer / 4 + 12345;
    for (const std::int64_t elements : {std::int64_t{3}, more, std::int64_t{0}, std::int64_t{77}}) {
      tensors.push_back(at::arange(elements, at::kFloat).to(gpu));
      memory.emplace_back(tensors.back().nbytes());
      pieces.push_back({tensors.back(), memory.back().data()});
    }
  }
  bool is_right() const {
    return std::equal(tensors.begin(), tensors.end(), memory.begin(), [](const auto& tensor, const auto& bytes) {
      const at::Tensor expected = at::arange(tensor.numel(), at::kFloat);
      return bytes.empty() || std::memcmp(expected.data_ptr(), bytes.data(), bytes.size()) == 0;
    });
  }
};

TEST_CASE("state is copied as it was, and changed after its release alone") {
  Copied copied;
  StateCopy copy(gpu, copied.pieces);
  auto running = std::async(std::launch::async, [&] { copy.run(); });
  copy.release();
  for (const at::Tensor& tensor : copied.tensors) tensor.add_(1);
  running.get();
  CHECK(copied.is_right());
  CHECK(emulated::counters(0).races == 0);
}

TEST_CASE("an update waits for a copy of the state that begins as late as it can") {
  const TrainingSetting setting;
  GpuTrainer trainer(setting.recipe({"training.learning_rate.warmup_steps=0"}));
  trainer.step();
  const std::vector<std::byte> before = bytes_of(state_slices(trainer.model()));
  std::vector<std::byte> host(state_bytes(trainer.model()));
  const StateSlices state = copied_slices(trainer.model(), host.data());
  trainer.model().lend_states(state.copy);
  std::promise<void> stepped;
  auto running = std::async(std::launch::async, [&] {
    // A step that does not wait has ended by then.
    stepped.get_future().wait_for(std::chrono::milliseconds(300));
    state.copy->run();
  });
  trainer.step();
  stepped.set_value();
  running.get();
  CHECK((bytes_of(state) == before));
  CHECK((bytes_of(state_slices(trainer.model())) != before));
  CHECK(emulated::counters(0).races == 0);
}

TEST_CASE("a model starts with the same bits on every device") {
  const TrainingSetting setting;
  for (const std::string compute : {"fp32", "bf16"}) {
    const Recipe recipe = setting.recipe({"precision.compute=\"" + compute + "\""});
    CHECK((bytes_of(state_slices(GpuTrainer(recipe).model())) == bytes_of(state_slices(LoneTrainer(recipe).model()))));
  }
}

TEST_CASE("small tensors go to a GPU in one copy that nobody waits for") {
  const std::vector<at::Tensor> tensors{at::arange(5),
                                        at::empty({0}, at::kLong),
                                        at::arange(6).view({2, 3}),
                                        at::full({3}, 1.5, at::kFloat),
                                        at::full({2}, 3, at::kByte),
                                        at::arange(2)};
  std::vector<at::Tensor> there;
  const auto launches = emulated::counters(0).launches;
  {
    const emulated::NoSynchronisation forbidden;
    // The packed memory is another's while the copy is on its way.
    there = to_device(tensors, gpu);
    kernels::to_device(at::full({32}, -1, at::kLong), gpu);
  }
  CHECK(emulated::counters(0).launches - launches == 2);
  for (std::size_t i = 0; i < tensors.size(); ++i) CHECK(at::equal(there[i].cpu(), tensors[i]));
}

TEST_CASE("a batch that was read in vain is not taken in place of another step's") {
  const auto load = [](const BatchPlace& place) {
    PassInput micro;
    micro.batch.field(BatchField::token_ids) = at::full({8}, place.step, at::kLong);
    return std::vector<PassInput>{micro};
  };
  BatchPrefetch batches(gpu, load);
  const auto taken = [&](std::int64_t step) {
    return batches.take({.step = step}).front().batch.field(BatchField::token_ids).cpu()[0].item<std::int64_t>();
  };
  batches.start({.step = 5});
  CHECK(taken(5) == 5);
  batches.start({.step = 6});
  // The run has returned to a checkpoint.
  CHECK(taken(3) == 3);
  CHECK(taken(4) == 4);
}

TEST_CASE("numbers of host and GPU are read in their order, with one wait") {
  const std::vector<at::Tensor> numbers{at::full({}, 1.5, at::TensorOptions(at::kDouble).device(gpu)),
                                        at::full({2}, 2.5, at::kFloat), at::zeros({0}, at::TensorOptions(gpu)),
                                        at::arange(2, at::TensorOptions(at::kLong).device(gpu))};
  const auto waits = emulated::counters(0).synchronisations;
  CHECK(read_numbers(numbers) == std::vector<double>{1.5, 2.5, 2.5, 0, 1});
  CHECK(emulated::counters(0).synchronisations - waits == 1);
}

TEST_CASE("squares of a GPU's gradients are summed without a wait and a copy of them") {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble})
    // Within a block, whole blocks, and some more.
    for (const std::int64_t elements : {1, 16384, 300000}) {
      const at::Tensor x = at::randn({elements + 1}).to(type).narrow(0, 1, elements);
      const at::Tensor there = x.to(gpu);
      emulated::Counters& counters = emulated::counters(0);
      counters.peak = counters.allocated;
      at::Tensor sum;
      {
        const emulated::NoSynchronisation forbidden;
        sum = kernels::sum_of_squares_there(there);
      }
      CHECK(counters.peak - counters.allocated <= 16384);
      CHECK(sum.scalar_type() == at::kDouble);
      CHECK(sum.item<double>() == Approx(x.to(at::kDouble).square().sum().item<double>()).epsilon(1e-5));
    }
}

// The last one: its memory has been read without an order when others get it.
TEST_CASE("a change before the release is a race, and the release does not wait for ever") {
  Copied copied;
  StateCopy copy(gpu, copied.pieces);
  copied.tensors.front().add_(1);
  CHECK_THROWS(copy.run());
  copy.release();
  emulated::counters(0).races = 0;
}

}  // namespace
}  // namespace llmtrain::test
