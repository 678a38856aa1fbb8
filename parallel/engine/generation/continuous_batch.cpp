// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generation/continuous_batch.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/fault_point.h"
#include "core/graph/sharding.h"
#include "core/model/moe/pass_routing.h"
#include "kernels/separate_rows.h"
#include "parallel/engine/generation/exactness.h"
#include "parallel/engine/generation/guessed_tokens.h"
#include "parallel/engine/generation/log_probability.h"

namespace llmtrain {
namespace {

constexpr std::int64_t block_tokens = KeyValueCache::Pages{}.block_tokens;

LocalModel& supported(LocalModel& model, const BatchLimits& limits) {
  const Recipe& recipe = model.recipe();
  if (is_encoder_decoder(recipe.model.architecture))
    throw Error(ExitCode::bad_recipe,
                "/model/architecture: texts that come and go are of decoders; encoder-decoders write in \"sample\"");
  if (multiplies_fp8(recipe.precision.fp8_level) && !limits.is_exact)
    throw Error(ExitCode::bad_recipe,
                "/precision/fp8_level: scales of FP8 products are of all tokens of a prompt; --exact scales each token "
                "by itself, and --set precision.fp8_level=off multiplies in precision.compute");
  if (!model.device().is_cpu())
    throw Error(ExitCode::bad_recipe,
                "/cluster/device: texts that come and go share a cache on processors alone; --set cluster.device=cpu");
  if (limits.is_exact && limits.key_values != KeyValueType::compute)
    throw Error(
        ExitCode::bad_recipe,
        "--kv-cache-dtype: training reads keys and values that are not rounded, so that --exact does not apply to "
        "such as are; leave one of the two out");
  if (limits.is_exact) require_exactness(model, "--exact");
  return model;
}

// Keys and values of so many tokens, on the rank whose layers have most.
std::int64_t cache_bytes(const LocalModel& model, KeyValueType type, std::int64_t tokens) {
  const auto element = static_cast<std::int64_t>(c10::elementSize(model.compute_type()));
  const RankGroups& groups = model.groups();
  const Partition& partition = model.layout().partition();
  std::vector<std::int64_t> of_token(static_cast<std::size_t>(groups.pipeline.ranks()));
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage)
    for (const std::size_t block : partition.stages[stage].blocks)
      if (const LayerSettings* layer = model.graph().blocks[block].layer()) {
        const AttentionSettings& attention = layer->attention;
        const std::int64_t heads = local_units({Split::Kind::repeated, 0, attention.kv_heads}, groups.tensor.ranks());
        of_token[partition.rank_of(stage)] += key_value_bytes(type, heads, attention.head_dim, element);
      }
  return tokens * std::ranges::max(of_token);
}

// What changes of the texts is told as numbers: this, and of a text that comes the tokens of its prompt and of its
// answer, whether it returns experts, and its prompt; of one that ends its number.
enum class Change : std::int64_t { text, end };

// No more than all sequences can use: more would be touched for nothing.
std::int64_t blocks_of(const LocalModel& model, const BatchLimits& limits, std::int64_t block_bytes) {
  const std::int64_t within = limits.cache_bytes / block_bytes;
  if (within == 0)
    throw Error(ExitCode::bad_recipe, "cache_bytes: " + std::to_string(limits.cache_bytes) + " is less than the " +
                                          std::to_string(block_bytes) + " bytes of keys and values of " +
                                          std::to_string(block_tokens) + " tokens");
  const std::int64_t window = model.graph().model.max_sequence_length;
  return std::min(within, limits.sequences * ((window + block_tokens - 1) / block_tokens));
}

}  // namespace

ContinuousBatch::ContinuousBatch(LocalModel& model, const BatchLimits& limits)
    : model_(supported(model, limits)),
      lead_(model.groups()),
      is_exact_(limits.is_exact),
      drafting_(limits.drafting),
      block_bytes_(cache_bytes(model, limits.key_values, block_tokens)),
      pool_(blocks_of(model, limits, block_bytes_)),
      decoder_(model, KeyValueCache::Pages{limits.sequences, pool_.blocks(), block_tokens, limits.key_values}),
      free_places_(static_cast<std::size_t>(limits.sequences)) {
  std::iota(free_places_.rbegin(), free_places_.rend(), std::int64_t{0});
}

std::int64_t ContinuousBatch::longest() const {
  return std::min(model_.graph().model.max_sequence_length, pool_.blocks() * block_tokens);
}

// Nothing follows the last token, so that it is not read.
std::int64_t ContinuousBatch::blocks_for(const TextRequest& request) const {
  const std::int64_t tokens = std::ssize(request.prompt) + request.tokens - 1;
  return (tokens + block_tokens - 1) / block_tokens;
}

