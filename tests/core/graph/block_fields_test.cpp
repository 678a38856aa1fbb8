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

}  // namespace llmtrain::test
