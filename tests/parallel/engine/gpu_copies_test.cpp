// SPDX-License-Identifier: Apache-2.0
// What a step exchanges with a GPU, on the emulated one: it says who waits, and which copies and updates race.
#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/optim/optimizer.h"
#include "kernels/host_copy.h"
#include "kernels/reduction.h"
#include "parallel/comm/communicator.h"
#include "parallel/device/state_copy.h"
#include "parallel/device/transfers.h"
#include "parallel/engine/data/batch_prefetch.h"
#include "parallel/engine/model_state.h"
#include "parallel/shard/states/offload/host_update.h"
#include "parallel/shard/states/offload/matrix_copies.h"
#include "tests/emulator/device/runtime.h"
#include "tests/parallel/engine/save_ranks.h"
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
    const std::vector<std::byte> more = content_of(slice);
    bytes.insert(bytes.end(), more.begin(), more.end());
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

// What an update leaves: the host's of a GPU's weights or of weights that it has itself, or a processor's of its own.
struct Updated {
  at::Tensor weights, compute_weights, first, second;
};

enum class UpdatedBy { host, host_of_weights, processor };

Updated updated(std::int64_t elements, at::ScalarType gradient, at::ScalarType compute, UpdatedBy by) {
  std::vector<at::Tensor> states;
  const auto memory = [&](Moment) { return states.emplace_back(at::full({elements}, 0.25, at::kFloat)); };
  const std::unique_ptr<Optimizer> optimizer =
      make_optimizer({}, {{0, elements / 3, true}, {elements / 3, elements, false}}, memory);
  const at::Tensor numbers = at::arange(elements, at::kFloat).remainder_(1009).mul_(1e-3);
  Updated result{numbers.clone(), at::empty({elements}, compute), states[0], states[1]};
  OptimizerUpdate update;
  update.weights = result.weights;
  update.gradients = (numbers - 0.5).to(gradient);
  update.learning_rate = 0.01;
  update.gradient_scale = 0.5;
  update.step = 3;
  if (by != UpdatedBy::processor) {
    HostUpdate host(gpu);
    const bool is_there = by == UpdatedBy::host;
    const at::Tensor weights = is_there                ? at::full({elements}, 9, at::TensorOptions(compute).device(gpu))
                               : compute == at::kFloat ? result.weights
                                                       : at::full({elements}, 9, compute);
    // Work of the device makes the gradients, and reads the weights.
    update.gradients = update.gradients.to(gpu).mul_(2);
    if (!weights.is_same(result.weights)) update.compute_weights = weights;
    host.run(*optimizer, update);
    result.compute_weights = is_there ? (weights * 1).cpu() : weights;
    return result;
  }
  update.gradients.mul_(2);
  if (compute != at::kFloat) update.compute_weights = result.compute_weights;
  optimizer->update(update);
  if (compute == at::kFloat) result.compute_weights.copy_(result.weights);
  return result;
}

TEST_CASE("the host updates a GPU's weights as it would its own, whatever their types and number") {
  constexpr std::int64_t piece = HostUpdate::piece;
  for (const std::int64_t elements : {std::int64_t{0}, std::int64_t{1}, piece, 3 * piece + 5})
    for (const auto& [gradient, compute] : {std::pair{at::kFloat, at::kBFloat16}, {at::kBFloat16, at::kFloat}}) {
      const Updated expected = updated(elements, gradient, compute, UpdatedBy::processor);
      for (const UpdatedBy by : {UpdatedBy::host, UpdatedBy::host_of_weights}) {
        CAPTURE(elements, gradient, by == UpdatedBy::host);
        const Updated got = updated(elements, gradient, compute, by);
        CHECK(at::equal(got.weights, expected.weights));
        CHECK(at::equal(got.compute_weights, expected.compute_weights));
        CHECK(at::equal(got.first, expected.first));
        CHECK(at::equal(got.second, expected.second));
      }
    }
  CHECK(emulated::counters(0).races == 0);
}