void ContinuousBatch::require_fit(const TextRequest& request) const {
  const std::int64_t length = std::ssize(request.prompt) + request.tokens;
  if (request.prompt.empty() || request.tokens < 1 || length > longest())
    throw Error(ExitCode::bad_data, "a prompt of " + std::to_string(request.prompt.size()) + " tokens with " +
                                        std::to_string(request.tokens) + " to come: at least one each, and " +
                                        std::to_string(longest()) + " together at most");
  check_tokens(request.prompt, model_.graph().model.vocab_size);
  if (request.returns_experts && !model_.recipe().model.moe)
    throw Error(ExitCode::bad_data, "the model has no experts to return");
}

void ContinuousBatch::require_lead() const {
  if (!leads()) throw Error(ExitCode::internal_error, "continuous batch: texts come to the rank that leads alone");
}

std::int64_t ContinuousBatch::add(TextRequest request, Listener listener) {
  require_lead();
  require_fit(request);
  if (lead_.has_followers()) {
    const std::int64_t returns_experts = request.returns_experts ? 1 : 0;
    changes_.insert(changes_.end(), {static_cast<std::int64_t>(Change::text), std::ssize(request.prompt),
                                     request.tokens, returns_experts});
    std::ranges::copy(request.prompt, std::back_inserter(changes_));
  }
  Text text{.id = added_++, .request = std::move(request), .listener = std::move(listener)};
  text.tokens = text.request.prompt;
  waiting_.push_back(std::move(text));
  return waiting_.back().id;
}

void ContinuousBatch::cancel(std::int64_t text) {
  require_lead();
  if (lead_.has_followers())
    std::ranges::copy(std::array{static_cast<std::int64_t>(Change::end), text}, std::back_inserter(changes_));
  end(text);
}

void ContinuousBatch::end(std::int64_t text) {
  const auto is_it = [text](const Text& other) { return other.id == text; };
  std::erase_if(waiting_, is_it);
  for (Text& other : texts_) other.is_over = other.is_over || is_it(other);
  remove_ended();
}

bool ContinuousBatch::step() {
  const kernels::SeparateRows separate(is_exact_);
  hear_changes();
  admit();
  if (texts_.empty()) return false;
  fault_point(FaultPlace::forward, model_.groups().communicator().rank(), ++steps_);
  decoder_.record_routing(std::ranges::any_of(texts_, [](const Text& text) { return text.request.returns_experts; }));
  read_prompt();
  grow();
  remove_ended();
  return true;
}

void ContinuousBatch::hear_changes() {
  const std::vector<std::int64_t> changes = lead_.tell(std::exchange(changes_, {}));
  if (lead_.leads()) return;
  for (auto next = changes.begin(); next != changes.end();) {
    if (static_cast<Change>(*next++) == Change::end) {
      end(*next++);
      continue;
    }
    const std::int64_t length = *next++;
    const std::int64_t tokens = *next++;
    const bool returns_experts = *next++ != 0;
    Text text{.id = added_++, .request = {.tokens = tokens, .returns_experts = returns_experts}, .listener = {}};
    text.request.prompt.assign(next, next + length);
    next += length;
    text.tokens = text.request.prompt;
    waiting_.push_back(std::move(text));
  }
}

// First come, first served: a long text is not overtaken for ever by short ones.
void ContinuousBatch::admit() {
  while (!waiting_.empty() && !free_places_.empty() && blocks_for(waiting_.front().request) <= pool_.free()) {
    Text text = std::move(waiting_.front());
    waiting_.pop_front();
    text.place = free_places_.back();
    free_places_.pop_back();
    decoder_.cache().table(text.place) = pool_.lend(blocks_for(text.request));
    texts_.push_back(std::move(text));
  }
}

// A part of the prompt of the first that has not read all of it: the others grow meanwhile.
void ContinuousBatch::read_prompt() {
  const auto next =
      std::find_if(texts_.begin(), texts_.end(), [](const Text& text) { return text.read < text.prompt_length(); });
  if (next == texts_.end()) return;
  at::Tensor logits;
  const std::int64_t before = next->read;
  next->read = decoder_.read_prompt(next->place, next->request.prompt, before, logits);
  Text* const text = &*next;
  note_experts(*text, 0, text->read - before);
  if (text->read == text->prompt_length()) add_tokens(std::span(&text, 1), logits, std::array{std::int64_t{0}});
}

