// SPDX-License-Identifier: Apache-2.0
// Helper of masked_tokens_test.py, classifiers_test.py, spans_test.py, source_and_target_test.py and
// image_classifiers_test.py: what encoders, models of sources and targets, and models of images compute and learn.
//   passes ORIGIN SAMPLES SMOOTHING OUTPUT   of a folder of transformers, or of a recipe's model, in float64: logits
//   and
//                                            losses of all rows, and gradients of the mean loss, whose targets are
//                                            smoothed so
//   train RECIPE SAMPLES OUTPUT              the weights after the recipe's steps, and the losses of the steps
// A recipe's model without an origin begins with weights.safetensors beside the recipe, by our names.
// SAMPLES is a safetensors file of int64 [samples, rows]: token_ids, starts (1 where a document begins), and what there
// is of token_types, targets with marks (1 where a row counts), label [samples], and span [samples, 2]; and of another
// number of rows, where there is a source, source_ids and source_starts. Of models of images it is one of
// saved_images.h.
#include <ATen/ATen.h>

#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/checkpoint/safetensors.h"
#include "core/data/samples/sample_source.h"
#include "core/huggingface/huggingface.h"
#include "core/huggingface/tensor_dtype.h"
#include "core/model/stage.h"
#include "core/parameters/parameter_store.h"
#include "core/recipe/model_from/huggingface_config.h"
#include "core/recipe/recipe_io.h"
#include "core/recipe/step_shapes.h"
#include "parallel/comm/communicator.h"
#include "parallel/engine/data/batch_loader.h"
#include "parallel/engine/model_state.h"
#include "parallel/engine/runner.h"
#include "tests/oracle/encoders/saved_images.h"

namespace {

using namespace llmtrain;

class SavedSamples final : public SampleSource {
 public:
  explicit SavedSamples(const std::string& path) : file_(path), shape_(file_.find("token_ids")->shape) {
    if (const SafetensorsEntry* source = file_.find("source_ids")) {
      sequences_.push_back({source->shape[1], true, false});
      fields_.push_back({BatchField::source_ids, ElementType::int64, {source->shape[1]}, 0});
    }
    const std::size_t last = sequences_.size();
    sequences_.push_back({shape_[1], true, false});
    for (const BatchField field : {BatchField::token_ids, BatchField::token_types, BatchField::targets})
      if (has(std::string(batch_field_names[index_of(field)])))
        fields_.push_back({field, ElementType::int64, {shape_[1]}, last});
    if (has("marks")) fields_.push_back({BatchField::counted_rows, ElementType::uint8, {shape_[1]}, last});
    if (has("label")) fields_.push_back({BatchField::label, ElementType::int64, {}, std::nullopt});
    if (has("span")) fields_.push_back({BatchField::span, ElementType::int64, {2}, std::nullopt});
  }

  std::span<const SampleField> fields() const override { return fields_; }
  std::span<const SampleSequence> sequences() const override { return sequences_; }
  std::int64_t samples() const override { return shape_[0]; }
  void read(std::int64_t number, const FieldMemory& into) const override {
    const auto copy = [&](const char* name, auto memory) {
      for (std::size_t row = 0; row < memory.size(); ++row)
        memory[row] = static_cast<typename decltype(memory)::value_type>(value(name, number, row));
    };
    copy("token_ids", into.values<std::int64_t>(BatchField::token_ids));
    copy("token_types", into.values<std::int64_t>(BatchField::token_types));
    copy("targets", into.values<std::int64_t>(BatchField::targets));
    copy("label", into.values<std::int64_t>(BatchField::label));
    copy("span", into.values<std::int64_t>(BatchField::span));
    copy("marks", into.values<std::uint8_t>(BatchField::counted_rows));
    copy("starts", into.document_starts.back());
    if (sequences_.size() == 1) return;
    copy("source_ids", into.values<std::int64_t>(BatchField::source_ids));
    copy("source_starts", into.document_starts.front());
  }
  double weight(std::size_t, std::int64_t first, std::int64_t count) const override {
    if (has("label")) return static_cast<double>(count);
    if (has("span")) return 2 * static_cast<double>(count);
    double weight = 0;
    for (std::int64_t number = first; number < first + count; ++number)
      for (std::size_t row = 0; row < static_cast<std::size_t>(shape_[1]); ++row)
        weight += static_cast<double>(value("marks", number, row));
    return weight;
  }

 private:
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  std::int64_t value(const char* name, std::int64_t number, std::size_t row) const {
    std::int64_t read = 0;
    const SafetensorsEntry& entry = *file_.find(name);
    const std::int64_t each = entry.shape.size() > 1 ? entry.shape[1] : 1;
    const std::size_t at = static_cast<std::size_t>(number * each) + row;
    std::memcpy(&read, file_.bytes(entry).data() + at * sizeof(read), sizeof(read));
    return read;
  }

