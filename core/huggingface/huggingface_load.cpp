// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/new_head.h"
#include "core/checkpoint/safetensors.h"
#include "core/huggingface/huggingface.h"
#include "core/huggingface/huggingface_tensors.h"
#include "core/huggingface/tensor_dtype.h"
#include "core/huggingface/tensor_values.h"
#include "core/json/json_file.h"
#include "core/recipe/model_from/huggingface_config.h"
#include "core/recipe/model_from/model_from.h"
#include "core/recipe/rules/planned_model.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

std::string shape_text(const std::vector<std::int64_t>& shape) { return nlohmann::json(shape).dump(); }

// Each begins with a tensor's name.
using TensorProblems = std::vector<std::string>;

// Throws Error(bad_data) that names all problems of a folder's tensors, but not thousands of them.
void report(const fs::path& folder, const TensorProblems& problems) {
  constexpr std::size_t shown = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, problems.size()); ++i)
    text.append(text.empty() ? "" : "\n").append(folder.string() + ": " + problems[i]);
  if (problems.size() > shown) text.append("\n").append(folder.string() + ": and more");
  if (!problems.empty()) throw Error(ExitCode::bad_data, text);
}

// Constant buffers that older versions saved beside the weights: causal masks and rotary frequencies.
bool is_buffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

// Buffers, and what training for other tasks has added to an encoder: a pooler, and the head of next sentences.
bool is_left_out(std::string_view name, HuggingfaceType type) {
  // T5's first files have a table of positions for attention to the source, which nothing reads.
  if (type == HuggingfaceType::t5) return name.ends_with("EncDecAttention.relative_attention_bias.weight");
  if (is_image_classifier(type)) return name.find("pooler.") != std::string_view::npos;
  if (!is_encoder(type)) return is_buffer(name);
  return name.ends_with(".position_ids") || name.find("pooler.") != std::string_view::npos ||
         name.starts_with("cls.seq_relationship.");
}

// Whether it is of an encoder's head, whatever that is for.
bool is_of_head(std::string_view name) {
  return name.starts_with("cls.") || name.starts_with("lm_head.") || name.starts_with("classifier.") ||
         name.starts_with("qa_outputs.");
}

using TensorNames = std::set<std::string>;  // without the model's prefix

TensorNames names_of(const std::vector<HuggingfaceTensor>& plans, HuggingfaceType type) {
  TensorNames names;
  for (const HuggingfaceTensor& plan : plans) names.insert(without_model_prefix(plan.name, type));
  return names;
}

// As it is called today: the first files of BERT have the names that TensorFlow gives norms.
std::string renamed(std::string_view name, HuggingfaceType type) {
  constexpr std::string_view gamma = ".gamma", beta = ".beta";
  std::string result = without_model_prefix(name, type);
  if (!is_encoder(type)) return result;
  if (result.ends_with(gamma)) result.replace(result.size() - gamma.size(), gamma.size(), ".weight");
  if (result.ends_with(beta)) result.replace(result.size() - beta.size(), beta.size(), ".bias");
  return result;
}

StoredTensors without_prefixes(const StoredTensors& stored, HuggingfaceType type, const TensorNames& expected,
                               TensorProblems& problems) {
  StoredTensors tensors;
  for (const auto& [name, tensor] : stored) {
    // Older files lack the model's prefix, newer ones have it: names are compared without.
    const std::string today = renamed(name, type);
    if (is_left_out(name, type) && !expected.contains(today)) continue;
    if (!tensors.emplace(today, tensor).second)
      problems.push_back(quoted_text(name) + " appears twice, with and without its prefix");
  }
  return tensors;
}

