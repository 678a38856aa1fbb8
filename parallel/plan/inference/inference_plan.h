// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/plan/inference/device_split.h"
#include "parallel/plan/inference/pass_price.h"
#include "parallel/plan/inference/served_memory.h"
#include "parallel/plan/inference/weight_reads.h"

namespace llmtrain {

// One phase of a request: a pass, how devices split it, and what it takes.
struct PlannedPass {
  DeviceSplit split{};
  ServedPass pass{};
  PassPrice price{};
  // The least that arithmetic or memory allow with nothing else and no efficiency lost (Pope et al., arXiv 2211.05102,
  // section 2): the larger of 2 FLOPs for each parameter and token, and of reading weights and cache once.
  double bound_seconds = 0;
  double mfu = 0;                       // these FLOPs ÷ (peak · time)
  double device_seconds_per_token = 0;  // what a token costs
};

struct InferencePlan {
  std::string name;
  std::string profile;
  std::string program;
  ServingRequest request;  // with the devices that it left open
  std::int64_t devices = 1;
  std::int64_t parameters = 0;
  std::int64_t active_parameters = 0;
  PlannedPass prefill, decode;  // the latter at the middle of an answer
  ServedMemory memory;
  std::optional<WeightReads> reads;  // of weights that are not in the device's memory
  double device_memory_bytes = 0;    // 0: not known
  bool fits = true;
  // Sequences that are generated at the same time: with continuous batching as many of the request's as the cache has
  // room for, while the others wait; all of them where it has room for none.
  std::int64_t running = 1;

  double first_token_seconds = 0;  // from a request to the first token of its answer
  double per_token_seconds = 0;    // between two of its tokens
  double request_seconds = 0;
  double tokens_per_second = 0;         // that all devices generate
  double device_seconds_per_token = 0;  // of those generated, prompts included
};

// Plans of one model on one cluster, with as many devices, requests and splits as asked for. The profile must outlive
// it.
class InferencePlanner {
 public:
  // Throws Error(bad_recipe) for an encoder.
  InferencePlanner(const Recipe& recipe, const ClusterProfile& profile);

  // The fastest plan of those that the request leaves open, of those that fit if any does. "auto" devices are the
  // smallest power of two on which it fits. Throws Error(bad_recipe) with the reason where nothing is left.
  InferencePlan plan(const ServingRequest& request) const;

  // Plans of so many devices: one for each split of single tokens that the request leaves open, with the fastest split
  // of prompts that cuts the weights alike. Where there is none `refused` says why.
  std::vector<InferencePlan> plans_on(const ServingRequest& request, std::int64_t devices, std::string& refused) const;

 private:
  PassPricer pricer_of(const ServingRequest& request) const;
  PlannedPass planned_pass(const PassPricer& pricer, const DeviceSplit& split, const ServedPass& pass,
                           const std::optional<WeightReads>& reads) const;
  InferencePlan joined(const PassPricer& pricer, const ServingRequest& request, const PlannedPass& prefill,
                       const PlannedPass& decode, const std::optional<WeightReads>& reads) const;
  std::int64_t running_sequences(const InferencePlan& plan, const ServingFacts& facts) const;

  Recipe recipe_;
  const ClusterProfile& profile_;
  std::int64_t devices_per_node_;
  Graph graph_;
};

// The better of two: one that fits, or the faster one of both that do or do not.
bool is_better(const InferencePlan& plan, const InferencePlan& other);

// The passes of a request's prompt, and of tokens of so many sequences in the middle and of all at the end of answers.
ServedPass prefill_pass(const ServingRequest& request);
ServedPass decode_pass(const ServingRequest& request, std::int64_t sequences);
ServedPass last_pass(const ServingRequest& request);

}  // namespace llmtrain