  SafetensorsFile file_;
  std::vector<std::int64_t> shape_;
  std::vector<SampleSequence> sequences_;
  std::vector<SampleField> fields_;
};

void save(const NamedWeights& tensors, const std::string& file) {
  std::vector<SafetensorsTensor> written;
  for (const auto& [name, tensor] : tensors)
    written.push_back({name, tensor.scalar_type() == at::kDouble ? "F64" : dtype_name(tensor.scalar_type()),
                       tensor.sizes().vec(), tensor.const_data_ptr()});
  write_safetensors(file, std::move(written));
}

std::unique_ptr<SampleSource> open_samples(const std::string& path, const ModelRecipe& model) {
  if (model.image) return std::make_unique<test::SavedImages>(path, model.image_rows());
  return std::make_unique<SavedSamples>(path);
}

NamedWeights saved_weights(const std::filesystem::path& recipe_file) {
  const SafetensorsFile file((recipe_file.parent_path() / "weights.safetensors").string());
  NamedWeights weights;
  for (const SafetensorsEntry& entry : file.entries()) {
    const at::Tensor weight = at::empty(entry.shape, at::kFloat);
    std::memcpy(weight.mutable_data_ptr(), file.bytes(entry).data(), file.bytes(entry).size());
    weights[entry.name] = weight;
  }
  return weights;
}

bool is_recipe(const std::string& origin) { return origin.ends_with(".json"); }

std::unique_ptr<WeightSource> open_weights(const std::string& origin, const Graph& graph) {
  if (is_recipe(origin)) return std::make_unique<NamedWeightSource>(saved_weights(origin));
  return std::make_unique<HuggingfaceWeights>(origin, graph);
}

// One micro-batch of all samples.
PassInput all_of(const SampleSource& samples, const Graph& graph) {
  Recipe recipe;
  const BatchPlace place{.shape = {samples.samples(), samples.sequences()[0].length, 0, samples.samples()}};
  recipe.batch = {
      .global = samples.samples(), .micro = samples.samples(), .sequence_length = samples.sequences()[0].length};
  return load_batch(samples, graph.row_losses(), recipe, place, {}, at::kCPU).front();
}

void passes(const std::string& origin, const std::string& samples_file, double smoothing, const std::string& output) {
  const Graph graph =
      Graph::build(is_recipe(origin) ? read_recipe(origin).model : model_recipe_from_huggingface(origin));
  const auto samples = open_samples(samples_file, graph.model);
  const auto source = open_weights(origin, graph);
  std::vector<std::size_t> all(graph.parameters.size()), blocks(graph.blocks.size());
  std::iota(all.begin(), all.end(), 0);
  std::iota(blocks.begin(), blocks.end(), 0);
  ParameterStore store(graph, all);
  store.attach_weights(at::empty({store.elements()}, at::kDouble));
  for (const std::size_t index : all)
    store.weight(index).copy_(source->read(graph.parameters[index], whole_box(graph.parameters[index])));
  store.set_gradient_source(
      [&] { return at::full({store.elements()}, std::numeric_limits<double>::quiet_NaN(), at::kDouble); });
  ParameterStores stores;
  stores.add(store);
  StageModule stage(graph, blocks, stores, {});
  PassInput input = all_of(*samples, graph);
  input.context.label_smoothing = smoothing;
  NamedWeights results;
  StagePasses::Output learned = stage.forward({}, 0, input.batch, input.context);
  results["losses"] = learned.losses.at(0).rows.clone();
  stage.backward({}, 0, input.batch, input.context);
  const at::Tensor flat = store.take_gradients();
  for (const FlatRange& range : store.ranges())
    results["gradient." + graph.parameters[range.parameter].name] =
        flat.slice(0, range.begin, range.end).view(graph.parameters[range.parameter].shape).contiguous();
  input.batch.field(BatchField::counted_rows).reset();
  input.context.mode = PassMode::prediction;
  results["logits"] = stage.forward({}, 0, input.batch, input.context).logits.contiguous();
  save(results, output);
}

void train(const std::string& recipe_file, const std::string& samples_file, const std::string& output) {
  const Recipe recipe = read_recipe(recipe_file);
  const auto samples = open_samples(samples_file, recipe.model);
  const auto alone = make_solo_communicator();
  LocalModel model(std::make_shared<const Layout>(Partition::make(recipe, 1)), *alone, at::kCPU);
  const std::string origin = recipe.training.init_from ? recipe.training.init_from->substr(3) : recipe_file;
  load_weights(model, *open_weights(origin, model.graph()));
  Runner runner(model);
  std::vector<double> losses;
  for (std::int64_t step = 0; step < recipe.training.steps; ++step) {
    const BatchPlace place{.step = step, .shape = runner.shapes().at(step)};
    const auto micros = load_batch(*samples, model.graph().row_losses(), recipe, place, {}, at::kCPU);
    losses.push_back(runner.step(micros, step).loss);
  }
  NamedWeights results;
  results["losses"] = at::tensor(losses, at::kDouble).to(at::kFloat);
  const StateSlices state = state_slices(model);
  for (const TensorSlice& slice : state.slices)
    for (const Parameter& parameter : model.graph().parameters)
      if (slice.name == parameter.name)
        results[slice.name] = at::from_blob(const_cast<void*>(slice.data), slice.shape, at::kFloat).clone();
  save(results, output);
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> given(words + 1, words + count);
  try {
    if (given.size() == 5 && given[0] == "passes") {
      passes(given[1], given[2], std::stod(given[3]), given[4]);
      return 0;
    }
    if (given.size() == 4 && given[0] == "train") {
      train(given[1], given[2], given[3]);
      return 0;
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  std::cerr << "usage: encoder_tool passes ORIGIN SAMPLES SMOOTHING OUTPUT | train RECIPE SAMPLES OUTPUT\n";
  return 2;
}
