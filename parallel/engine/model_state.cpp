// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/model_state.h"

#include <ATen/ops/empty.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/checkpoint/stored_model.h"
#include "core/checkpoint/stored_scale.h"
#include "core/checkpoint/tensor_slice.h"
#include "core/graph/sharding.h"
#include "core/huggingface/tensor_dtype.h"
#include "core/huggingface/tensor_values.h"
#include "core/parameters/flat_memory.h"
#include "kernels/host_copy.h"
#include "parallel/engine/fp8_history_state.h"
#include "parallel/engine/left_out_state.h"
#include "parallel/shard/states/owned_elements.h"

namespace llmtrain {
namespace {

std::vector<OwnedElements> owned_elements(const LocalModel& model, const ParameterUnit& unit) {
  return elements_in(model.graph(), *unit.store, *unit.parameters, unit.parameters->owned());
}

// Reads into flat memory, directly if type and device match, else through a temporary tensor: of a GPU's memory pinned,
// so that the next piece is read while this one is on its way. Returns what was read, on the host.
at::Tensor read_box(const CheckpointReader& checkpoint, const LogicalTensor& tensor, const SliceBox& box,
                    const at::Tensor& flat) {
  const at::ScalarType type = stored_type(tensor);
  const bool fits = flat.is_cpu() && flat.scalar_type() == type;
  const auto options = at::TensorOptions(type).pinned_memory(!flat.is_cpu());
  const at::Tensor read = fits ? flat : at::empty(flat.sizes(), options);
  checkpoint.read_box(tensor.name, box, std::span<std::byte>(static_cast<std::byte*>(read.data_ptr()), read.nbytes()));
  // As it is stored: the host would convert into memory that is not pinned.
  if (!fits) flat.copy_(flat.is_cpu() ? read : read.to(flat.device(), true), true);
  return read;
}

// What the checkpoint calls the headroom of a parameter's gradients.
constexpr const char* headroom_suffix = ".mu";

// Calls `visit(box, place)` for pieces of the elements in the order of memory: a box of the whole parameter, and the
// index at which its elements start in the tensors over the owned range.
template <class Visit>
void visit_owned(const OwnedElements& elements, Visit visit) {
  constexpr std::int64_t piece = 1 << 24;  // elements: bounds the temporary copy
  for (std::int64_t begin = elements.begin; begin < elements.end; begin += piece) {
    std::int64_t next = elements.place + begin - elements.begin;
    for (const SliceBox& box : elements.boxes(begin, std::min(begin + piece, elements.end))) {
      visit(box, next);
      next += element_count(box.shape);
    }
  }
}

// Copies the owned part of a logical tensor of the checkpoint, without its scale, to the owned values. `look` is given
// each piece as the host has read it.
template <class Look>
void read_into(const CheckpointReader& checkpoint, const std::string& name, const OwnedElements& elements,
               const StateValues& owned, Look look) {
  const LogicalTensor& tensor = find_tensor(checkpoint, name, *elements.parameter);
  const std::optional<float> scale = read_number(checkpoint, scale_name(name));
  visit_owned(elements, [&](const SliceBox& box, std::int64_t place) {
    owned.write({place, place + element_count(box.shape)}, [&](const at::Tensor& values) {
      look(read_box(checkpoint, tensor, box, values));
      if (scale) values.div_(*scale);
    });
  });
}

// Those of the optimizer's states that have scales.
std::vector<OptimizerState> scaled_states(const ShardedParameters& parameters) {
  if (parameters.scales() == nullptr || parameters.scales()->optimizer_states() == 0) return {};
  return parameters.optimizer_states();
}

// The scale of a tensor that a rank stores as `type`; 0 where the checkpoint has none for that type.
float given_scale(const CheckpointReader& checkpoint, const std::string& name, at::ScalarType type) {
  const LogicalTensor* tensor = checkpoint.find(name);
  if (tensor == nullptr || tensor->dtype != dtype_name(type)) return 0;
  return read_number(checkpoint, scale_name(name)).value_or(0);
}

void read_scales(const CheckpointReader& checkpoint, const Graph& graph, const ParameterUnit& unit) {
  TensorScales* scales = unit.parameters->scales();
  if (scales == nullptr) return;
  const std::vector<OptimizerState> states = scaled_states(*unit.parameters);
  for (std::size_t i = 0; i < unit.store->ranges().size(); ++i) {
    const Parameter& parameter = graph.parameters[unit.store->ranges()[i].parameter];
    TensorScales::State given;
    given.scales = {
        given_scale(checkpoint, weights_name(checkpoint, parameter), unit.parameters->source().scalar_type())};
    for (const OptimizerState& state : states)
      given.scales.push_back(given_scale(checkpoint, parameter.name + "." + state.name, state.values.scalar_type()));
    given.scales.resize(1 + scales->optimizer_states());
    given.headroom = read_number(checkpoint, parameter.name + headroom_suffix).value_or(0);
    scales->set_state(i, given);
  }
}

double owned_count(const LocalModel& model) {
  double count = 0;
  for (const ParameterUnit* unit : model.units())
    for (const OwnedElements& elements : owned_elements(model, *unit)) count += static_cast<double>(elements.count());
  return count;
}

// Calls `function(elements, memory)`, which may write to their weights, for every parameter of which this rank owns
// elements, and reports the share of these.
template <class Function>
void for_owned(LocalModel& model, const ReportShare& report, Function function) {
  double done = 0;
  const double count = std::max(1.0, owned_count(model));
  for (const ParameterUnit* unit : model.units())
    model.write_weights(*unit, [&] {
      for (const OwnedElements& elements : owned_elements(model, *unit)) {
        function(elements, *unit->parameters);
        done += static_cast<double>(elements.count());
        report(done / count);
      }
    });
}

// One state of a unit's parameters: rounded weights, master weights or an optimizer state.
struct StatePart {
  StateValues owned;
  std::string suffix;  // appended to the parameter's name in the checkpoint
};

std::vector<StatePart> state_parts(const ShardedParameters& parameters) {
  std::vector<StatePart> parts;
  const auto rounded = parameters.rounded();
  if (rounded) parts.push_back({StateValues(*rounded), ""});
  parts.push_back({parameters.source_values(), rounded ? ".master" : ""});
  const std::vector<OptimizerState> states = parameters.optimizer_states();
  for (std::size_t i = 0; i < states.size(); ++i) parts.push_back({parameters.state_values(i), "." + states[i].name});
  return parts;
}

// What hands over values of a file when they are written, in pieces.
TensorContent content_of(const StateValues& values, const FlatInterval& elements) {
  return [values, elements](const WriteBytes& write) {
    for (std::int64_t begin = elements.begin; begin < elements.end; begin += StatePieces::most) {
      const at::Tensor piece = values.read({begin, std::min(elements.end, begin + StatePieces::most)});
      write(piece.data_ptr(), piece.nbytes());
    }
  };
}

// Appends the elements of one state, of values on the disk or at `memory`, as slices of the tensor `name`.
void add_slices(std::vector<TensorSlice>& slices, const std::string& name, const OwnedElements& elements,
                const StateValues& values, const std::byte* memory) {
  std::int64_t place = elements.place;
  for (const SliceBox& box : elements.boxes(elements.begin, elements.end)) {
    const FlatInterval part{place, place + element_count(box.shape)};
    slices.push_back({name, dtype_name(values.type()), elements.parameter->shape, box.offset, box.shape});
    if (values.is_on_disk()) {
      slices.back().content = content_of(values, part);
    } else {
      slices.back().data =
          memory + (place - elements.place) * static_cast<std::int64_t>(c10::elementSize(values.type()));
    }
    place = part.end;
  }
}

// Calls visit(name, elements, values) for each state of each parameter, as far as this rank writes it.
template <class Visit>
void for_saved(const LocalModel& model, SavedParameters which, Visit visit) {
  for (const ParameterUnit* unit : model.units()) {
    if (which == SavedParameters::trained && unit->store->is_frozen(unit->store->ranges().front().parameter)) continue;
    if (!model.counts(*unit)) continue;
    // The same elements for every state: weights, master weights and moments of a parameter are cut alike.
    const auto saved = saved_elements(model.graph(), *unit->store, *unit->parameters);
    for (const auto& [owned, suffix] : state_parts(*unit->parameters))
      for (const OwnedElements& elements : saved) visit(elements.parameter->name + suffix, elements, owned);
  }
}

// Appends the scales of a unit's parameters, which one of the ranks that share them writes.
void add_scales(std::vector<TensorSlice>& slices, const LocalModel& model, const ParameterUnit& unit) {
  const TensorScales* scales = unit.parameters->scales();
  const RankGroups& groups = model.groups();
  if (scales == nullptr || groups.data.position() != 0 || groups.tensor.position() != 0) return;
  const auto add = [&](const std::string& name, const float& number) {
    slices.push_back({name, dtype_name(at::kFloat), {1}, {0}, {1}, reinterpret_cast<const std::byte*>(&number)});
  };
  const std::vector<OptimizerState> states = scaled_states(*unit.parameters);
  for (std::size_t i = 0; i < unit.store->ranges().size(); ++i) {
    const std::string& name = model.graph().parameters[unit.store->ranges()[i].parameter].name;
    const TensorScales::State& state = scales->state(i);
    const bool has_master = unit.parameters->rounded().has_value();
    if (has_master) add(scale_name(name), state.seen);
    add(scale_name(name + (has_master ? ".master" : "")), state.scales[0]);
    for (std::size_t k = 0; k < states.size(); ++k) add(scale_name(name + "." + states[k].name), state.scales[1 + k]);
    add(name + headroom_suffix, state.headroom);
  }
}

// The loss scale, the steps since it last changed and the updates that it has cost, which the first rank writes.
constexpr const char* loss_scale_name = "loss_scale";
constexpr std::int64_t loss_scale_numbers = 3;

void add_loss_scale(std::vector<TensorSlice>& slices, const LocalModel& model) {
  const LossScale::State& state = model.loss_scale().state();
  static_assert(sizeof(state) == loss_scale_numbers * sizeof(float));
  if (model.loss_scale().is_dynamic() && model.groups().is_first())
    slices.push_back(
        {loss_scale_name, dtype_name(at::kFloat), {loss_scale_numbers}, {0}, {loss_scale_numbers}, &state});
}

void read_loss_scale(const CheckpointReader& checkpoint, LocalModel& model) {
  // Runs without fp16 have none.
  const LogicalTensor* tensor = checkpoint.find(loss_scale_name);
  if (tensor == nullptr || !model.loss_scale().is_dynamic()) return;
  if (tensor->dtype != dtype_name(at::kFloat) || tensor->shape != std::vector{loss_scale_numbers})
    throw Error(ExitCode::bad_data, fmt::format("{}: {}: is not {} F32 numbers", checkpoint.folder().string(),
                                                loss_scale_name, loss_scale_numbers));
  LossScale::State state;
  checkpoint.read_box(loss_scale_name, {{0}, {loss_scale_numbers}}, std::as_writable_bytes(std::span(&state, 1)));
  model.loss_scale().set_state(state);
}

// Throws Error(bad_data) for values (elements ÷ scale) that would be infinite where the model keeps them.
void require_held(const at::Tensor& values, const ShardedParameters& memory, const std::string& what,
                  double scale = 1) {
  constexpr double first_infinite = 65520;  // smaller ones round to 65504
  if (!memory.holds_plain_fp16()) return;
  if (const double largest = largest_magnitude(values) / scale; largest >= first_infinite)
    throw Error(ExitCode::bad_data, fmt::format("{}: has values of up to {:.6g}, and precision.compute \"fp16\" holds "
                                                "none beyond 65504; set it to \"bf16\" or \"fp32\"",
                                                what, largest));
}

void publish(LocalModel& model) {
  for (const ParameterUnit* unit : model.units()) unit->parameters->publish();
}

// Lets the slices from `first` on point to copies of what they point to.
void copy_slices(std::vector<TensorSlice>& slices, std::size_t first, std::vector<at::Tensor>& copies) {
  for (std::size_t i = first; i < slices.size(); ++i) {
    const auto bytes = static_cast<std::size_t>(element_count(slices[i].slice_shape)) * sizeof(float);
    copies.push_back(at::empty({static_cast<std::int64_t>(bytes)}, at::kByte));
    std::memcpy(copies.back().data_ptr(), slices[i].data, bytes);
    slices[i].data = copies.back().data_ptr();
  }
}

// Scales are numbers of the host wherever the weights are: where those are copied, the scales are of the same moment.
void add_numbers(std::vector<TensorSlice>& slices, const LocalModel& model, std::vector<at::Tensor>& copies) {
  const std::size_t first = slices.size();
  add_loss_scale(slices, model);
  add_fp8_history(slices, model);
  for (const ParameterUnit* unit : model.units()) add_scales(slices, model, *unit);
  if (!model.device().is_cpu()) copy_slices(slices, first, copies);
}

}  // namespace

std::size_t state_bytes(const LocalModel& model, SavedParameters saved) {
  std::size_t bytes = 0;
  for_saved(model, saved, [&](const auto&, const OwnedElements& elements, const StateValues& values) {
    if (!values.is_on_disk()) bytes += static_cast<std::size_t>(elements.count()) * c10::elementSize(values.type());
  });
  return bytes;
}

StateSlices state_slices(const LocalModel& model, SavedParameters saved) {
  if (!model.device().is_cpu()) {
    // Pages that are not touched before they are written.
    const at::Tensor host = make_flat_memory(static_cast<std::int64_t>(state_bytes(model, saved)), at::kByte, at::kCPU);
    StateSlices state = copied_slices(model, static_cast<std::byte*>(host.data_ptr()), saved);
    std::exchange(state.copy, {})->run();
    state.memory = std::make_shared<std::pair<at::Tensor, std::shared_ptr<const void>>>(host, state.memory);
    return state;
  }
  StateSlices state;
  std::vector<at::Tensor> copies;
  add_numbers(state.slices, model, copies);
  for_saved(model, saved, [&](const std::string& name, const OwnedElements& elements, const StateValues& values) {
    const std::byte* memory = nullptr;
    if (!values.is_on_disk()) memory = static_cast<const std::byte*>(values.read(elements.interval()).data_ptr());
    add_slices(state.slices, name, elements, values, memory);
  });
  return state;
}

StateSlices copied_slices(const LocalModel& model, std::byte* host, SavedParameters saved) {
  StateSlices state;
  std::vector<at::Tensor> numbers;
  add_numbers(state.slices, model, numbers);
  std::vector<StateCopy::Piece> pieces;
  for_saved(model, saved, [&](const std::string& name, const OwnedElements& elements, const StateValues& values) {
    add_slices(state.slices, name, elements, values, host);
    if (values.is_on_disk()) return;
    pieces.push_back({values.read(elements.interval()), host});
    host += pieces.back().from.nbytes();
  });
  state.memory = std::make_shared<const std::vector<at::Tensor>>(std::move(numbers));
  state.copy = std::make_shared<StateCopy>(model.device(), std::move(pieces));
  return state;
}

void load_state(LocalModel& model, const CheckpointReader& checkpoint, const ReportShare& report) {
  model.reclaim_states();
  // All are of one size, in elements.
  std::size_t parts = 1;
  for (const ParameterUnit* unit : model.units())
    parts = std::max(parts, 1 + unit->parameters->optimizer_states().size());
  const double each = 1 / static_cast<double>(parts);
  // Weights are published to the rounded copies and other ranks there; optimizer states have no copies.
  load_weights(model, checkpoint, [&](double share) { report(share * each); });
  read_loss_scale(checkpoint, model);
  read_fp8_history(checkpoint, model);
  read_gradient_fallback(checkpoint, model);
  double done = 0;
  const double count = std::max(1.0, owned_count(model));
  for (const ParameterUnit* unit : model.units()) {
    const auto owned = owned_elements(model, *unit);
    const auto states = unit->parameters->optimizer_states();
    for (std::size_t i = 0; i < states.size(); ++i)
      unit->parameters->load_state(i, [&](const StateValues& values) {
        for (const OwnedElements& elements : owned) {
          read_into(checkpoint, elements.parameter->name + "." + states[i].name, elements, values, [](const auto&) {});
          done += static_cast<double>(elements.count()) / static_cast<double>(states.size());
          report(each + (1 - each) * done / count);
        }
      });
  }
}

void load_weights(LocalModel& model, const CheckpointReader& checkpoint, const ReportShare& report,
                  ParameterNames anew) {
  load_left_out(model, checkpoint);
  // Before the weights, which are then stored with the checkpoint's own scales: their bits are those that were saved.
  for (const ParameterUnit* unit : model.units()) read_scales(checkpoint, model.graph(), *unit);
  model.reclaim_states();
  for_owned(model, report, [&](const OwnedElements& elements, ShardedParameters& memory) {
    const std::string name = weights_name(checkpoint, *elements.parameter);
    const bool is_new = std::ranges::count(anew, elements.parameter->name) > 0;
    if (is_new || keeps_own(checkpoint, *elements.parameter)) return;
    const std::string where = checkpoint.folder().string() + ": " + name;
    const double scale = read_number(checkpoint, scale_name(name)).value_or(1);
    // On the host: a GPU would have to be waited for once per tensor.
    read_into(checkpoint, name, elements, memory.incoming(), [&](const at::Tensor& piece) {
      require_finite(piece, where);
      require_held(piece, memory, where, scale);
    });
  });
  publish(model);
}

void load_weights(LocalModel& model, const WeightSource& source, const ReportShare& report, ParameterNames anew) {
  for_owned(model, report, [&](const OwnedElements& elements, ShardedParameters& memory) {
    if (std::ranges::count(anew, elements.parameter->name) > 0 || !source.holds(*elements.parameter)) return;
    visit_owned(elements, [&](const SliceBox& box, std::int64_t place) {
      const at::Tensor values = source.read(*elements.parameter, box).view({-1});
      require_held(values, memory, elements.parameter->name);
      memory.incoming().write({place, place + values.numel()}, [&](const at::Tensor& piece) {
        piece.copy_(kernels::to_device(values, piece.device()));
      });
    });
  });
  publish(model);
}

}  // namespace llmtrain