// A view of a stored tensor as [output, input], of mapped memory where it is aligned as LibTorch's kernels need it.
at::Tensor view_of(const StoredTensor& source, bool transposed) {
  const at::ScalarType type = tensor_type(source.entry->dtype);
  const auto bytes = source.bytes();
  // LibTorch has no constant memory; what reads the view does not write.
  void* memory = const_cast<std::byte*>(bytes.data());
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(memory) % c10::elementSize(type) == 0;
  at::Tensor tensor = is_aligned ? at::from_blob(memory, source.entry->shape, at::dtype(type))
                                 : at::empty(source.entry->shape, at::dtype(type));
  if (!is_aligned && !bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return transposed ? tensor.t() : tensor;
}

// Compared as bytes, which also works for NaN, and piece by piece: the largest tensors of a model need not be in
// memory.
bool same_bytes(const StoredTensor& first, const StoredTensor& second) {
  constexpr std::size_t piece = std::size_t{16} << 20;
  const auto ours = first.bytes(), theirs = second.bytes();
  if (ours.size() != theirs.size()) return false;
  bool same = true;
  for (std::size_t begin = 0; same && begin < ours.size(); begin += piece) {
    const auto a = ours.subspan(begin, std::min(piece, ours.size() - begin)), b = theirs.subspan(begin, a.size());
    same = std::memcmp(a.data(), b.data(), a.size()) == 0;
    first.file->release(a);
    second.file->release(b);
  }
  return same;
}

// Files of tied models hold the embedding, the head, which safetensors' removal of shared tensors may have left alone,
// or both, which must be equal then: transformers would not tie the two, whatever config.json says.
void take_tied_head(StoredTensors& tensors, const Graph& graph, const std::string& embedding, HuggingfaceType type,
                    TensorProblems& problems) {
  const auto head = tensors.find(std::string(head_tensor(type)));
  if (!graph.model.tie_embeddings || head == tensors.end()) return;
  const auto [token, is_alone] = tensors.emplace(embedding, head->second);
  if (is_alone || same_bytes(head->second, token->second))
    tensors.erase(head);
  else
    problems.push_back(quoted_text(head->first) +
                       " differs from the token embedding, but config.json ties the two; if they are meant to differ, "
                       "set its tie_word_embeddings to false: transformers loads them untied");
}

// The bias of an encoder's head has two names. Of tied models both are one, and files have either or both; an untied
// one's is that of the matrix, and transformers reads no other.
void take_head_bias(StoredTensors& tensors, const Graph& graph, HuggingfaceType type, TensorProblems& problems) {
  if (!is_encoder(type)) return;
  const auto found = tensors.find(head_bias_beside(type));
  if (found == tensors.end()) return;
  const auto [bias, is_alone] = tensors.emplace(head_bias(type), found->second);
  if (!graph.model.tie_embeddings) bias->second = found->second;
  if (is_alone || same_bytes(found->second, bias->second))
    tensors.erase(found);
  else
    problems.push_back(quoted_text(found->first) + " differs from " + quoted_text(bias->first) +
                       ", and in a tied model the two are one");
}

// Those tensors of a head that begin anew are not read, and neither are those of heads for something else.
void take_head(std::vector<HuggingfaceTensor>& plans, StoredTensors& tensors, const Graph& graph,
               const ModelRecipe& origin, HuggingfaceType type) {
  if (!graph.model.classifier) return;
  std::erase_if(plans, [&](const HuggingfaceTensor& plan) {
    const bool is_stored = tensors.contains(without_model_prefix(plan.name, type));
    return begins_anew(graph.parameters[plan.parameters.front()], graph.model, origin, is_stored);
  });
  const TensorNames expected = names_of(plans, type);
  std::erase_if(tensors,
                [&](const auto& tensor) { return is_of_head(tensor.first) && !expected.contains(tensor.first); });
}

// What sentence-transformers publishes are encoders without the head that predicts tokens.
void take_absent_head(std::vector<HuggingfaceTensor>& plans, const StoredTensors& tensors, const Graph& graph,
                      HuggingfaceType type, TokenHead head, TensorProblems& problems) {
  if (!is_encoder(type) || graph.model.classifier) return;
  const auto is_head = [&](const HuggingfaceTensor& plan) { return is_of_head(plan.name); };
  if (std::ranges::any_of(tensors, [](const auto& tensor) { return is_of_head(tensor.first); })) return;
  if (head == TokenHead::needed)
    problems.push_back(
        "the head that predicts tokens is missing, as from files of BertModel, RobertaModel and "
        "XLMRobertaModel; `llmtrain serve` embeds texts without it");
  std::erase_if(plans, is_head);
}

// Files of encoder-decoders may have the table of tokens once more for each of its readers.
void take_copies(StoredTensors& tensors, const std::string& embedding, HuggingfaceType type, TensorProblems& problems) {
  if (!is_encoder_decoder(type)) return;
  for (const std::string name : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}) {
    const auto copy = tensors.find(name);
    if (copy == tensors.end()) continue;
    const auto [token, is_alone] = tensors.emplace(embedding, copy->second);
    if (is_alone || same_bytes(copy->second, token->second))
      tensors.erase(copy);
    else
      problems.push_back(quoted_text(copy->second.entry->name) + " differs from " +
                         quoted_text(token->second.entry->name) + ", and encoder and decoder have one table of tokens");
  }
}

