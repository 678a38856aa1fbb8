// SPDX-License-Identifier: Apache-2.0
// A checkpoint that ranks write together equals that of a single rank, and costs each rank only its part.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/safetensors.h"
#include "core/checkpoint/tensor_slice.h"
#include "parallel/device/measurement.h"
#include "parallel/engine/model_state.h"
#include "parallel/engine/trainer.h"
#include "tests/parallel/engine/save_ranks.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

namespace fs = std::filesystem;

std::vector<RankCase> layouts() {
  const std::string micro = "batch.micro=1";
  const Overrides mix{micro, "parallel.tensor=2", "parallel.pipeline=2", "pipeline.schedule=\"breadth_first\"",
                      "pipeline.loops=2"};
  return {
      {4, {micro, zero(0)}},
      {8, {micro, zero(1)}},
      {4, {micro, zero(2), "parallel.zero_shard_ranks=2"}},
      {4, {micro, zero(3), "parallel.zero_shard_ranks=2", "pipeline.loops=2"}},
      {8, mix + Overrides{zero(3)}},
      {8, mix + Overrides{zero(0), "parallel.sequence=true"}},
      {4, {micro, zero(3), "parallel.context=2"}},
      {4, {"parallel.tensor=4", "parallel.sequence=true"}},
      {4, {"parallel.pipeline=4", micro, "pipeline.schedule=\"1f1b\""}},
  };
}

// Tied embeddings, a vocabulary that nothing divides and one head of keys and values for all; bf16 has master weights.
std::vector<Overrides> models() {
  const Overrides small{"model.layers=4", "model.kv_heads=1"};
  return {small + Overrides{"model.vocab_size=257"},
          small + Overrides{"model.vocab_size=259", "model.tie_embeddings=true", "precision.compute=\"bf16\""},
          {"model.layers=4", "model.architecture=\"gpt2\"", "model.vocab_size=259"}};
}

struct Contents {
  std::vector<std::string> tensors;
  std::map<std::string, std::vector<std::byte>> bytes;
};

Contents contents_of(const fs::path& folder) {
  const CheckpointReader reader(folder);
  reader.verify();
  Contents contents;
  for (const LogicalTensor& tensor : reader.tensors()) {
    contents.tensors.push_back(slice_name(tensor.name + " " + tensor.dtype, {}, {tensor.shape, tensor.shape}));
    std::vector<std::byte>& bytes = contents.bytes[tensor.name];
    bytes.resize(static_cast<std::size_t>(safetensors_bytes(tensor.dtype, tensor.shape).value()));
    reader.read_box(tensor.name, {std::vector<std::int64_t>(tensor.shape.size()), tensor.shape}, bytes);
  }
  std::sort(contents.tensors.begin(), contents.tensors.end());
  return contents;
}

bool same_contents(const fs::path& a, const fs::path& b) {
  const Contents first = contents_of(a), second = contents_of(b);
  CHECK(first.tensors == second.tensors);
  return first.bytes == second.bytes;
}

// The dtypes of a matrix's states at an FP8 level, by their suffixes.
struct FormatsOfLevel {
  std::string override;
  std::map<std::string, std::string> dtypes;
};

std::vector<FormatsOfLevel> formats_of_levels() {
  return {{"precision.fp8_level=\"O1\"", {{"", "F16"}, {".m", "F32"}, {".v", "F32"}}},
          {"precision.fp8_level=\"O2\"", {{"", "F16"}, {".m", "F8_E4M3"}, {".v", "F16"}}},
          {"precision.fp8_level=\"O3\"", {{"", "F8_E4M3"}, {".master", "F16"}, {".m", "F8_E4M3"}, {".v", "F16"}}}};
}

