// SPDX-License-Identifier: Apache-2.0
#include "core/model/kept_exchanges.h"

#include <optional>
#include <utility>
#include <vector>

namespace llmtrain {
// Not without a name: a class with one has members of these types.
namespace kept {

// Where the answers to one layer's questions come from.
class Answers {
 public:
  using Mode = KeptExchanges::Mode;

  void use(Mode mode, ExchangeTape& tape) {
    mode_ = mode;
    tape_ = &tape;
  }
  void stop() { tape_ = nullptr; }

  bool keeps() const { return tape_ != nullptr && mode_ == Mode::keep; }
  bool answers() const { return tape_ != nullptr && mode_ == Mode::answer; }

  // A copy is kept of what modules go on to change.
  void put_copy(const at::Tensor& x) const { put(x.clone()); }
  void put(at::Tensor x) const { tape_->tensors.push_back(std::move(x)); }
  at::Tensor take() const {
    at::Tensor x = std::move(tape_->tensors.front());
    tape_->tensors.pop_front();
    return x;
  }

  // The result of `ask`, which returns it.
  template <class Ask>
  at::Tensor result(Ask ask) const {
    if (answers()) return take();
    at::Tensor x = ask();
    if (keeps()) put_copy(x);
    return x;
  }

  // The result of `ask`, which leaves it in x.
  template <class Ask>
  void in_place(const at::Tensor& x, Ask ask) const {
    if (answers()) {
      x.copy_(take());
      return;
    }
    ask();
    if (keeps()) put_copy(x);
  }

  template <class Ask>
  RowNumbers numbers(Ask ask) const {
    if (answers()) {
      RowNumbers kept = std::move(tape_->numbers.front());
      tape_->numbers.pop_front();
      return kept;
    }
    RowNumbers all = ask();
    if (keeps()) tape_->numbers.push_back(all);
    return all;
  }

 private:
  Mode mode_{};
  ExchangeTape* tape_ = nullptr;
};

class TensorRanks final : public llmtrain::TensorRanks {
 public:
  TensorRanks(const llmtrain::TensorRanks& ranks, const Answers& answers) : ranks_(ranks), answers_(answers) {}

  std::int64_t ranks() const override { return ranks_.ranks(); }
  std::int64_t position() const override { return ranks_.position(); }
  void sum(const at::Tensor& x) const override {
    answers_.in_place(x, [&] { ranks_.sum(x); });
  }
  void largest(const at::Tensor& x) const override {
    answers_.in_place(x, [&] { ranks_.largest(x); });
  }
  at::Tensor gather_rows(const at::Tensor& part) const override {
    return answers_.result([&] { return ranks_.gather_rows(part); });
  }
  at::Tensor scatter_sum_rows(const at::Tensor& whole) const override {
    return answers_.result([&] { return ranks_.scatter_sum_rows(whole); });
  }

 private:
  const llmtrain::TensorRanks& ranks_;
  const Answers& answers_;
};

class ContextRanks final : public llmtrain::ContextRanks {
 public:
  ContextRanks(const llmtrain::ContextRanks& ranks, const Answers& answers) : ranks_(ranks), answers_(answers) {}

  KeysAndValues gather(const KeysAndValues& own) const override {
    if (answers_.answers()) {
      at::Tensor key = answers_.take();
      return {std::move(key), answers_.take()};
    }
    KeysAndValues all = ranks_.gather(own);
    if (!answers_.keeps()) return all;
    // Attention only reads them.
    answers_.put(all.key);
    answers_.put(all.value);
    return all;
  }
  void largest(const at::Tensor& x) const override {
    answers_.in_place(x, [&] { ranks_.largest(x); });
  }
  void scatter_sum(KeysAndValues gradients, const KeysAndValues& own) const override {
    ranks_.scatter_sum(std::move(gradients), own);
  }

 private:
  const llmtrain::ContextRanks& ranks_;
  const Answers& answers_;
};

class RowRanks final : public llmtrain::RowRanks {
 public:
  RowRanks(const llmtrain::RowRanks& ranks, const Answers& answers) : ranks_(ranks), answers_(answers) {}

  std::int64_t ranks() const override { return ranks_.ranks(); }
  std::int64_t position() const override { return ranks_.position(); }
  at::Tensor gather_rows(const at::Tensor& part) const override {
    return result([&] { return ranks_.gather_rows(part); });
  }
  at::Tensor scatter_sum_rows(const at::Tensor& whole) const override {
    return result([&] { return ranks_.scatter_sum_rows(whole); });
  }