// A constant that BART adds to its logits and does not train: zero in models that are trained on nothing else.
void take_logits_bias(StoredTensors& tensors, HuggingfaceType type, TensorProblems& problems) {
  const auto bias = tensors.find(std::string(final_logits_bias));
  if (type != HuggingfaceType::bart || bias == tensors.end()) return;
  if (!std::ranges::all_of(bias->second.bytes(), [](std::byte byte) { return byte == std::byte{0}; }))
    problems.push_back(quoted_text(bias->first) + " is not zero, and no bias is added to logits here");
  tensors.erase(bias);
}

void check_tensors(const std::vector<HuggingfaceTensor>& plans, HuggingfaceType type, const Graph& graph,
                   const StoredTensors& tensors, TensorProblems& problems) {
  const TensorNames expected = names_of(plans, type);
  for (const HuggingfaceTensor& plan : plans) {
    const std::string name = without_model_prefix(plan.name, type);
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      problems.push_back(quoted_text(plan.name) + " is missing");
      continue;
    }
    const SafetensorsEntry& entry = *found->second.entry;
    if (entry.shape != plan.shape(graph))
      problems.push_back(quoted_text(entry.name) + " has the shape " + shape_text(entry.shape) +
                         ", but config.json implies " + shape_text(plan.shape(graph)));
    if (tensor_type(entry.dtype) == at::ScalarType::Undefined)
      problems.push_back(quoted_text(entry.name) + " is of dtype " + entry.dtype + "; F32, BF16 or F16 is needed");
  }
  // Tensors that would be ignored are an error: the weights may be of another architecture.
  for (const auto& [name, tensor] : tensors)
    if (!expected.contains(name))
      problems.push_back(quoted_text(tensor.entry->name) + " is unexpected: the model has no such tensor");
}

// Throws for models of which a folder says how they are, and no class is read whose weights are so.
void require_read_weights(const ModelRecipe& model, const std::string& config) {
  std::string words = planned_model_words(model);
  if (!words.empty())
    throw Error(ExitCode::bad_data, config +
                                        ": is of a model that can be planned but not run yet, so that its weights " +
                                        "are not read: it has " + words);
  const auto add = [&](bool has, const char* key) {
    if (has) words += (words.empty() ? "" : " and ") + std::string(key);
  };
  add(model.post_norms, "/model/post_norms");
  add(model.embedding_scale != 1, "/model/embedding_scale");
  add(model.attention_sinks, "/model/attention_sinks");
  if (!words.empty())
    throw Error(ExitCode::bad_data, config + ": is of a model whose weights are not read: it has " + words);
}

}  // namespace

