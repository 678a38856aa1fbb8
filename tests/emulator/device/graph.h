// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "tests/emulator/device/work.h"

namespace emulated {

// As a CUDA graph: work of one stream is kept instead of run, with its addresses and scalars as they were.
class Graph {
 public:
  Graph() = default;
  ~Graph();  // ends the capture that an error has left open
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void begin(Stream* stream);
  void end();
  void replay(Stream* stream) const;
  std::size_t size() const { return works_.size(); }

  // By the stream and the allocator, while capturing.
  void add(Work work) { works_.push_back(std::move(work)); }
  void keep(void* memory) { kept_.push_back(memory); }

 private:
  Stream* stream_ = nullptr;
  std::vector<Work> works_;
  std::vector<void*> kept_;  // freed while capturing: the graph's until its end
};

}  // namespace emulated
