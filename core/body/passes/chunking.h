// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/body/body.h"
#include "core/body/pass_memory.h"

namespace llmtrain::body {

// Chunked execution of bodies: a run of steps becomes one that makes its result piece by piece along an axis
// (core/body/primitives/chunked.h). Each step of the run must have the axis and allow parts of it (axis_use): one that
// is independent of it makes a part of its result, as eXLA's splits do (Artemev et al., arXiv 2206.14148, section 3.3),
// and the last one may sum over it, as partial execution does along channels (Liberis and Lane, arXiv 2211.17246).

// Steps [begin, end) and the axis.
struct StepRun {
  std::size_t begin = 0, end = 0;
  AxisId axis = 0;

  bool operator==(const StepRun&) const = default;
};

struct ChunkingRules {
  // Whether attention may take its queries piece by piece, which none may that keeps to documents.
  bool cuts_queries = true;
};

// Why it cannot be cut, with the name of the primitive in the way: "softmax of scores [t 5, s 7] to [t 5, s 7]: it
// needs all of s at once". None: it can.
std::optional<std::string> refusal(const Body& body, const StepRun& run, const ChunkingRules& rules = {});
// The body with that run in pieces. Throws Error(internal_error) with the refusal where there is one.
Body chunked(const Body& body, const StepRun& run, std::int64_t pieces, const ChunkingRules& rules = {});
// Those that can be cut, but for what is in pieces already.
std::vector<StepRun> chunkable_runs(const Body& body, const ChunkingRules& rules = {});

// The body whose passes, which keep everything, need least memory with runs in so many pieces: the run that spares
// most, then others as long as they spare some; of runs that need the same, those with the fewest FLOPs to do again.
// The same for all who ask about the same body, whatever their types. One piece: the body itself.
Body with_least_memory(const Body& body, std::int64_t pieces, const ChunkingRules& rules = {});

// The body whose passes need at most `limit` bytes, in the fewest pieces that suffice. Throws Error(bad_recipe) where
// no number of pieces does, with the least that there is, the step that needs it, and why that is in the way.
struct ChunkedWithin {
  Body body;
  std::int64_t pieces = 1;
  std::int64_t peak = 0;  // bytes
};
ChunkedWithin chunked_within(const Body& body, std::int64_t limit, const ElementBytes& bytes,
                             const ChunkingRules& rules = {});

}  // namespace llmtrain::body
