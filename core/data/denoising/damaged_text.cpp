// SPDX-License-Identifier: Apache-2.0
#include "core/data/denoising/damaged_text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <utility>

namespace llmtrain {
namespace {

// `parts` numbers, each at least `least`, which add up to `sum`: every such list is equally likely. The sum is large
// enough, or else the first are smaller.
std::vector<std::int64_t> divided(std::int64_t sum, std::int64_t parts, std::int64_t least, Draws& draws) {
  // Bars among stars: of the places of all, those of the bars are drawn (Fisher and Yates's shuffle, as far as needed).
  const std::int64_t stars = std::max<std::int64_t>(0, sum - parts * least), places = stars + parts - 1;
  std::vector<std::int64_t> order(static_cast<std::size_t>(places));
  for (std::int64_t i = 0; i < places; ++i) order[static_cast<std::size_t>(i)] = i;
  for (std::int64_t i = 0; i < parts - 1; ++i)
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(i + draws.below(places - i))]);
  order.resize(static_cast<std::size_t>(parts - 1));
  std::ranges::sort(order);
  std::vector<std::int64_t> lengths;
  std::int64_t before = -1;
  for (const std::int64_t bar : order) {
    lengths.push_back(least + bar - before - 1);
    before = bar;
  }
  lengths.push_back(least + places - before - 1);
  return lengths;
}

// Knuth's algorithm Q (The Art of Computer Programming, volume 2, section 3.4.1).
std::int64_t poisson(double mean, Draws& draws) {
  const double end = std::exp(-mean);
  std::int64_t count = 0;
  for (double product = draws.share(); product > end; product *= draws.share()) ++count;
  return count;
}

using RowRange = std::pair<std::size_t, std::size_t>;  // begin and end

// The rows of a document as its sentences; the last one may have no end.
std::vector<RowRange> sentences(std::span<const SentenceRow> rows, RowRange document) {
  std::vector<RowRange> found;
  std::size_t begin = document.first;
  for (std::size_t row = document.first; row < document.second; ++row) {
    // The last of several marks, as in "…", ends it.
    const bool is_last = row + 1 == document.second;
    if (!is_last && (!rows[row].ends_sentence || rows[row + 1].ends_sentence)) continue;
    found.emplace_back(begin, row + 1);
    begin = row + 1;
  }
  return found;
}

}  // namespace

DamagedText with_spans(std::span<const std::int64_t> text, const SpanCounts& counts,
                       std::span<const std::int64_t> sentinels, Draws& draws) {
  if (std::ssize(sentinels) < counts.spans) throw std::invalid_argument("there are fewer marks than parts of a text");
  const std::int64_t kept = std::ssize(text) - counts.noise;
  const std::vector<std::int64_t> noise = divided(counts.noise, counts.spans, 1, draws);
  const std::vector<std::int64_t> stays =
      kept < counts.spans ? std::vector<std::int64_t>{kept} : divided(kept, counts.spans, 1, draws);
  DamagedText damaged;
  auto next = text.begin();
  const auto take = [&](std::int64_t tokens, std::vector<std::int64_t>& into) {
    into.insert(into.end(), next, next + tokens);
    next += tokens;
  };
  for (std::size_t i = 0; i < noise.size(); ++i) {
    take(stays[i], damaged.source);
    damaged.source.push_back(sentinels[i]);
    damaged.target.push_back(sentinels[i]);
    take(noise[i], damaged.target);
  }
  return damaged;
}

std::vector<std::int64_t> infilled(std::span<const std::int64_t> text, std::int64_t noise, double mean,
                                   std::int64_t mask, Draws& draws) {
  std::vector<std::int64_t> lengths;
  std::int64_t left = noise, inserted = 0;
  while (left > 0) {
    const std::int64_t length = std::min(left, poisson(mean, draws));
    if (length == 0) {
      ++inserted;
      continue;
    }
    lengths.push_back(length);
    left -= length;
  }
  const std::int64_t parts = std::ssize(lengths), kept = std::ssize(text) - noise;
  // A token at least between two parts, where there are enough; any number before the first and behind the last.
  const std::int64_t between = kept >= parts - 1 ? 1 : 0;
  std::vector<std::int64_t> gaps = divided(kept - between * (parts - 1), parts + 1, 0, draws);
  std::vector<std::int64_t> source;
  auto next = text.begin();
  for (std::int64_t i = 0; i <= parts; ++i) {
    const bool is_inner = i > 0 && i < parts;
    const std::int64_t stays = gaps[static_cast<std::size_t>(i)] + (is_inner ? between : 0);
    source.insert(source.end(), next, next + stays);
    next += stays;
    if (i == parts) break;
    source.push_back(mask);
    next += lengths[static_cast<std::size_t>(i)];
  }
  inserted = std::min(inserted, noise - parts);
  for (std::int64_t i = 0; i < inserted; ++i) source.insert(source.begin() + draws.below(std::ssize(source) + 1), mask);
  return source;
}

std::vector<std::int64_t> permuted(std::span<const std::int64_t> text, std::span<const SentenceRow> rows,
                                   Draws& draws) {
  std::vector<std::int64_t> result;
  const auto add = [&](const RowRange& piece) {
    const auto begin = text.begin() + static_cast<std::ptrdiff_t>(piece.first);
    result.insert(result.end(), begin, begin + static_cast<std::ptrdiff_t>(piece.second - piece.first));
  };
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size() && !rows[end].is_mark) ++end;
    std::vector<RowRange> order = sentences(rows, {begin, end});
    for (std::size_t i = 0; i + 1 < order.size(); ++i)
      std::swap(order[i],
                order[i + static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(order.size() - i)))]);
    for (const RowRange& sentence : order) add(sentence);
    if (end < text.size()) result.push_back(text[end++]);
    begin = end;
  }
  return result;
}

}  // namespace llmtrain