// Runs on all ranks of a layout after they have loaded a checkpoint.
template <class Work>
void on_ranks(const TrainingSetting& setting, const RankCase& layout, const Overrides& model,
              const fs::path& checkpoint, Work work) {
  const Recipe recipe = setting.recipe(model + layout.overrides);
  LocalWorld(layout.ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    trainer.resume(CheckpointReader(checkpoint));
    work(trainer);
  });
}

fs::path saved_alone(const TrainingSetting& setting, const Overrides& model) {
  const fs::path folder = setting.directory().path() / "alone";
  LoneTrainer trainer(setting.recipe(model));
  TrainingSetting::train(trainer, 2);
  test::save(trainer, folder);
  return folder / "step-00000002";
}

// The numbers of a tensor, times its scale.
at::Tensor values_of(const CheckpointReader& reader, const std::string& name) {
  const LogicalTensor& tensor = *reader.find(name);
  const auto type = tensor.dtype == "F32"    ? at::kFloat
                    : tensor.dtype == "F16"  ? at::kHalf
                    : tensor.dtype == "BF16" ? at::kBFloat16
                                             : at::kFloat8_e4m3fn;
  at::Tensor stored = at::empty(tensor.shape, type);
  reader.read_box(name, {std::vector<std::int64_t>(tensor.shape.size()), tensor.shape},
                  {static_cast<std::byte*>(stored.data_ptr()), stored.nbytes()});
  const at::Tensor values = stored.to(at::kDouble);
  return reader.find(name + ".scale") == nullptr ? values : values / values_of(reader, name + ".scale");
}

// The largest differences between two checkpoints' states of all matrices, each relative to the tensor's largest.
struct StoredValues {
  double weights = 0, first_moments = 0, second_moments = 0;
};

StoredValues stored_values(const fs::path& from, const fs::path& to) {
  const CheckpointReader first(from), second(to);
  const auto change = [&](const std::string& name, const std::string& suffix) {
    const auto most_precise = [&](const CheckpointReader& reader) {
      return values_of(reader,
                       suffix.empty() && reader.find(name + ".master") != nullptr ? name + ".master" : name + suffix);
    };
    const at::Tensor expected = most_precise(first);
    return ((most_precise(second) - expected).abs().max() / expected.abs().max()).item<double>();
  };
  StoredValues largest;
  for (const LogicalTensor& tensor : first.tensors()) {
    const std::string& name = tensor.name;
    if (!name.starts_with("layers.") || !name.ends_with(".weight") || tensor.shape.size() != 2) continue;
    largest.weights = std::max(largest.weights, change(name, ""));
    largest.first_moments = std::max(largest.first_moments, change(name, ".m"));
    largest.second_moments = std::max(largest.second_moments, change(name, ".v"));
  }
  return largest;
}

}  // namespace

TEST_CASE("the ranks of every layout together write what one rank writes", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model = GENERATE(from_range(models()));
  const fs::path alone = saved_alone(setting, model);
  const fs::path folder = setting.directory().path() / "together";
  for (const RankCase& layout : layouts()) {
    INFO(in_words(layout.ranks, model + layout.overrides));
    on_ranks(setting, layout, model, alone, [&](Trainer& trainer) { test::save(trainer, folder); });
    CHECK(same_contents(folder / "step-00000002", alone));
    fs::remove_all(folder);
  }
}

