// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "tests/emulator/device/memory/guard_zone.h"
#include "tests/emulator/device/work.h"

namespace emulated {

struct GraphPool;

// As a CUDA graph: work of one stream is kept instead of run, with its addresses and scalars as they were. What is
// allocated meanwhile comes from memory of the graph's own (memory/graph_pool.h).
class Graph {
 public:
  Graph() = default;
  ~Graph();  // ends the capture that an error has left open
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // `beside`: a graph whose memory this one shares. What is free of it when a capture begins is free at each replay, if
  // both are replayed in the order of their captures.
  void begin(Stream* stream, const Graph* beside = nullptr);
  void end();
  // One launch, whatever it consists of.
  void replay(Stream* stream) const;
  std::size_t size() const { return nodes_.size(); }

  // By the stream and the allocator, while capturing.
  struct Node {
    Work work;
    std::vector<GuardZone> zones;  // of what the work was given when it was captured
  };
  void add(Node node) { nodes_.push_back(std::move(node)); }
  const std::shared_ptr<GraphPool>& pool() const { return pool_; }

 private:
  Stream* stream_ = nullptr;
  std::vector<Node> nodes_;
  std::shared_ptr<GraphPool> pool_;  // none before begin()
};

// Whether the calling thread captures: it alone may not wait meanwhile, as in CUDA's thread-local mode.
bool is_capturing();

}  // namespace emulated
