// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generation/decoder.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "kernels/host_copy.h"
#include "kernels/separate_rows.h"
#include "parallel/device/transfers.h"
#include "parallel/engine/generation/log_probability.h"
#include "parallel/shard/tensor_array.h"

namespace llmtrain {
namespace {

// The tokens of all pieces, as one sequence, and the source that comes with one of them.
struct TokenRows {
  std::vector<std::int64_t> tokens, logit_rows, source;
  std::vector<kernels::CachePlace> places;
  std::optional<std::int64_t> of_source;  // the sequence
};

bool are_single(std::span<const NewTokens> pieces) {
  return std::all_of(pieces.begin(), pieces.end(), [](const NewTokens& piece) { return piece.tokens.size() == 1; });
}

TokenRows rows_of(std::span<const NewTokens> pieces, Decoder::Rows asked, std::int64_t divisor) {
  TokenRows rows;
  for (const NewTokens& piece : pieces) {
    if (!piece.source.empty()) {
      if (rows.of_source) throw Error(ExitCode::internal_error, "decoder: a pass has one source at most");
      rows.of_source = piece.sequence;
      rows.source.assign(piece.source.begin(), piece.source.end());
    }
    std::int64_t position = piece.position;
    for (const std::int64_t token : piece.tokens) {
      rows.tokens.push_back(token);
      rows.places.push_back({piece.sequence, position++});
      if (asked != Decoder::Rows::last) rows.logit_rows.push_back(static_cast<std::int64_t>(rows.tokens.size()) - 1);
    }
    if (asked == Decoder::Rows::last) rows.logit_rows.push_back(static_cast<std::int64_t>(rows.tokens.size()) - 1);
  }
  while (static_cast<std::int64_t>(rows.tokens.size()) % divisor != 0) {
    rows.tokens.push_back(0);
    rows.places.push_back({-1, 0});
  }
  return rows;
}

void require_supported(const LocalModel& model, KeyValueType type) {
  if (model.layout().mesh().context > 1)
    throw Error(ExitCode::internal_error, "decoder: context ranks hold parts of sequences, which no cache is made for");
  if (type == KeyValueType::compute) return;
  if (!model.device().is_cpu())
    throw Error(
        ExitCode::bad_recipe,
        "/cluster/device: keys and values are kept in int8 or FP8 on processors alone; leave --kv-cache-dtype out, or "
        "--set cluster.device=cpu");
  if (is_encoder_decoder(model.graph().model.architecture))
    throw Error(ExitCode::bad_recipe,
                "/model/architecture: an encoder-decoder's keys and values are mostly those of its source, which are "
                "not kept in int8 or FP8; leave --kv-cache-dtype out");
}

}  // namespace

// On the host, as a GPU would end with all of its work.
void check_tokens(std::span<const std::int64_t> tokens, std::int64_t vocabulary) {
  const auto bad =
      std::find_if(tokens.begin(), tokens.end(), [=](std::int64_t id) { return id < 0 || id >= vocabulary; });
  if (bad == tokens.end()) return;
  throw Error(ExitCode::bad_data, "token " + std::to_string(bad - tokens.begin()) + " of the text has the id " +
                                      std::to_string(*bad) +
                                      "; ids must be in [0, vocab_size = " + std::to_string(vocabulary) +
                                      "): check that the text was made with the model's tokenizer");
}

Decoder::Decoder(LocalModel& model, std::int64_t sequences, std::int64_t capacity, KeyValueType type)
    : model_(model), cache_(sequences, capacity, type), pass_(model) {
  require_supported(model, type);
}

Decoder::Decoder(LocalModel& model, const KeyValueCache::Pages& pages) : model_(model), cache_(pages), pass_(model) {
  require_supported(model, pages.type);
}

void Decoder::record_routing(bool records) {
  if (records == routing_.has_value()) return;
  routing_.reset();
  if (records) routing_.emplace(PassRouting::Use::record);
}

at::Tensor Decoder::pass(std::span<const NewTokens> pieces, Rows asked, std::int64_t divisor) {
  // Tensor ranks divide rows among themselves: those of experts, and with sequence parallelism all.
  TokenRows rows = rows_of(pieces, asked, std::lcm(divisor, model_.groups().tensor.ranks()));
  check_tokens(rows.tokens, model_.graph().model.vocab_size);
  check_tokens(rows.source, model_.graph().model.vocab_size);
  const bool reads_sources = is_encoder_decoder(model_.graph().model.architecture);
  PassInput input{{}, {.mode = PassMode::prediction, .cache = &cache_}};
  // Anew, as the last pass's has other ranks' layers.
  if (routing_) input.context.routing = &routing_.emplace(PassRouting::Use::record);
  // Without a source its rows are none, and the encoder computes nothing.
  if (reads_sources) input.batch.rows.push_back({.count = 1, .length = std::ssize(rows.source)});
  input.batch.rows.push_back({.count = 1, .length = std::ssize(rows.tokens)});
  std::vector<std::int64_t> sequences, positions;
  for (const kernels::CachePlace& place : rows.places) {
    sequences.push_back(place.sequence);
    positions.push_back(place.position);
  }
  const std::array here{at::tensor(rows.tokens, at::kLong), at::tensor(rows.logit_rows, at::kLong),
                        at::tensor(sequences, at::kLong), at::tensor(positions, at::kLong),
                        at::tensor(rows.source, at::kLong)};
  const std::vector<at::Tensor> there = to_device(here, model_.device());
  input.batch.field(BatchField::token_ids) = there[0];
  input.batch.field(BatchField::counted_rows) = there[1];
  if (reads_sources) {
    input.batch.field(BatchField::source_ids) = there[4];
    input.batch.rows.back().positions = there[3];
  }
  cache_.start({std::move(rows.places), there[2], there[3], {}}, rows.of_source);
  // A source's rows are the libraries'.
  const kernels::SeparateRows separate((asked == Rows::apart || are_single(pieces)) && rows.source.empty());
  at::Tensor logits = pass_.run(input).logits;
  pass_.finish();
  if (routing_ && !model_.holds_all_weights()) share_routing(std::ssize(rows.tokens));
  return logits;
}

void Decoder::share_routing(std::int64_t rows) {
  // Numbers of experts, exact in fp32: −1 where another rank has the layer or the row.
  std::map<std::int64_t, at::Tensor> layers;
  std::vector<at::Tensor> pieces;
  for (const Block& block : model_.graph().blocks) {
    const LayerSettings* layer = block.layer();
    if (layer == nullptr || !layer->feed_forward.experts) continue;
    const auto own = routing_->layers().find(layer->index);
    layers[layer->index] = own == routing_->layers().end()
                               ? at::full({rows, layer->feed_forward.experts->top_k}, -1, at::kLong)
                               : own->second;
    pieces.push_back(layers[layer->index].flatten());
  }
  const at::Tensor all = at::cat(pieces).to(at::kFloat);
  Communicator& communicator = model_.groups().communicator();
  communicator.all_reduce(communicator.world(), Purpose::control, array_of(all), Reduction::max).wait();
  std::int64_t begin = 0;
  for (auto& [index, experts] : layers) {
    experts = all.narrow(0, begin, experts.numel()).to(at::kLong).view_as(experts);
    begin += experts.numel();
  }
  routing_.emplace(PassRouting::Use::record, std::move(layers));
}

std::int64_t Decoder::read_prompt(std::int64_t sequence, std::span<const std::int64_t> prompt, std::int64_t begin,
                                  at::Tensor& logits) {
  // Scales of FP8 products are of all rows that are not apart.
  const bool in_parts =
      model_.device().is_cpu() && (!multiplies_fp8(model_.recipe().precision.fp8_level) || kernels::separates_rows());
  const std::int64_t all = std::ssize(prompt), end = in_parts ? std::min(begin + prompt_chunk, all) : all;
  const auto chunk = prompt.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  // Libraries generate code for each number of rows, and keep it: there are few numbers that sixteen divides.
  constexpr std::int64_t rows_step = 16;
  const at::Tensor found = pass(std::array{NewTokens{sequence, begin, chunk}}, Rows::last, in_parts ? rows_step : 1);
  if (end == all) logits = read_floats(found);
  return end;
}

at::Tensor Decoder::logits(std::span<const NewTokens> pieces, Rows rows) { return read_floats(pass(pieces, rows)); }

at::Tensor Decoder::log_probabilities(std::span<const NewTokens> pieces, std::span<const std::int64_t> following) {
  check_tokens(following, model_.graph().model.vocab_size);
  const at::Tensor logits = pass(pieces, Rows::all);
  if (!logits.defined()) return logits;
  at::Tensor found = at::empty({std::ssize(following)}, logits.options().dtype(at::kDouble));
  if (logits.is_cpu()) {
    const at::Tensor rows = logits.to(at::kFloat).contiguous();
    const auto vocabulary = static_cast<std::size_t>(rows.size(1));
    for (std::size_t i = 0; i < following.size(); ++i)
      found.mutable_data_ptr<double>()[i] =
          LogProbabilities({rows.const_data_ptr<float>() + i * vocabulary, vocabulary}).of(following[i]);
    return found;
  }
  const at::Tensor ids = at::empty({std::ssize(following)}, at::kLong);
  std::copy(following.begin(), following.end(), ids.mutable_data_ptr<std::int64_t>());
  const at::Tensor columns = kernels::to_device(ids, logits.device()).unsqueeze(1);
  // In pieces of bounded size, as float64 takes twice the logits' memory.
  const std::int64_t step = std::max<std::int64_t>(1, (1 << 24) / logits.size(1));
  for (std::int64_t begin = 0; begin < logits.size(0); begin += step) {
    const std::int64_t rows = std::min(step, logits.size(0) - begin);
    const at::Tensor all = at::log_softmax(logits.narrow(0, begin, rows).to(at::kDouble), 1);
    found.narrow(0, begin, rows).copy_(all.gather(1, columns.narrow(0, begin, rows)).squeeze(1));
  }
  const std::vector<double> numbers = read_numbers(std::span(&found, 1));
  return at::tensor(numbers, at::kDouble);
}

bool Decoder::decides() const {
  const RankGroups& groups = model_.groups();
  if (model_.holds_all_weights()) return true;
  return groups.pipeline.position() + 1 == groups.pipeline.ranks() && groups.tensor.position() == 0 &&
         groups.data.position() == 0;
}

std::vector<double> Decoder::agree(std::vector<double> values) const {
  if (model_.holds_all_weights()) return values;
  // Zeros elsewhere make the sum an exact copy of what the one rank has chosen.
  if (!decides()) values.assign(values.size(), 0);
  const std::vector<double> all = model_.groups().exchange(values);
  std::vector<double> result(values.size(), 0);
  for (std::size_t i = 0; i < all.size(); ++i) result[i % result.size()] += all[i];
  return result;
}

}  // namespace llmtrain