void ContinuousBatch::grow() {
  std::vector<Text*> growing;
  std::vector<DraftedText> drafted;
  for (Text& text : texts_) {
    if (text.is_over || text.read < text.prompt_length()) continue;
    const TextRequest& request = text.request;
    const std::int64_t index = std::ssize(text.tokens) - text.prompt_length();
    growing.push_back(&text);
    // Behind the last guess comes a token of the model's own.
    drafted.push_back({.place = text.place,
                       .tokens = text.tokens,
                       .most = request.tokens - index - 1,
                       .index = index,
                       .limit = request.tokens,
                       .choice = request.choice,
                       .rules = request.rules,
                       .number = request.number});
  }
  const AddTokens add = [&](std::span<const std::size_t> numbers, const at::Tensor& logits,
                            std::span<const std::int64_t> rows) {
    std::vector<Text*> texts;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      texts.push_back(growing[numbers[i]]);
      // The row after which a token is chosen is that of the token before it.
      note_experts(*texts.back(), rows[i], 1);
    }
    add_tokens(texts, logits, rows);
    std::vector<ChosenToken> added;
    for (const Text* text : texts) added.push_back({text->tokens.back(), !text->is_over});
    return added;
  };
  grow_texts(decoder_, drafting_, std::move(drafted), add);
}

GrownToken ContinuousBatch::chosen_token(const Text& text, const at::Tensor& logits) const {
  const TextRequest& request = text.request;
  const std::span row(logits.const_data_ptr<float>(), static_cast<std::size_t>(logits.size(0)));
  GrownToken token;
  token.id = choose_token(row, request.rules, request.choice, request.number,
                          {std::ssize(text.tokens) - text.prompt_length(), request.tokens, text.tokens});
  if (!request.log_probabilities) return token;
  const LogProbabilities probabilities(row);
  std::vector<std::int64_t> ids{token.id};
  if (*request.log_probabilities > 0)
    std::ranges::copy(probabilities.likeliest(*request.log_probabilities), std::back_inserter(ids));
  std::vector<double> found;
  if (is_exact_)
    found = negative_losses(logits.to(model_.compute_type()), ids, model_.groups().tensor.ranks());
  else
    for (const std::int64_t id : ids) found.push_back(probabilities.of(id));
  token.log_probability = found.front();
  for (std::size_t i = 1; i < ids.size(); ++i) token.likeliest.push_back({ids[i], found[i]});
  return token;
}

std::vector<std::int64_t> ContinuousBatch::choose_tokens(std::span<Text* const> texts, const at::Tensor& logits,
                                                         std::span<const std::int64_t> rows) {
  std::vector<GrownToken> chosen(texts.size());
  at::parallel_for(0, std::ssize(chosen), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      chosen[static_cast<std::size_t>(i)] =
          chosen_token(*texts[static_cast<std::size_t>(i)], logits.select(0, rows[static_cast<std::size_t>(i)]));
  });
  std::vector<std::int64_t> words;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Text& text = *texts[i];
    chosen[i].experts = std::exchange(text.experts, {});
    const bool goes_on = text.listener(chosen[i]);
    const bool is_full = std::ssize(text.tokens) + 1 == text.prompt_length() + text.request.tokens;
    words.insert(words.end(), {chosen[i].id, !goes_on || is_full ? 1 : 0});
  }
  return words;
}

void ContinuousBatch::add_tokens(std::span<Text* const> texts, const at::Tensor& logits,
                                 std::span<const std::int64_t> rows) {
  std::vector<std::int64_t> words;
  if (leads()) words = choose_tokens(texts, logits, rows);
  words = lead_.tell(std::move(words));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    texts[i]->tokens.push_back(words[2 * i]);
    texts[i]->is_over = words[2 * i + 1] != 0;
  }
}

void ContinuousBatch::note_experts(Text& text, std::int64_t first, std::int64_t count) const {
  if (!leads() || !text.request.returns_experts) return;
  std::vector<TokenExperts> own = experts_of_rows(decoder_.routing(), first, count);
  std::ranges::move(own, std::back_inserter(text.experts));
}

void ContinuousBatch::remove_ended() {
  for (const Text& text : texts_) {
    if (!text.is_over) continue;
    pool_.take_back(decoder_.cache().table(text.place));
    free_places_.push_back(text.place);
  }
  std::erase_if(texts_, [](const Text& text) { return text.is_over; });
}

ContinuousBatch::Load ContinuousBatch::load() const {
  return {.waiting = std::ssize(waiting_),
          .growing = std::ssize(texts_),
          .blocks = pool_.blocks(),
          .used_blocks = pool_.blocks() - pool_.free(),
          .block_bytes = block_bytes_,
          .drafts = drafting_.drafts == nullptr ? Drafts::Counts{} : drafting_.drafts->counts()};
}

}  // namespace llmtrain
