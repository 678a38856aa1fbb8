// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/routing_sums.h"
#include "core/recipe/key_value_type.h"
#include "core/recipe/recipe.h"
#include "parallel/layout/streamed_weights.h"
#include "parallel/runtime/draft_request.h"
#include "parallel/runtime/inference/inference_ranks.h"

namespace llmtrain {

// Which of a text's last hidden rows its embedding is made of (Pooling in
// parallel/engine/generation/text_embedder.h).
enum class TextPooling { mean, first, last };

// A model that is loaded once, and goes on with texts that come at any time (parallel/engine/generation/
// continuous_batch.h); an encoder goes on with none. The fields are those of SampleRequest.
struct ServeRequest {
  Recipe recipe;
  std::string checkpoint;
  std::int64_t sequences = 16;                       // texts that grow together
  std::int64_t waiting = 64;                         // further texts that may wait
  std::int64_t cache_bytes = std::int64_t{1} << 30;  // of keys and values, at most, of each rank
  bool is_exact = false;                             // BatchLimits::is_exact
  KeyValueType key_values = KeyValueType::compute;
  std::optional<DraftRequest> draft{};
  TextPooling pooling = TextPooling::mean;  // of embeddings
  InferenceRanks ranks{};
  std::optional<WeightMemory> memory{};  // of weights; none: all are in memory
};

struct ServedText {
  std::vector<std::int64_t> prompt{};
  std::int64_t tokens = 0;
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1;
  double repetition_penalty = 1;
  std::int64_t seed = 0;
  std::int64_t number = 0, sample = 0;              // of the prompt, and of its texts: random numbers depend on them
  std::optional<std::int64_t> log_probabilities{};  // with those of so many of the most likely tokens
  bool returns_experts = false;
};

struct ServedToken {
  struct Likely {
    std::int64_t id = 0;
    double log_probability = 0;
  };
  std::int64_t id = 0;
  std::optional<double> log_probability{};
  std::vector<Likely> likeliest{};
  std::vector<TokenExperts> experts{};  // where asked for, of the tokens that were read since the one before
};

// Gets every token as soon as it is chosen, from the model's thread, and says whether the text goes on. Must neither
// throw nor call the service.
using ServedListener = std::function<bool(const ServedToken&)>;

// Gets the embeddings of a request's texts, in their order and each as soon as it is computed, from the model's thread,
// and says whether the others are still wanted. Must neither throw nor call the service.
using EmbeddingListener = std::function<bool(std::vector<float> embedding)>;

// For any number of threads.
class TextService {
 public:
  virtual ~TextService() = default;

  // The most tokens that prompt and answer may have together; 0: the model writes nothing.
  virtual std::int64_t longest() const = 0;
  // The most tokens of a text that is embedded.
  virtual std::int64_t longest_embedded() const = 0;

  // Takes all of the texts, whose listeners have the same places, and returns their numbers; or none, and an empty
  // list, where more would be waiting than may. Throws Error(bad_data) for a text that is empty, too long, has ids that
  // the model does not know or asks for experts that it does not have.
  virtual std::vector<std::int64_t> add(const std::vector<ServedText>& texts,
                                        const std::vector<ServedListener>& listeners) = 0;
  // Ends a text, if it has not ended. When this returns its listener is not called any more.
  virtual void cancel(std::int64_t text) = 0;

  // Takes the texts of a request, which until all are embedded is one of those that may wait, and returns whether it
  // does: not where more would be waiting than may. Requests take turns, text by text. Throws Error(bad_data) for a
  // text that is empty, too long or has ids that the model does not know.
  virtual bool embed(std::vector<std::vector<std::int64_t>> texts, EmbeddingListener listener) = 0;

  struct Load {
    std::int64_t waiting = 0, growing = 0;   // texts
    std::int64_t embedding = 0;              // requests whose texts are not all embedded
    std::int64_t used_bytes = 0;             // of keys and values, on the rank that has most
    std::int64_t cache_bytes = 0;            // that there are at most
    std::int64_t drafted = 0, accepted = 0;  // tokens that were guessed since the beginning, and those that were right
  };
  virtual Load load() const = 0;

  // Why no text grows any more; none while they do.
  virtual std::optional<std::string> failure() const = 0;
};

}  // namespace llmtrain
