// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "parallel/engine/generation/continuous_batch.h"
#include "parallel/runtime/inference/inference_requests.h"
#include "parallel/runtime/inference/loaded_draft.h"
#include "parallel/runtime/inference/served_ranks.h"
#include "parallel/runtime/loaded_model.h"
#include "parallel/runtime/rank_threads.h"

namespace llmtrain {
namespace {

TextRequest request_of(const ServedText& text) {
  return {.prompt = text.prompt,
          .tokens = text.tokens,
          .choice = {text.temperature, text.top_k, text.top_p, text.seed},
          .rules = {.repetition_penalty = text.repetition_penalty},
          .number = {text.number, text.sample},
          .log_probabilities = text.log_probabilities,
          .returns_experts = text.returns_experts};
}

ContinuousBatch::Listener listener_of(ServedListener listener) {
  return [listener = std::move(listener)](const GrownToken& grown) {
    ServedToken token{
        .id = grown.id, .log_probability = grown.log_probability, .likeliest = {}, .experts = grown.experts};
    for (const LikelyToken& likely : grown.likeliest) token.likeliest.push_back({likely.id, likely.log_probability});
    return listener(token);
  };
}

// One thread steps the batch and embeds texts; what the others ask for comes between its steps.
class BatchService final : public TextService {
 public:
  // `ranks` outlive this, and are led by this one.
  BatchService(ServedRanks& ranks, const ServeRequest& request)
      : ranks_(ranks), most_(request.sequences + request.waiting), silence_(silence_of(request.recipe.launch)) {
    load_ = load_of_batch();
  }

  std::int64_t longest() const override { return ranks_.batch() ? ranks_.batch()->longest() : 0; }
  std::int64_t longest_embedded() const override { return ranks_.embedder().longest(); }

  std::vector<std::int64_t> add(const std::vector<ServedText>& texts,
                                const std::vector<ServedListener>& listeners) override {
    for (const ServedText& text : texts) batch().require_fit(request_of(text));
    std::vector<std::int64_t> numbers;
    const std::lock_guard lock(mutex_);
    if (failure_ || !have_room(std::ssize(texts))) return numbers;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      open_.insert(next_);
      arrivals_.push_back({next_, request_of(texts[i]), closing(next_, texts[i].tokens, listener_of(listeners[i]))});
      numbers.push_back(next_++);
    }
    asked_.notify_one();
    return numbers;
  }

  void cancel(std::int64_t text) override {
    const std::lock_guard lock(mutex_);
    open_.erase(text);
    cancelled_.push_back(text);
    asked_.notify_one();
  }

  bool embed(std::vector<std::vector<std::int64_t>> texts, EmbeddingListener listener) override {
    for (const std::vector<std::int64_t>& text : texts) ranks_.embedder().require_fit(text);
    const std::lock_guard lock(mutex_);
    if (failure_ || !have_room(1)) return false;
    ++open_embeddings_;
    embeddings_.push_back({std::move(texts), 0, std::move(listener)});
    asked_.notify_one();
    return true;
  }

  Load load() const override {
    const std::lock_guard lock(mutex_);
    return {.waiting = load_.waiting + std::ssize(arrivals_),
            .growing = load_.growing,
            .embedding = std::ssize(embeddings_),
            .used_bytes = load_.used_blocks * load_.block_bytes,
            .cache_bytes = load_.blocks * load_.block_bytes,
            .drafted = load_.drafts.drafted,
            .accepted = load_.drafts.accepted};
  }

  std::optional<std::string> failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  // Lets texts grow until stop(), which another thread calls. Throws what ended it before.
  void run() {
    try {
      while (take_asked()) {
        is_busy_ = ranks_.grow();
        embed_next();
      }
      ranks_.end();
    } catch (const std::exception& error) {
      fail(std::current_exception(), error.what());
    }
    std::unique_lock lock(mutex_);
    asked_.wait(lock, [&] { return is_stopped_; });
    if (thrown_) std::rethrow_exception(thrown_);
  }

  void stop() {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    asked_.notify_one();
  }

 private:
  struct Arrival {
    std::int64_t number = 0;
    TextRequest request;
    ContinuousBatch::Listener listener;
  };
  struct Embedding {
    std::vector<std::vector<std::int64_t>> texts;
    std::size_t next = 0;
    EmbeddingListener listener;
  };

  ContinuousBatch& batch() {
    if (!ranks_.batch()) throw Error(ExitCode::bad_recipe, "/model/architecture: an encoder goes on with no texts");
    return *ranks_.batch();
  }

  ContinuousBatch::Load load_of_batch() const {
    return ranks_.batch() ? ranks_.batch()->load() : ContinuousBatch::Load{};
  }

