// SPDX-License-Identifier: Apache-2.0
#include "core/graph/block_fields.h"

#include <catch2/catch.hpp>

#include "tests/core/graph/models.h"

namespace llmtrain::test {

TEST_CASE("blocks read the fields of the ends that they are") {
  const Graph graph = Graph::build(gpt2_model(3, 64, 4));
  const std::size_t last = graph.blocks.size() - 1;
  CHECK((fields_read(graph, std::vector<std::size_t>{0, 1}) == FieldSet{true, false, false}));
  CHECK((fields_read(graph, std::vector<std::size_t>{1, 2}) == FieldSet{}));
  CHECK((fields_read(graph, std::vector<std::size_t>{last}) == FieldSet{false, true, true}));
}

TEST_CASE("what data lack of the fields that blocks need is said by name") {
  const Graph graph = Graph::build(gpt2_model(3, 64, 4));
  CHECK(missing_fields(graph, sample_fields({})).empty());
  const std::vector<BatchField> inputs{BatchField::token_ids}, outputs{BatchField::targets, BatchField::counted_rows};
  CHECK(missing_fields(graph, inputs) == std::vector<std::string>{"targets, which the head reads"});
  CHECK(missing_fields(graph, outputs) == std::vector<std::string>{"token_ids, which the embedding reads"});
}

TEST_CASE("heads for classes read a label or a span of each sample, or targets of the rows that count") {
  ModelRecipe model = gpt2_model(2, 64, 4);
  model.architecture = Architecture::bert;
  const auto read = [&](ClassifiedPart part) {
    model.classifier = {part, {"a", "b", "c"}};
    const Graph graph = Graph::build(model);
    DataRecipe data;
    data.labels.emplace();
    data.labels->of = part == ClassifiedPart::token ? LabelledPart::words : LabelledPart::text;
    CHECK(missing_fields(graph, sample_fields(data)).empty());
    // Two texts are told apart by their types.
    CHECK(fields_read(graph, std::vector<std::size_t>{0})[index_of(BatchField::token_types)]);
    return fields_read(graph, std::vector<std::size_t>{graph.blocks.size() - 1});
  };
  FieldSet of_samples{}, of_tokens{};
  of_samples[index_of(BatchField::label)] = true;
  of_tokens[index_of(BatchField::targets)] = of_tokens[index_of(BatchField::counted_rows)] = true;
  CHECK(read(ClassifiedPart::sequence) == of_samples);
  CHECK(read(ClassifiedPart::token) == of_tokens);

  model.classifier = {ClassifiedPart::span, span_classes()};
  const Graph graph = Graph::build(model);
  DataRecipe data;
  data.spans.emplace();
  CHECK(missing_fields(graph, sample_fields(data)).empty());
  FieldSet of_spans{};
  of_spans[index_of(BatchField::span)] = true;
  CHECK(fields_read(graph, std::vector<std::size_t>{graph.blocks.size() - 1}) == of_spans);
}

}  // namespace llmtrain::test
