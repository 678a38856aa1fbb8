// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/document_pieces.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>

#include "kernels/accumulation_type.h"
#include "kernels/host_copy.h"

namespace llmtrain::kernels {
namespace {

struct Piece {
  std::int64_t queries = 0;
  PositionRun keys;     // rows of the sequences' keys
  std::size_t run = 0;  // of positions
};

std::int64_t end_of(const PositionRun& run) { return run.begin + run.length; }

std::vector<Piece> pieces_of(std::span<const PositionRun> documents, const SequencePart& part, std::int64_t tokens) {
  const std::vector<PositionRun> runs = part.runs_of(tokens);
  std::vector<Piece> pieces;
  std::size_t first = 0;  // of the documents that do not end before a run
  for (std::int64_t sequence = 0; sequence < end_of(documents.back()); sequence += part.whole_of(tokens))
    for (std::size_t run = 0; run < runs.size(); ++run) {
      const std::int64_t begin = sequence + runs[run].begin, end = sequence + end_of(runs[run]);
      while (first < documents.size() && end_of(documents[first]) <= begin) ++first;
      for (std::size_t i = first; i < documents.size() && documents[i].begin < end; ++i) {
        const std::int64_t from = std::max(begin, documents[i].begin), until = std::min(end, end_of(documents[i]));
        if (until > from) pieces.push_back({until - from, {documents[i].begin, until - documents[i].begin}, run});
      }
    }
  return pieces;
}

template <class Value>
at::Tensor on_device(std::vector<Value>& values, at::ScalarType type, const at::Device& device) {
  return to_device(at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, type), device);
}

void add_starts(const std::vector<Piece>& pieces, const at::Device& device, DocumentPieces& result) {
  std::vector<int> queries{0}, keys{0};
  for (const Piece& piece : pieces) {
    queries.push_back(queries.back() + static_cast<int>(piece.queries));
    keys.push_back(keys.back() + static_cast<int>(piece.keys.length));
    result.most_queries = std::max(result.most_queries, piece.queries);
    result.most_keys = std::max(result.most_keys, piece.keys.length);
  }
  result.query_starts = on_device(queries, at::kInt, device);
  result.key_starts = on_device(keys, at::kInt, device);
}

void add_key_rows(const std::vector<Piece>& pieces, std::size_t runs, const at::Device& device,
                  DocumentPieces& result) {
  std::vector<std::int64_t> rows;
  std::vector<std::vector<std::int64_t>> places(runs);
  for (const Piece& piece : pieces)
    for (std::int64_t row = piece.keys.begin; row < end_of(piece.keys); ++row) {
      places[piece.run].push_back(static_cast<std::int64_t>(rows.size()));
      rows.push_back(row);
    }
  result.key_rows = on_device(rows, at::kLong, device);
  for (std::vector<std::int64_t>& from : places) {
    const at::Tensor sent = on_device(from, at::kLong, device);
    result.additions.push_back({sent, result.key_rows.index_select(0, sent)});
  }
}

}  // namespace

DocumentPieces document_pieces(std::span<const PositionRun> documents, const SequencePart& part, std::int64_t tokens,
                               const at::Device& device) {
  const std::vector<Piece> pieces = pieces_of(documents, part, tokens);
  DocumentPieces result;
  add_starts(pieces, device, result);
  add_key_rows(pieces, part.runs_of(tokens).size(), device, result);
  return result;
}

at::Tensor keys_of(const DocumentPieces& pieces, const at::Tensor& keys) {
  return keys.flatten(0, 1).index_select(0, pieces.key_rows).unsqueeze(0);
}

at::Tensor sum_key_gradients(const DocumentPieces& pieces, const at::Tensor& gradients, const at::Tensor& like) {
  const at::Tensor rows = gradients.flatten(0, 1);
  const at::Tensor sums = at::zeros({like.size(0) * like.size(1), like.size(2), like.size(3)},
                                    like.options().dtype(accumulation_type(like)));
  for (const auto& [from, to] : pieces.additions)
    sums.index_add_(0, to, rows.index_select(0, from).to(sums.scalar_type()));
  return sums.view(like.sizes()).to(like.scalar_type());
}

}  // namespace llmtrain::kernels
