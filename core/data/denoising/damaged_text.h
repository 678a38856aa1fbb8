// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/data/draws.h"
#include "core/recipe/lengths/denoising_lengths.h"

namespace llmtrain {

// A text as a model reads it, and what it is to write, both without the tokenizer's marks.
struct DamagedText {
  std::vector<std::int64_t> source, target;
};

// Span corruption (core/recipe/lengths/denoising_lengths.h): parts of the text, all of their divisions equally likely,
// become the marks `sentinels`, one each and in their order, and the target is these marks, each before its part. The
// text begins with a token that stays, and ends with one that is taken out. Throws std::invalid_argument where there
// are fewer marks than parts.
DamagedText with_spans(std::span<const std::int64_t> text, const SpanCounts& counts,
                       std::span<const std::int64_t> sentinels, Draws& draws);

// Text infilling (Lewis et al., arXiv 1910.13461, section 2.2): exactly `noise` tokens are taken out, in parts whose
// lengths are drawn from Poisson's distribution with this mean, the last one cut; a mask stands for each. Parts without
// tokens insert a mask, no more than the source is shorter without them. Returns what the model reads.
std::vector<std::int64_t> infilled(std::span<const std::int64_t> text, std::int64_t noise, double mean,
                                   std::int64_t mask, Draws& draws);

// The sentences of each document in a random order. By row of the text: it is a mark of a document, which stays where
// it is and parts documents, or a sentence ends there.
struct SentenceRow {
  bool is_mark = false, ends_sentence = false;
};
std::vector<std::int64_t> permuted(std::span<const std::int64_t> text, std::span<const SentenceRow> rows, Draws& draws);

}  // namespace llmtrain