TEST_CASE("FP8 states and their scales are the same from every layout", "[ranks]") {
  const TrainingSetting setting;
  const FormatsOfLevel level = GENERATE(from_range(formats_of_levels()));
  const Overrides model{"model.layers=4", level.override};
  const fs::path alone = saved_alone(setting, model);
  const CheckpointReader reader(alone);
  const std::string matrix = "layers.1.ffn.up.weight";
  for (const auto& [suffix, dtype] : level.dtypes) {
    CHECK(reader.find(matrix + suffix)->dtype == dtype);
    const LogicalTensor* scale = reader.find(matrix + suffix + ".scale");
    REQUIRE((scale != nullptr) == (dtype != "F32"));
    if (scale != nullptr) CHECK(scale->shape == std::vector<std::int64_t>{1});
  }
  CHECK(reader.find(matrix + ".mu")->shape == std::vector<std::int64_t>{1});
  CHECK(reader.find("layers.1.ffn_norm.weight.scale") == nullptr);
  const fs::path folder = setting.directory().path() / "together";
  for (const RankCase& layout :
       std::vector<RankCase>{{4, {"batch.micro=2", zero(0)}},
                             {8, {"batch.micro=1", zero(1)}},
                             {8, {"batch.micro=1", "parallel.pipeline=2", "parallel.tensor=2", zero(3)}}}) {
    INFO(in_words(layout.ranks, layout.overrides));
    on_ranks(setting, layout, model, alone, [&](Trainer& trainer) { test::save(trainer, folder); });
    CHECK(same_contents(folder / "step-00000002", alone));
    fs::remove_all(folder);
  }
}

TEST_CASE("a run with FP8 states that was resumed is bitwise one that never stopped", "[ranks]") {
  const TrainingSetting setting;
  const FormatsOfLevel level = GENERATE(from_range(formats_of_levels()));
  const std::string rounding = GENERATE("precision.stochastic_rounding=false", "precision.stochastic_rounding=true");
  const RankCase layout{4, {level.override, zero(1), "batch.micro=2", rounding}};
  const Recipe recipe = setting.recipe(layout.overrides);
  const fs::path folder = setting.directory().path() / "together";
  LocalWorld(4).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, 4), communicator, at::kCPU);
    for (int twice = 0; twice < 2; ++twice) {
      TrainingSetting::train(trainer, 3);
      test::save(trainer, folder);
    }
  });
  on_ranks(setting, layout, {}, folder / "step-00000003", [&](Trainer& trainer) {
    TrainingSetting::train(trainer, 3);
    test::save(trainer, setting.directory().path() / "resumed");
  });
  CHECK(same_contents(setting.directory().path() / "resumed" / "step-00000006", folder / "step-00000006"));
}

TEST_CASE("a run with fp16 goes on with its loss scale", "[ranks]") {
  const TrainingSetting setting;
  // The scale grows after every second step and falls at the first, as 2²⁴ overflows.
  const RankCase layout{4,
                        {"precision.compute=\"fp16\"", "precision.loss_scale.initial=16777216",
                         "precision.loss_scale.growth_steps=2", zero(1), "batch.micro=1", "parallel.tensor=2"}};
  const Recipe recipe = setting.recipe(layout.overrides);
  const fs::path folder = setting.directory().path() / "together";
  LocalWorld(4).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, 4), communicator, at::kCPU);
    for (int twice = 0; twice < 2; ++twice) {
      TrainingSetting::train(trainer, 5);
      test::save(trainer, folder);
    }
  });
  const CheckpointReader reader(folder / "step-00000005");
  REQUIRE(reader.find("loss_scale") != nullptr);
  CHECK(reader.find("loss_scale")->shape == std::vector<std::int64_t>{3});
  on_ranks(setting, layout, {}, folder / "step-00000005", [&](Trainer& trainer) {
    TrainingSetting::train(trainer, 5);
    test::save(trainer, setting.directory().path() / "resumed");
  });
  CHECK(same_contents(setting.directory().path() / "resumed" / "step-00000010", folder / "step-00000010"));
}

