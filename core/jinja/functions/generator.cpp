// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/functions/generator.h"

#include "core/jinja/values/refused.h"

namespace llmtrain::jinja {
namespace {

class SharedIterator : public Iterator {
 public:
  explicit SharedIterator(Generator::Next& next) : next_(next) {}
  std::optional<Value> next() override { return next_(); }

 private:
  Generator::Next& next_;
};

}  // namespace

std::unique_ptr<Iterator> Generator::iterate() { return std::make_unique<SharedIterator>(next_); }

Value generator(int depth, Generator::Next next, const std::string& type) {
  if (depth >= deepest_value) throw Refused("containers are nested too deeply");
  return object(std::make_shared<Generator>(type, depth + 1, std::move(next)));
}

Value generator(int depth, std::unique_ptr<Iterator> iterator, const std::string& type) {
  return generator(
      depth, [shared = std::shared_ptr<Iterator>(std::move(iterator))] { return shared->next(); }, type);
}

}  // namespace llmtrain::jinja