  // For so many more; under the lock.
  bool have_room(std::ptrdiff_t count) const { return std::ssize(open_) + open_embeddings_ + count <= most_; }

  // Gives the text's place to others before its last token is heard: whoever hears it may ask for more at once, while
  // the step that made it has not ended.
  ContinuousBatch::Listener closing(std::int64_t number, std::int64_t tokens, ContinuousBatch::Listener listener) {
    return [this, number, left = tokens, listener = std::move(listener)](const GrownToken& token) mutable {
      if (--left == 0) close(number);
      const bool goes_on = listener(token);
      if (!goes_on) close(number);
      return goes_on;
    };
  }

  void close(std::int64_t number) {
    const std::lock_guard lock(mutex_);
    open_.erase(number);
  }

  // A text of the request whose turn it is, which stays among those that wait meanwhile.
  void embed_next() {
    std::unique_lock lock(mutex_);
    if (embeddings_.empty()) return;
    Embedding& asked = embeddings_.front();  // others come behind it
    lock.unlock();
    std::vector<float> embedding = ranks_.embed(asked.texts[asked.next]);
    const bool is_last = ++asked.next == asked.texts.size();
    lock.lock();
    if (is_last) --open_embeddings_;
    lock.unlock();
    const bool is_wanted = asked.listener(std::move(embedding));
    const bool goes_on = is_wanted && !is_last;
    lock.lock();
    if (!is_wanted && !is_last) --open_embeddings_;
    if (goes_on) embeddings_.push_back(std::move(asked));
    embeddings_.pop_front();
  }

  // Other ranks take for lost who says nothing for longer than their watchdog lets it.
  static std::chrono::duration<double> silence_of(const LaunchRecipe& launch) {
    return std::chrono::duration<double>(std::min(60.0, watchdog_seconds(launch) / 4));
  }

  // Waits where there is nothing to do, but not so long that other ranks worry. Whether to go on.
  bool take_asked() {
    std::unique_lock lock(mutex_);
    load_ = load_of_batch();
    const auto is_asked = [&] {
      return is_busy_ || is_stopped_ || !arrivals_.empty() || !cancelled_.empty() || !embeddings_.empty();
    };
    if (ranks_.has_followers())
      asked_.wait_for(lock, silence_, is_asked);
    else
      asked_.wait(lock, is_asked);
    for (Arrival& arrival : arrivals_)
      if (batch().add(std::move(arrival.request), std::move(arrival.listener)) != arrival.number)
        throw Error(ExitCode::internal_error, "service: texts are numbered differently in the batch");
    arrivals_.clear();
    for (const std::int64_t text : cancelled_) batch().cancel(text);
    cancelled_.clear();
    load_ = load_of_batch();
    return !is_stopped_;
  }

  void fail(const std::exception_ptr& thrown, const char* message) {
    const std::lock_guard lock(mutex_);
    thrown_ = thrown;
    failure_ = message;
  }

  ServedRanks& ranks_;
  std::int64_t most_;
  std::chrono::duration<double> silence_;
  bool is_busy_ = false;
  mutable std::mutex mutex_;
  std::condition_variable asked_;
  ContinuousBatch::Load load_;  // after the last step
  std::vector<Arrival> arrivals_;
  std::vector<std::int64_t> cancelled_;
  std::deque<Embedding> embeddings_;
  std::set<std::int64_t> open_;       // texts that have not ended
  std::int64_t open_embeddings_ = 0;  // requests whose last text has not been embedded
  std::int64_t next_ = 0;
  bool is_stopped_ = false;
  std::exception_ptr thrown_;
  std::optional<std::string> failure_;
};

void serve(LocalModel& model, const ServeRequest& request, const Drafting& drafting,
           const std::function<void(TextService&)>& use) {
  ServedRanks ranks(model, request, drafting);
  if (!ranks.leads()) return ranks.follow();
  BatchService service(ranks, request);
  std::exception_ptr thrown;
  std::thread user([&] {
    try {
      use(service);
    } catch (...) {
      thrown = std::current_exception();
    }
    service.stop();
  });
  std::exception_ptr own;
  try {
    service.run();
  } catch (...) {
    own = std::current_exception();
  }
  user.join();
  if (own || thrown) std::rethrow_exception(own ? own : thrown);
}

}  // namespace

void serve_texts(const ServeRequest& request, const std::function<void(TextService&)>& use) {
  with_loaded_model(request.recipe, request.checkpoint, request.ranks, request.memory, [&](LocalModel& model) {
    with_drafts(request.draft, model, request.sequences, request.recipe.model.max_sequence_length,
                [&](const Drafting& drafting) { serve(model, request, drafting, use); });
  });
}

}  // namespace llmtrain