TEST_CASE("a matrix arrives and another one leaves while the device computes") {
  MatrixCopies copies(gpu, true);
  // That on which they arrive: LibTorch gives its 32 streams in turn.
  c10::Stream incoming = kernels::copy_stream(gpu);
  for (int i = 0; i < 30; ++i) incoming = kernels::copy_stream(gpu);
  const auto pinned = [](double value) {
    return at::full({1000}, value, at::TensorOptions(at::kFloat).pinned_memory(true));
  };
  const at::Tensor first = pinned(1), second = pinned(2);
  copies.begin();
  at::Tensor here = copies.bring({first.slice(0, 0, 300), first.slice(0, 300)}).mul_(3);
  bool has_left = false;
  copies.leave({{std::exchange(here, {}), {first.slice(0, 0, 700), first.slice(0, 700)}}}, [&] { has_left = true; });
  std::promise<void> ends;
  std::future<void> end = ends.get_future();
  std::atomic<bool> is_late = false;
  const auto product = [&] { is_late = end.wait_for(std::chrono::seconds(2)) != std::future_status::ready; };
  emulated::enqueue(emulated::current_stream(0), {"a long product", {}, product});
  const at::Tensor next = copies.bring({second});
  // Pinned memory may be written again once its copy has been waited for.
  incoming.synchronize();
  second.fill_(9);
  copies.finish();
  CHECK(has_left);
  ends.set_value();
  CHECK(at::equal((next * 2).cpu(), at::full({1000}, 4.0)));
  CHECK_FALSE(is_late);
  CHECK(at::equal(first, at::full({1000}, 3.0)));
  CHECK(copies.bytes() == 3 * 4000);
  CHECK(emulated::counters(0).races == 0);
}

TEST_CASE("the host waits for what leaves for the third time") {
  MatrixCopies copies(gpu, true);
  const at::Tensor host = at::zeros({4, 100}, at::TensorOptions(at::kFloat).pinned_memory(true));
  std::vector<int> left;
  copies.begin();
  for (int i = 0; i < 4; ++i) {
    const at::Tensor here = copies.bring({host[i]}).add_(i);
    copies.leave({{here, {host[i]}}}, [&, i] { left.push_back(i); });
    CHECK(left.size() == static_cast<std::size_t>(std::max(0, i - 1)));
  }
  copies.finish();
  CHECK((left == std::vector<int>{0, 1, 2, 3}));
  CHECK(at::equal(host, at::arange(4, at::kFloat).view({4, 1}).expand({4, 100})));
  CHECK(emulated::counters(0).races == 0);
}

TEST_CASE("a model trains to the same bits where the host has the optimizer's states") {
  const TrainingSetting setting;
  for (const std::string compute : {"fp32", "bf16", "fp16"}) {
    std::vector<std::string> keys{"precision.compute=\"" + compute + "\"", "training.learning_rate.warmup_steps=0",
                                  "batch.micro=2"};
    GpuTrainer there(setting.recipe(keys));
    keys.emplace_back("memory.offload.optimizer=true");
    GpuTrainer here(setting.recipe(keys));
    const std::vector<std::byte> before = bytes_of(state_slices(here.model()));
    check_equal(TrainingSetting::train(here, 3), TrainingSetting::train(there, 3));
    // A checkpoint has the same tensors, of the same names.
    CHECK((bytes_of(state_slices(here.model())) == bytes_of(state_slices(there.model()))));
    CHECK((bytes_of(state_slices(here.model())) != before));
    for (const ParameterUnit* unit : here.model().units()) CHECK(unit->parameters->source().is_cpu());
  }
  CHECK(emulated::counters(0).races == 0);
}

TEST_CASE("a model trains to the same bits where a disk has the states of what the host updates") {
  const TrainingSetting setting;
  // Pieces of the disk are smaller than those of the host.
  const std::vector<std::string> large{"model.vocab_size=9000", "model.hidden_size=128", "batch.micro=2",
                                       "training.learning_rate.warmup_steps=0"};
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {},
           {"precision.compute=\"bf16\""},
           {"precision.compute=\"fp16\"", "parallel.zero_stage=3", "pipeline.loops=2", "memory.offload.weights=true"},
           {"parallel.zero_stage=3", "pipeline.loops=2", "memory.offload.weights=true"}}) {
    CAPTURE(more);
    std::vector<std::string> keys = large;
    keys.insert(keys.end(), more.begin(), more.end());
    keys.emplace_back("memory.offload.optimizer=true");
    GpuTrainer there(setting.recipe(keys));
    keys.back() = "memory.offload.optimizer=\"disk\"";
    keys.emplace_back("memory.offload.folder=\"" + setting.directory().path().string() + "\"");
    GpuTrainer here(setting.recipe(keys));
    check_equal(TrainingSetting::train(here, 3), TrainingSetting::train(there, 3));
    CHECK((bytes_of(state_slices(here.model())) == bytes_of(state_slices(there.model()))));
    for (const ParameterUnit* unit : here.model().units()) CHECK(unit->parameters->bytes().disk > 0);
  }
  CHECK(emulated::counters(0).races == 0);
}