TEST_CASE("a layer may be in high precision in one run and not in the next", "[ranks]") {
  const TrainingSetting setting, plain, all, back;
  const Overrides level{"precision.fp8_level=\"O3\""};
  const Overrides some = level + Overrides{"precision.high_precision.first_layers=1"};
  const auto saved_by = [](const TrainingSetting& of, const Overrides& overrides, const fs::path& checkpoint) {
    LoneTrainer trainer(of.recipe(overrides));
    trainer.resume(CheckpointReader(checkpoint));
    test::save(trainer, of.directory().path() / "again");
    return of.directory().path() / "again" / "step-00000002";
  };
  const fs::path stored = saved_alone(setting, some);
  const CheckpointReader reader(stored);
  CHECK(reader.find("layers.0.ffn.up.weight")->dtype == "F32");
  CHECK(reader.find("layers.1.ffn.up.weight")->dtype == "F8_E4M3");
  CHECK(reader.find("layers.0.ffn.up.weight.scale") == nullptr);
  CHECK(stored_values(stored, saved_by(plain, {}, stored)).weights == 0);
  const fs::path narrow = saved_by(all, level, stored);
  CHECK(CheckpointReader(narrow).find("layers.0.ffn.up.weight")->dtype == "F8_E4M3");
  const StoredValues change = stored_values(stored, narrow);
  CHECK((change.weights > 0 && change.weights <= 0x1p-11));
  CHECK(stored_values(narrow, saved_by(back, some, narrow)).weights == 0);
}

TEST_CASE("the states of one FP8 level load at another", "[ranks]") {
  const std::vector<FormatsOfLevel> levels = formats_of_levels();
  const auto saved_by = [](const TrainingSetting& setting, const Overrides& level, const fs::path& checkpoint) {
    LoneTrainer trainer(setting.recipe(level));
    trainer.resume(CheckpointReader(checkpoint));
    test::save(trainer, setting.directory().path() / "again");
    return setting.directory().path() / "again" / "step-00000002";
  };
  // Wider types have all numbers of narrower ones: what comes back is what was stored.
  for (std::size_t from = 0; from < levels.size(); ++from)
    for (std::size_t to = 0; to <= from; ++to) {
      INFO(levels[from].override << " as " << (to == 0 ? "none" : levels[to - 1].override));
      const TrainingSetting setting, other, back;
      const fs::path stored = saved_alone(setting, {levels[from].override});
      const fs::path wide = saved_by(other, to == 0 ? Overrides{} : Overrides{levels[to - 1].override}, stored);
      const StoredValues values = stored_values(stored, wide);
      for (const double change : {values.weights, values.first_moments, values.second_moments}) CHECK(change == 0);
    }
  const TrainingSetting setting;
  const fs::path plain = saved_alone(setting, {"precision.compute=\"bf16\""});
  for (const FormatsOfLevel& level : levels) {
    const TrainingSetting other;
    const StoredValues change = stored_values(plain, saved_by(other, {level.override}, plain));
    // fp16 has eleven binary digits, E4M3 four.
    CHECK(change.weights > 0);
    CHECK(change.weights <= 0x1p-11);
    const bool is_scaled = level.dtypes.at(".m") == "F8_E4M3";
    CHECK(change.first_moments == (is_scaled ? Approx(0x1p-5).margin(0x1p-5) : Approx(0)));
    CHECK(change.second_moments == (is_scaled ? Approx(0x1p-12).margin(0x1p-12) : Approx(0)));
  }
}

TEST_CASE("no rank needs more memory than its own state to write and read a checkpoint", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model{"model.layers=4"};
  const fs::path alone = saved_alone(setting, model);
  const fs::path folder = setting.directory().path() / "together";
  std::mutex mutex;
  for (const RankCase& layout : layouts()) {
    INFO(in_words(layout.ranks, layout.overrides));
    on_ranks(setting, layout, model, alone, [&](Trainer& trainer) {
      MemoryWatch watch;
      test::save(trainer, folder);
      trainer.resume(CheckpointReader(folder / "step-00000002"));
      const std::lock_guard lock(mutex);
      CHECK(watch.memory().peak() == 0);
      const at::Tensor any = at::empty({1000});
      CHECK(watch.memory().peak() == any.numel() * static_cast<std::int64_t>(any.element_size()));
    });
  }
}