HuggingfaceWeights::HuggingfaceWeights(const fs::path& folder, const Graph& graph, TokenHead head) {
  const std::string config = (folder / "config.json").string();
  const ModelRecipe origin = model_recipe_from_huggingface(folder);
  check_origin(graph.model, origin, config);
  check_window(graph.model, huggingface_window(folder), config);
  require_read_weights(graph.model, config);
  const HuggingfaceType type = huggingface_type_of(graph.model);
  std::vector<HuggingfaceTensor> plans = huggingface_tensors(graph, type);
  // All tensors are checked before any is read: memory is not filled for a model that is refused.
  TensorProblems problems;
  StoredTensors tensors = without_prefixes(open_tensors(folder), type, names_of(plans, type), problems);
  const std::string embedding = without_model_prefix(plans.front().name, type);
  take_copies(tensors, embedding, type, problems);
  take_tied_head(tensors, graph, embedding, type, problems);
  take_logits_bias(tensors, type, problems);
  if (!graph.model.classifier) take_head_bias(tensors, graph, type, problems);
  take_head(plans, tensors, graph, origin, type);
  take_absent_head(plans, tensors, graph, type, head, problems);
  check_tensors(plans, type, graph, tensors, problems);
  report(folder, problems);

  for (const HuggingfaceTensor& plan : plans) {
    std::int64_t row = plan.rows_before;
    for (const std::size_t index : plan.parameters) {
      const Parameter& parameter = graph.parameters[index];
      const StoredTensor& tensor = tensors.at(without_model_prefix(plan.name, type));
      // Experts, one parameter here, come in their order.
      places_[parameter.name].push_back({tensor, plan.transposed, row});
      if (!plan.stored.empty()) places_[parameter.name].back().shape = parameter.shape;
      // GPT-2's query, key and value are one tensor there and three parameters here.
      row += parameter.shape.front();
    }
  }
}

bool HuggingfaceWeights::holds(const Parameter& parameter) const { return places_.contains(parameter.name); }

at::ScalarType HuggingfaceWeights::type(const Parameter& parameter) const {
  const std::vector<Place>& places = places_.at(parameter.name);
  const at::ScalarType first = tensor_type(places.front().tensor.entry->dtype);
  const bool is_common = std::all_of(places.begin(), places.end(), [&](const Place& place) {
    return tensor_type(place.tensor.entry->dtype) == first;
  });
  return is_common ? first : at::kFloat;
}

void HuggingfaceWeights::read_part(const Place& place, const SliceBox& box, const at::Tensor& into) const {
  at::Tensor part = view_of(place.tensor, place.transposed);
  if (!place.shape.empty()) part = part.view(place.shape);
  for (std::size_t axis = 0; axis < box.shape.size(); ++axis) {
    const std::int64_t first = box.offset[axis] + (axis == 0 ? place.first_row : 0);
    part = part.narrow(static_cast<std::int64_t>(axis), first, box.shape[axis]);
  }
  into.copy_(part);
  require_finite(into, place.tensor.file->path().string() + ": " + quoted_text(place.tensor.entry->name));
  // What has been copied need not stay: it would count as this process's memory.
  place.tensor.file->release(place.tensor.bytes());
}

at::Tensor HuggingfaceWeights::read(const Parameter& parameter, const SliceBox& box) const {
  at::Tensor values = at::empty(box.shape, at::dtype(type(parameter)));
  const std::vector<Place>& places = places_.at(parameter.name);
  if (!parameter.has_expert_axis) {
    read_part(places.front(), box, values);
    return values;
  }
  const SliceBox of_expert{{box.offset.begin() + 1, box.offset.end()}, {box.shape.begin() + 1, box.shape.end()}};
  for (std::int64_t i = 0; i < box.shape.front(); ++i)
    read_part(places[static_cast<std::size_t>(box.offset.front() + i)], of_expert, values[i]);
  return values;
}

}  // namespace llmtrain
