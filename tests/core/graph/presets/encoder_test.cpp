// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>
#include <variant>
#include <vector>

#include "core/body/body.h"
#include "core/graph/graph.h"

namespace llmtrain {
namespace {

using Names = std::vector<std::string>;

ModelRecipe dropping_encoder(Architecture architecture, ClassifiedPart part) {
  ModelRecipe model;
  model.architecture = architecture;
  model.layers = 1;
  model.hidden_size = 8;
  model.heads = model.kv_heads = 2;
  model.head_dim = 4;
  model.ffn_hidden_size = 16;
  model.vocab_size = 32;
  model.max_sequence_length = 6;
  model.activation = Activation::gelu;
  model.dropout = 0.1;
  model.tie_embeddings = false;
  model.classifier = {.of = part, .classes = {"start", "end"}};
  return model;
}

// What the head's body drops elements of, by the names of the results.
Names dropped(Architecture architecture, ClassifiedPart part) {
  const Graph graph = Graph::build(dropping_encoder(architecture, part));
  const body::Body& head = std::get<BodySettings>(graph.blocks.back().settings).description->body;
  Names names;
  for (const body::Step& step : head.steps)
    if (std::holds_alternative<body::Dropout>(step.primitive)) names.push_back(head.tensors[step.output].name);
  return names;
}

}  // namespace

TEST_CASE("heads of encoders drop where transformers' do") {
  CHECK(dropped(Architecture::bert, ClassifiedPart::sequence) == Names{"classifier.dropout"});
  CHECK(dropped(Architecture::bert, ClassifiedPart::token) == Names{"classifier.dropout"});
  CHECK(dropped(Architecture::roberta, ClassifiedPart::sequence) == Names{"pooler.dropout", "classifier.dropout"});
  CHECK(dropped(Architecture::roberta, ClassifiedPart::token) == Names{"classifier.dropout"});
  CHECK(dropped(Architecture::bert, ClassifiedPart::span).empty());
}

}  // namespace llmtrain