 private:
  // A rank alone exchanges nothing: computing again is free, and keeping would take memory.
  template <typename Exchange>
  at::Tensor result(const Exchange& exchange) const {
    return ranks() == 1 ? exchange() : answers_.result(exchange);
  }

  const llmtrain::RowRanks& ranks_;
  const Answers& answers_;
};

// Keeps what arrives, which the experts and the sum over a token's experts only read.
class KeptTransfer final : public RowTransfer {
 public:
  KeptTransfer(std::unique_ptr<RowTransfer> transfer, const Answers& answers)
      : transfer_(std::move(transfer)), answers_(answers) {}

  void advance() override { transfer_->advance(); }
  at::Tensor wait() override {
    at::Tensor rows = transfer_->wait();
    answers_.put(rows);
    return rows;
  }

 private:
  std::unique_ptr<RowTransfer> transfer_;
  const Answers& answers_;
};

// Brings kept rows to where they are expected.
class AnsweredTransfer final : public RowTransfer {
 public:
  AnsweredTransfer(at::Tensor result, const Answers& answers) : result_(std::move(result)), answers_(answers) {}

  at::Tensor wait() override {
    result_.copy_(answers_.take());
    return std::move(result_);
  }

 private:
  at::Tensor result_;
  const Answers& answers_;
};

class ExpertRanks final : public llmtrain::ExpertRanks {
 public:
  ExpertRanks(const llmtrain::ExpertRanks& ranks, const Answers& answers) : ranks_(ranks), answers_(answers) {}

  std::int64_t ranks() const override { return ranks_.ranks(); }
  RowNumbers exchange_numbers(std::vector<std::int64_t> own) const override {
    return answers_.numbers([&] { return ranks_.exchange_numbers(std::move(own)); });
  }
  std::unique_ptr<RowTransfer> start_exchange(RowsWay way, const at::Tensor& rows, const RowNumbers& numbers,
                                              const at::Tensor& result) const override {
    if (answers_.answers()) return std::make_unique<AnsweredTransfer>(result, answers_);
    auto transfer = ranks_.start_exchange(way, rows, numbers, result);
    if (!answers_.keeps()) return transfer;
    return std::make_unique<KeptTransfer>(std::move(transfer), answers_);
  }

 private:
  const llmtrain::ExpertRanks& ranks_;
  const Answers& answers_;
};

}  // namespace kept

namespace {

template <class Kept, class Ranks>
void wrap(std::optional<Kept>& kept, const Ranks* ranks, const kept::Answers& answers) {
  if (ranks != nullptr) kept.emplace(*ranks, answers);
}

template <class Kept>
const Kept* pointer_to(const std::optional<Kept>& kept) {
  return kept ? &*kept : nullptr;
}

}  // namespace

struct KeptExchanges::Ranks {
  kept::Answers answers;
  std::optional<kept::TensorRanks> tensor;
  std::optional<kept::ContextRanks> context;
  std::optional<kept::ExpertRanks> experts;
  std::optional<kept::RowRanks> features, tokens;
  std::int64_t overlap = 1;
  ExchangeChooser* chooser = nullptr;
};

KeptExchanges::KeptExchanges(const TensorRanks* tensor, const ContextRanks* context, const MixtureRanks& experts)
    : ranks_(std::make_unique<Ranks>()) {
  wrap(ranks_->tensor, tensor, ranks_->answers);
  wrap(ranks_->context, context, ranks_->answers);
  wrap(ranks_->experts, experts.experts, ranks_->answers);
  wrap(ranks_->features, experts.features, ranks_->answers);
  wrap(ranks_->tokens, experts.tokens, ranks_->answers);
  ranks_->overlap = experts.overlap;
  ranks_->chooser = experts.chooser;
}

KeptExchanges::~KeptExchanges() = default;

const TensorRanks* KeptExchanges::tensor() const { return pointer_to(ranks_->tensor); }
const ContextRanks* KeptExchanges::context() const { return pointer_to(ranks_->context); }
MixtureRanks KeptExchanges::experts() const {
  return {pointer_to(ranks_->experts), pointer_to(ranks_->features), pointer_to(ranks_->tokens), ranks_->overlap,
          ranks_->chooser};
}

KeptExchanges::Scope::Scope(KeptExchanges& exchanges, Mode mode, ExchangeTape& tape) : exchanges_(exchanges) {
  exchanges_.ranks_->answers.use(mode, tape);
}

KeptExchanges::Scope::~Scope() { exchanges_.ranks_->answers.stop(); }

}  // namespace llmtrain