TEST_CASE("a model trains to the same bits where activations wait on the host") {
  const TrainingSetting setting;
  const std::string experts =
      "model.moe={\"experts\": 4, \"top_k\": 2, \"ffn_hidden_size\": 32, \"capacity_factor\": 0}";
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{},
                                             {"precision.compute=\"bf16\"", "memory.recompute=\"selective\""},
                                             {"precision.compute=\"fp16\"", "memory.recompute=\"full\""},
                                             {"precision.compute=\"bf16\"", "precision.fp8_level=\"O2\""},
                                             {"pipeline.loops=2", "model.dropout=0.1", "model.qk_norm=true"},
                                             {"precision.compute=\"bf16\"", experts}}) {
    CAPTURE(more);
    std::vector<std::string> keys{"training.learning_rate.warmup_steps=0", "batch.micro=2"};
    keys.insert(keys.end(), more.begin(), more.end());
    GpuTrainer there(setting.recipe(keys));
    keys.emplace_back("memory.offload.activations=true");
    GpuTrainer here(setting.recipe(keys));
    const std::vector<std::byte> before = bytes_of(state_slices(here.model()));
    check_equal(TrainingSetting::train(here, 3), TrainingSetting::train(there, 3));
    CHECK((bytes_of(state_slices(here.model())) == bytes_of(state_slices(there.model()))));
    CHECK((bytes_of(state_slices(here.model())) != before));
  }
  CHECK(emulated::counters(0).races == 0);
}

TEST_CASE("a model trains to the same bits where weights wait on the host") {
  const TrainingSetting setting;
  const std::string experts =
      "model.moe={\"experts\": 4, \"top_k\": 2, \"ffn_hidden_size\": 32, \"capacity_factor\": 0}";
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"pipeline.loops=1"},
           {"precision.compute=\"bf16\"", "pipeline.loops=2", "pipeline.schedule=\"breadth_first\""},
           {"precision.compute=\"bf16\"", "pipeline.loops=2", "pipeline.schedule=\"1f1b\"",
            "memory.recompute=\"full\""},
           {"precision.compute=\"fp16\"", "pipeline.loops=2", "model.tie_embeddings=true"},
           {"precision.compute=\"bf16\"", "pipeline.loops=2", "parallel.overlap=false"},
           {"precision.compute=\"bf16\"", "precision.fp8_level=\"O0\"", "pipeline.loops=3",
            "memory.offload.activations=true"},
           {"precision.compute=\"bf16\"", "pipeline.loops=2", experts},
           {"pipeline.loops=2", "training.freeze=[\"layers.0.*\"]"}}) {
    CAPTURE(more);
    std::vector<std::string> keys{"training.learning_rate.warmup_steps=0", "batch.micro=2"};
    keys.insert(keys.end(), more.begin(), more.end());
    GpuTrainer there(setting.recipe(keys));
    for (const char* key : {"parallel.zero_stage=3", "memory.offload.optimizer=true", "memory.offload.weights=true"})
      keys.emplace_back(key);
    GpuTrainer here(setting.recipe(keys));
    const std::vector<std::byte> before = bytes_of(state_slices(here.model()));
    check_equal(TrainingSetting::train(here, 3), TrainingSetting::train(there, 3));
    CHECK((bytes_of(state_slices(here.model())) == bytes_of(state_slices(there.model()))));
    CHECK((bytes_of(state_slices(here.model())) != before));
    for (const ParameterUnit* unit : here.model().units()) CHECK(unit->parameters->bytes().weights == 0);
  }
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
