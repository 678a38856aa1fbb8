// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "parallel/runtime/text_service.h"

namespace llmtrain::app {

// What a server counts, for any number of threads.
class ServeMetrics {
 public:
  void add_request(const std::string& path, int status);
  void add_tokens(std::int64_t prompt, std::int64_t generated);
  void add_first_token(double seconds);
  void add_lost_client();

  // In Prometheus' text format (version 0.0.4), with the load of the moment, and how often the model was loaded again.
  std::string text(const TextService::Load& load, std::int64_t restarts) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::int64_t> requests_;
  std::int64_t prompt_tokens_ = 0, generated_tokens_ = 0, first_tokens_ = 0, lost_clients_ = 0;
  double first_token_seconds_ = 0;
};

}  // namespace llmtrain::app