TEST_CASE("ranks that hold the same state share the writing", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model{"model.layers=4"};
  const fs::path alone = saved_alone(setting, model);
  const RankCase layout = GENERATE(RankCase{4, {"batch.micro=2", zero(0)}}, RankCase{4, {"batch.micro=2", zero(3)}},
                                   RankCase{4, {"batch.micro=2", zero(2), "parallel.zero_shard_ranks=2"}},
                                   RankCase{4, {"batch.micro=2", zero(1), "parallel.context=2"}});
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(layout.ranks));
  on_ranks(setting, layout, model, alone, [&](Trainer& trainer) {
    for (const TensorSlice& slice : state_slices(trainer.model()).slices)
      bytes[static_cast<std::size_t>(trainer.model().groups().communicator().rank())] +=
          safetensors_bytes(slice.dtype, slice.slice_shape).value();
  });
  const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
  // One element of each of four tensors and two boundaries: a share may be smaller by no more than that.
  CHECK(*most - *least <= 4 * 2 * layout.ranks * static_cast<std::int64_t>(sizeof(float)));
}

TEST_CASE("a checkpoint written during training is that of its step", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model = GENERATE(from_range(models()));
  const RankCase layout{8, layouts()[4].overrides};
  const fs::path alone = saved_alone(setting, model);
  const fs::path folder = setting.directory().path() / "together";
  CheckpointRecipe recipe;
  recipe.keep = 2;
  on_ranks(setting, layout, model, alone, [&](Trainer& trainer) {
    CheckpointSaver saver(folder, recipe, trainer.model().groups().communicator());
    for (int step = 0; step < 4; ++step) {
      const StateSlices state = state_slices(trainer.model());
      saver.write(trainer.state(), state.slices, state.memory);
      trainer.step();
      saver.progress();
      trainer.step();
      saver.progress();
    }
    saver.finish();
  });
  CHECK(fs::exists(folder / "step-00000006"));
  CHECK_FALSE(fs::exists(folder / "step-00000004"));
  on_ranks(setting, layout, model, alone, [&](Trainer& trainer) {
    TrainingSetting::train(trainer, 6);
    test::save(trainer, setting.directory().path() / "after");
  });
  CHECK(same_contents(folder / "step-00000008", setting.directory().path() / "after" / "step-00000008"));
}

TEST_CASE("ranks verify a checkpoint together, and all learn of damage that one finds", "[ranks]") {
  const TrainingSetting setting;
  const fs::path folder = setting.directory().path() / "together";
  const RankCase layout{4, {"batch.micro=2", zero(3)}};
  const fs::path alone = saved_alone(setting, {});
  on_ranks(setting, layout, {}, alone, [&](Trainer& trainer) {
    test::save(trainer, folder);
    trainer.step();
    test::save(trainer, folder);
  });
  const auto found_together = [&](std::vector<std::string>& skipped) {
    std::optional<fs::path> found;
    LocalWorld(4).run([&](Communicator& communicator) {
      SharedVerification(communicator).run([&](const VerifyCheckpoint& verify) {
        if (const auto newest = open_newest_checkpoint(folder, skipped, verify)) found = newest->folder();
      });
    });
    return found;
  };
  std::vector<std::string> skipped;
  CHECK(found_together(skipped) == folder / "step-00000003");
  CHECK(skipped.empty());
  const std::string damaged = "tensors-00003-of-00004.safetensors";
  std::ofstream(folder / "step-00000003" / damaged, std::ios::app) << "x";
  CHECK(found_together(skipped) == folder / "step-00000002");
  REQUIRE(skipped.size() == 1);
  CHECK_THAT(skipped.front(), Catch::StartsWith("rank 2: ") && Catch::Contains(damaged));
  CHECK_THROWS_WITH(LocalWorld(4).run([&](Communicator& communicator) {
    verify_together(communicator, CheckpointReader(folder / "step-00000003"));
  }),
                    Catch::Contains(damaged));
}

}  // namespace llmtrain::test
