// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generation/text_embedder.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>

#include "core/base/error.h"
#include "parallel/engine/generation/decoder.h"

namespace llmtrain {
namespace {

LocalModel& supported(LocalModel& model) {
  const ModelRecipe& recipe = model.recipe().model;
  if (model.layout().mesh().context > 1)
    throw Error(ExitCode::internal_error, "embeddings: context ranks hold parts of sequences");
  if (is_encoder_decoder(recipe.architecture) || is_image_classifier(recipe.architecture))
    throw Error(ExitCode::bad_recipe, "/model/architecture: embeddings are made by encoders and decoders of text");
  if (!model.device().is_cpu())
    throw Error(ExitCode::bad_recipe,
                "/cluster/device: embeddings are computed on processors alone; --set cluster.device=cpu");
  return model;
}

// Libraries generate code for each number of rows, and keep it: there are few numbers that sixteen divides. Tensor
// ranks divide rows among themselves.
std::int64_t padded_length(std::int64_t length, std::int64_t longest, std::int64_t tensor_ranks) {
  const std::int64_t step = std::lcm(std::int64_t{16}, tensor_ranks);
  return std::min((length + step - 1) / step * step, longest);
}

// The rows [rows] that are pooled.
at::Tensor pooled_rows(Pooling pooling, std::int64_t length) {
  switch (pooling) {
    case Pooling::mean:
      break;
    case Pooling::first:
      return at::zeros({1}, at::kLong);
    case Pooling::last:
      return at::tensor({length - 1}, at::kLong);
  }
  return at::arange(length, at::kLong);
}

// A text, and padding behind it, which no token of the text looks at: a decoder's look back alone, and to an encoder's
// it is another document.
PassInput input_of(std::span<const std::int64_t> text, const ModelRecipe& model, std::int64_t rows, Pooling pooling) {
  const std::int64_t length = std::ssize(text);
  at::Tensor ids = at::zeros({rows}, at::kLong);
  std::ranges::copy(text, ids.mutable_data_ptr<std::int64_t>());
  PassInput input{{.fields = {}, .rows = {{.count = 1, .length = rows}}},
                  {.mode = PassMode::prediction, .returns_hidden_rows = true, .keeps_all_tokens = true}};
  input.batch.field(BatchField::token_ids) = ids;
  input.batch.field(BatchField::counted_rows) = pooled_rows(pooling, length);
  if (is_encoder(model.architecture) && rows > length) {
    input.batch.sequences().documents = {{0, length}, {length, rows - length}};
    input.batch.sequences().positions = at::cat({at::arange(length, at::kLong), at::arange(rows - length, at::kLong)});
  }
  return input;
}

// Their mean, divided by its length.
std::vector<float> normalized_mean(const at::Tensor& rows) {
  const at::Tensor mean = rows.to(at::kDouble).mean(0).contiguous();
  const std::span values(mean.const_data_ptr<double>(), static_cast<std::size_t>(mean.size(0)));
  double squares = 0;
  for (const double value : values) squares += value * value;
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  std::vector<float> result;
  for (const double value : values) result.push_back(static_cast<float>(value * scale));
  return result;
}

}  // namespace

TextEmbedder::TextEmbedder(LocalModel& model, Pooling pooling)
    : model_(supported(model)), pooling_(pooling), pass_(model) {}

std::int64_t TextEmbedder::longest() const {
  const std::int64_t most = model_.graph().model.max_sequence_length;
  return most - most % model_.groups().tensor.ranks();
}

void TextEmbedder::require_fit(std::span<const std::int64_t> text) const {
  if (text.empty() || std::ssize(text) > longest())
    throw Error(ExitCode::bad_data, "a text of " + std::to_string(text.size()) + " tokens: at least one, and " +
                                        std::to_string(longest()) + " at most");
  check_tokens(text, model_.graph().model.vocab_size);
}

std::vector<float> TextEmbedder::embed(std::span<const std::int64_t> text) {
  require_fit(text);
  const std::int64_t rows = padded_length(std::ssize(text), longest(), model_.groups().tensor.ranks());
  const at::Tensor hidden = pass_.run(input_of(text, model_.graph().model, rows, pooling_)).logits;
  pass_.finish();
  return hidden.defined() ? normalized_mean(hidden) : std::vector<float>();
}

}  // namespace llmtrain
