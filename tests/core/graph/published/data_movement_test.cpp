// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "core/body/families/bert.h"
#include "core/graph/operators/body_operators.h"

namespace llmtrain {
namespace {

// Data Movement Is All You Need (Ivanov et al., arXiv 2007.00072): a layer of BERT-large on 8 sequences of 512 tokens.
// The operators, with what each reads and writes, are those of the paper's code (spcl/substation,
// config_selection/ops.py), where biases of linear layers are added by kernels and not by the products.
constexpr double sequences = 8, tokens = 512, hidden = 1024, heads = 16, head_dim = 64, width = 4096;
constexpr double x = sequences * tokens * hidden, scores = sequences * heads * tokens * tokens, inner = 4 * x;

OperatorList bert_large() {
  const body::BertModel model{.hidden = 1024, .heads = 16, .width = 4096};
  return priced(body::bert_layer(model, 8, 512), 2);
}

const Operator& operator_named(const OperatorList& operators, const std::string& name) {
  for (const Operator& item : operators)
    if (item.name == name) return item;
  FAIL("no operator " << name);
  return operators.front();
}

double sum_of(const OperatorList& operators, const std::vector<std::string>& names,
              const std::function<double(const Operator&)>& value) {
  double sum = 0;
  for (const std::string& name : names) sum += value(operator_named(operators, name));
  return sum;
}

// Words of a contraction's operands and of its result.
double words_read(const Operator& item) {
  return item.product.batch * item.product.inner * (item.product.rows + item.product.columns);
}
double words_written(const Operator& item) { return item.product.batch * item.product.rows * item.product.columns; }
double moved_forward(const Operator& item) { return item.forward.elements; }
double moved_backward(const Operator& item) { return item.backward.elements; }

struct Contraction {
  std::string name;  // in the paper's code
  std::vector<std::string> operators;
  double flops = 0, read = 0, written = 0;
};

const std::vector<std::string> projections{"attention.query.product", "attention.key.product",
                                           "attention.value.product"};

}  // namespace

TEST_CASE("a layer of BERT has the contractions of Data Movement with their FLOPs and words") {
  const OperatorList operators = bert_large();
  const double rows = sequences * tokens, square = hidden * hidden;
  const std::vector<Contraction> published{
      // One product there and three here, each of which reads x.
      {"QKV-fused", projections, 2 * rows * hidden * 3 * hidden, (x + 3 * square) + 2 * x, 3 * x},
      {"out", {"attention.output.product"}, 2 * rows * square, x + square, x},
      {"lin1", {"ffn.up.product"}, 2 * rows * hidden * width, x + hidden * width, inner},
      {"lin2", {"ffn.down.product"}, 2 * rows * hidden * width, inner + hidden * width, x},
  };
  for (const Contraction& row : published) {
    INFO(row.name);
    CHECK(sum_of(operators, row.operators, [](const Operator& item) { return item.flops; }) == row.flops);
    CHECK(sum_of(operators, row.operators, words_read) == row.read);
    CHECK(sum_of(operators, row.operators, words_written) == row.written);
  }
  // QKT makes the scores, and gamma, of as many operations, mixes the values; both belong to one operator here.
  const Operator& attention = operator_named(operators, "attention.mixed");
  CHECK(attention.kind == OperatorKind::stored_attention);
  CHECK(attention.product.flops() == 2 * scores * head_dim);
  CHECK(attention.flops == 2 * attention.product.flops());
  CHECK(words_read(attention) == 2 * x);
  CHECK(words_written(attention) == scores);
  // Twelve contractions in the backward there, two for each in the forward.
  double forward = 2 * 2 * scores * head_dim;
  for (const Contraction& row : published) forward += row.flops;
  CHECK(forward_flops(operators) == forward);
  CHECK(backward_flops(operators) == 2 * forward);
}

TEST_CASE("a body's passes over memory are Data Movement's where none are fused, and more where some are") {
  const OperatorList operators = bert_large();
  const std::vector<std::string> biases{"attention.query", "attention.key", "attention.value"};
  // AIB and BAIB: the same passes, with the biases and their gradients.
  CHECK(sum_of(operators, biases, moved_forward) == 6 * x + 3 * hidden);
  CHECK(sum_of(operators, biases, moved_backward) == 3 * x + 3 * hidden);

  // BDRLN, twice, is four passes here: 18x where 11x is moved, as nothing lies in memory between bias and norm.
  const std::vector<std::string> residuals{
      "attention.output", "attention.output.dropout", "attention_sum", "attention_norm",
      "ffn.down",         "ffn.output.dropout",       "ffn_sum",       "ffn_norm"};
  CHECK(sum_of(operators, residuals, moved_forward) == 18 * x + 2 * hidden);
  // BSB, BLNRD, EBSB, BLNRD and BAOB move 17x: 14x of norms and dropout, whose gradients of scale and bias take a pass
  // of their own, 2x of biases, and x of the residual's gradient, which EBSB adds.
  CHECK(sum_of(operators, residuals, moved_backward) == 12 * x + 2 * hidden);
  // A pass that adds it, and three where BAIB's products make one gradient of query, key and value, which one pass adds
  // to the residual's.
  double sums = 0;
  for (const Operator& item : operators) sums += item.summed_gradients;
  CHECK(sums == 4 * 3 * x);

  // BAD keeps what it makes before dropout, which BERT does not have here: 3 inner there.
  const std::vector<std::string> activation{"ffn.up", "ffn.active"};
  CHECK(sum_of(operators, activation, moved_forward) == 4 * inner + width);
  // BDRLB sums the bias's gradient while it makes the activation's: 3 inner there.
  CHECK(sum_of(operators, activation, moved_backward) == 4 * inner + width);

  // Softmax and its backward move 3 times the scores each, with what dropout leaves of them.
  CHECK(operator_named(operators, "attention.mixed").forward.elements == 2 * scores);
  CHECK(operator_named(operators, "attention.mixed").backward.elements == 2 * scores);
}

}  // namespace llmtrain
