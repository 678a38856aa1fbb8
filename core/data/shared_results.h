// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace llmtrain {

// What threads of a process have made from equal keys, for as long as one of them holds it: while one makes something,
// the others wait.
template <class Key, class Value>
class SharedResults {
 public:
  template <class Make>
  std::shared_ptr<const Value> find_or_make(const Key& key, Make make) {
    const std::lock_guard lock(mutex_);
    std::erase_if(made_, [](const Entry& entry) { return entry.second.expired(); });
    const auto found = std::ranges::find(made_, key, &Entry::first);
    if (found != made_.end())
      if (std::shared_ptr<const Value> value = found->second.lock()) return value;
    std::shared_ptr<const Value> value = make();
    made_.emplace_back(key, value);
    return value;
  }

 private:
  using Entry = std::pair<Key, std::weak_ptr<const Value>>;

  std::mutex mutex_;
  std::vector<Entry> made_;
};

}  // namespace llmtrain
