// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generation/continuation_scores.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/model/moe/pass_routing.h"
#include "kernels/host_copy.h"
#include "parallel/device/transfers.h"
#include "parallel/engine/forward_pass.h"

namespace llmtrain {
namespace {

using Tokens = std::span<const std::int64_t>;

struct SeenText {
  Tokens tokens;
  std::size_t first;
};

SeenText seen_part(const ScoredText& text, std::int64_t window) {
  const Tokens all(text.tokens);
  // The last token is only asked for, not read: the model may see one more.
  const std::size_t length = std::min(all.size(), static_cast<std::size_t>(window) + 1), left_out = all.size() - length;
  const auto first = static_cast<std::size_t>(text.first);
  if (first > left_out && first < all.size()) return {all.last(length), first - left_out};
  throw Error(ExitCode::internal_error, "continuation: of " + std::to_string(all.size()) + " tokens those from " +
                                            std::to_string(first) + " on do not fit a window of " +
                                            std::to_string(window));
}

// Tokens that all texts begin with, less than what comes before any token that is asked for: its logits are needed.
std::size_t common_prefix(const std::vector<SeenText>& texts) {
  const Tokens front = texts.front().tokens;
  std::size_t length = front.size();
  for (const SeenText& text : texts) {
    length = std::min({length, text.first - 1, text.tokens.size()});
    const auto [left, right] =
        std::mismatch(front.begin(), front.begin() + static_cast<std::ptrdiff_t>(length), text.tokens.begin());
    length = static_cast<std::size_t>(left - front.begin());
  }
  return length;
}

}  // namespace

std::vector<double> continuation_scores(Decoder& decoder, std::span<const ScoredText> texts, std::int64_t window) {
  std::vector<SeenText> seen;
  for (const ScoredText& text : texts) seen.push_back(seen_part(text, window));
  const std::size_t prefix = common_prefix(seen);
  if (prefix > 0) {
    const NewTokens common{0, 0, seen.front().tokens.first(prefix)};
    decoder.read(std::span(&common, 1));
  }
  std::vector<NewTokens> pieces;
  std::vector<std::int64_t> following;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const auto sequence = static_cast<std::int64_t>(i), begin = static_cast<std::int64_t>(prefix);
    if (i > 0 && prefix > 0) decoder.copy(std::array{KeyValueCache::Copy{0, sequence, begin}});
    // Without the last token, after which nothing is asked.
    pieces.push_back({sequence, begin, seen[i].tokens.subspan(prefix, seen[i].tokens.size() - prefix - 1)});
    const Tokens after = seen[i].tokens.subspan(prefix + 1);
    following.insert(following.end(), after.begin(), after.end());
  }
  const at::Tensor found = decoder.log_probabilities(pieces, following);
  std::vector<double> scores(seen.size(), 0);
  if (decoder.decides()) {
    const auto* next = found.const_data_ptr<double>();
    for (std::size_t i = 0; i < seen.size(); ++i) {
      for (std::size_t t = prefix + 1; t < seen[i].tokens.size(); ++t, ++next)
        if (t >= seen[i].first) scores[i] += *next;
    }
  }
  return decoder.agree(std::move(scores));
}

void require_text(const Graph& graph, std::span<const std::int64_t> tokens, std::int64_t tensor_ranks) {
  check_tokens(tokens, graph.model.vocab_size);
  const std::int64_t rows = std::ssize(tokens) - 1, window = graph.model.max_sequence_length;
  const std::int64_t most = window / tensor_ranks * tensor_ranks;
  if (rows >= 1 && rows <= most) return;
  throw Error(ExitCode::bad_data,
              "the text has " + std::to_string(tokens.size()) + " tokens; must be 2 to " + std::to_string(most + 1) +
                  ", one more than " +
                  (most == window ? "model.max_sequence_length"
                                  : "what tensor ranks divide among them of model.max_sequence_length"));
}

std::vector<double> log_probabilities_of(LocalModel& model, std::span<const std::int64_t> tokens,
                                         std::span<const TokenExperts> experts) {
  const auto length = tokens.size() - 1, ranks = static_cast<std::size_t>(model.groups().tensor.ranks());
  // Tensor ranks divide the rows of experts among themselves. What is read behind the text changes nothing before.
  const std::size_t rows = (length + ranks - 1) / ranks * ranks;
  const auto padded = [&](Tokens part) {
    std::vector<std::int64_t> all(part.begin(), part.end());
    all.resize(rows, 0);
    return kernels::to_device(at::tensor(all), model.device());
  };
  PassContext context{.mode = PassMode::evaluation};
  context.keeps_all_tokens = true;
  std::optional<PassRouting> routing;
  if (!experts.empty()) {
    std::vector<TokenExperts> of_rows(experts.begin(), experts.end());
    of_rows.resize(rows, experts.back());
    context.routing = &routing.emplace(replay_of(model.graph(), of_rows));
  }
  PassInput input{{.fields = {}, .rows = {{.count = 1, .length = static_cast<std::int64_t>(rows)}}},
                  std::move(context)};
  input.batch.field(BatchField::token_ids) = padded(tokens.first(length));
  input.batch.field(BatchField::targets) = padded(tokens.last(length));
  ForwardPass pass(model);
  const StagePasses::Output output = pass.run(input);
  pass.finish();
  if (output.losses.empty()) return {};
  const at::Tensor losses = output.losses.front().rows;
  std::vector<double> result = read_numbers(std::span(&losses, 1));
  result.resize(length);
  for (double& loss : result) loss = -loss;
  return result;
}

}  // namespace llmtrain
