// SPDX-License-Identifier: Apache-2.0
#include "tests/core/recipe/bad_combinations.h"

namespace llmtrain::test {
namespace {

// An encoder with further keys of its model, and others.
std::string bert(const std::string& model, const std::string& others = "") {
  return R"({"model": {"architecture": "bert", "dropout": 0)" + model + "}" + others + "}";
}

std::string with_spans(const std::string& spans, const std::string& others = "") {
  return bert("", R"(, "data": {"spans": {"question_length": 20, "overlap": 30)" + spans + "}" + others + "}");
}

constexpr const char* span_head = R"(, "classifier": {"of": "span", "classes": ["start", "end"]})";

}  // namespace

std::vector<Combination> span_combinations() {
  return {
      {with_spans(""), "", {}},
      {with_spans(R"(, "question": "q", "unanswerable": true, "answer_length": 5)"), "", {}},
      {with_spans("", R"(, "train": [{"path": "a.jsonl"}])"), "", {}},
      {R"({"data": {"spans": {}}})", "/data/spans", {"needs an encoder", "did you mean null?"}},
      {with_spans("", R"(, "masking": {"token": 0}, "train": [{"path": "a.jsonl"}])"),
       "/data/spans",
       {"must be null with data.masking"}},
      {with_spans("", R"(, "labels": {"classes": ["a", "b"]})"), "/data/spans", {"must be null with data.labels"}},
      {with_spans("", R"(, "train": [{"path": "a.jsonl", "text_key": "b"}])"),
       "/data/train",
       {"b is the text_key", "left out with data.spans"}},
      {bert("", R"(, "data": {"spans": {}})"), "/data/spans/overlap", {"128", "question_length (64)", "(128)"}},
      {with_spans(R"(, "overlap": 107)"), "", {}},
      {with_spans(R"(, "overlap": 108)"), "/data/spans/overlap", {"108", "no tokens of its own"}},
      {bert(R"(, "classifier": {"classes": ["a", "b"]})",
            R"(, "data": {"spans": {"question_length": 20, "overlap": 30}})"),
       "/model/classifier",
       {"tells classes", "must be of \"span\""}},
      {bert(R"(, "classifier": {"of": "span", "classes": ["a", "b"]})"), "/model/classifier", {"start", "end"}},
      {bert(span_head), "", {}},
      {bert(span_head, R"(, "data": {"train": [{"path": "a.jsonl"}]})"), "/model/classifier", {"needs data.spans"}},
      {bert(span_head, R"(, "training": {"label_smoothing": 0.1})"), "/training/label_smoothing", {"in padding"}},
      {R"({"model": {"architecture": "bert", "dropout": 0.1},
           "data": {"spans": {"question_length": 20, "overlap": 30}}})",
       "/model/dropout",
       {"data.spans is given"}},
      {bert("", R"(, "data": {"spans": {"question_length": 20, "overlap": 30}}, "kernels": {"cuda_graphs": true},
                    "cluster": {"device": "cuda"})"),
       "/kernels/cuda_graphs",
       {"a body's tensors"}},
      {bert("", R"(, "data": {"spans": {"question_length": 20, "overlap": 30}},
                    "parallel": {"pipeline": 2, "zero_stage": 3}, "precision": {"compute": "bf16"})"),
       "",
       {}},
  };
}

}  // namespace llmtrain::test
