// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/widened_matmul.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "kernels/vector/conversion.h"
#include "kernels/vector/level.h"

namespace llmtrain::kernels {
namespace {

// An element is widened once per 512 products that it is in, which costs some hundredths of them, and a block is still
// in the second or third cache when it is multiplied.
constexpr std::int64_t row_block = 512, column_block = 512, depth_block = 1024;

// Elements per thread below which starting another thread costs more than it saves.
constexpr std::int64_t elements_per_thread = 16384;

// Looked up once: the instruction-set level does not change while the program runs.
const vector::ConversionLoops& loops() {
  static const auto kernels = vector::at_level([]<int level> { return vector::conversion_loops_for<level>(); });
  return kernels;
}

// Part of one dimension of a product. There is always one, of no elements where the dimension has none.
struct Block {
  std::int64_t begin, size;
};

template <class Body>
void over_blocks(std::int64_t size, std::int64_t limit, Body body) {
  std::int64_t begin = 0;
  do {
    body(Block{begin, std::min(limit, size - begin)});
    begin += limit;
  } while (begin < size);
}

// fp32 memory of a block, kept by its thread from product to product.
struct Scratch {
  std::vector<float> left, right, bias, destination;
};

Scratch& scratch() {
  thread_local Scratch memory;
  return memory;
}

float* room_for(std::vector<float>& memory, std::int64_t elements) {
  if (static_cast<std::int64_t>(memory.size()) < elements) memory.resize(static_cast<std::size_t>(elements));
  return memory.data();
}

// Calls body(line) for each of them, in several threads where their elements are worth it.
template <class Body>
void over_lines(std::int64_t lines, std::int64_t width, Body body) {
  const std::int64_t grain = std::max<std::int64_t>(1, elements_per_thread / std::max<std::int64_t>(1, width));
  at::parallel_for(0, lines, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) body(line);
  });
}

// A block of an operand in fp32, in the order in which it is in memory: its lines are rows, or columns of a transposed
// one. Lines are `stride` apart, which is the same for all values of a varying size, as generated code depends on it.
MatmulOperand widened(const MatmulOperand& operand, Block rows, Block columns, std::int64_t stride,
                      std::vector<float>& memory) {
  const bool is_transposed = operand.column_stride != 1;
  const Block lines = is_transposed ? columns : rows, elements = is_transposed ? rows : columns;
  const std::int64_t distance = is_transposed ? operand.column_stride : operand.row_stride;
  const auto* source = static_cast<const std::uint16_t*>(operand.data) + lines.begin * distance + elements.begin;
  float* wide = room_for(memory, lines.size * stride);
  over_lines(lines.size, elements.size,
             [&](std::int64_t line) { loops().widen(source + line * distance, wide + line * stride, elements.size); });
  return is_transposed ? MatmulOperand{wide, 1, stride} : MatmulOperand{wide, stride, 1};
}

// The distance of lines that have `size` elements, or up to `limit` where they are cut or their number varies.
std::int64_t stride_of(std::int64_t size, std::int64_t limit, bool varies) {
  return varies ? limit : std::clamp<std::int64_t>(size, 1, limit);
}

class WidenedProduct {
 public:
  WidenedProduct(const MatmulProblem& problem, void (*multiply)(const MatmulProblem&))
      : problem_(problem),
        multiply_(multiply),
        row_stride_(stride_of(problem.m, row_block, problem.varying == VaryingSize::m)),
        column_stride_(stride_of(problem.n, column_block, false)),
        depth_stride_(stride_of(problem.k, depth_block, problem.varying == VaryingSize::k)) {}

  void run() {
    over_blocks(problem_.n, column_block, [this](Block columns) {
      over_blocks(problem_.m, row_block, [&](Block rows) { multiply_block(rows, columns); });
    });
  }

 private:
  void multiply_block(Block rows, Block columns) {
    MatmulProblem part;
    part.m = rows.size;
    part.n = columns.size;
    part.varying = problem_.varying;
    part.accumulate = problem_.accumulate;
    part.bias = widened_bias(columns);
    set_destination(part, rows, columns);
    over_blocks(problem_.k, depth_block, [&](Block depth) {
      part.k = depth.size;
      part.left = widened(problem_.left, rows, depth, is_row_major(problem_.left) ? depth_stride_ : row_stride_,
                          scratch().left);
      // Where the depth is one block, those of the right operand serve all rows.
      if (problem_.k > depth_block || rows.begin == 0)
        right_ = widened(problem_.right, depth, columns, is_row_major(problem_.right) ? column_stride_ : depth_stride_,
                         scratch().right);
      part.right = right_;
      multiply_(part);
      part.accumulate = true;
      part.bias = nullptr;
    });
    // After the whole depth, so that the sum over its blocks is rounded once.
    if (is_rounded()) round(static_cast<const float*>(part.destination), rows, columns);
  }

  static bool is_row_major(const MatmulOperand& operand) { return operand.column_stride == 1; }

  bool is_rounded() const { return problem_.destination_element == MatmulElement::bf16; }

  const float* widened_bias(Block columns) {
    if (problem_.bias == nullptr) return nullptr;
    float* wide = room_for(scratch().bias, column_block);
    loops().widen(static_cast<const std::uint16_t*>(problem_.bias) + columns.begin, wide, columns.size);
    return wide;
  }

  // Where the destination has this row, from the block's first column on.
  template <class Element>
  Element* place(std::int64_t row, Block columns) const {
    return static_cast<Element*>(problem_.destination) + row * problem_.destination_row_stride + columns.begin;
  }

  // The destination itself, or memory that is rounded into it, with what it holds where that is added to.
  void set_destination(MatmulProblem& part, Block rows, Block columns) {
    if (!is_rounded()) {
      part.destination = place<float>(rows.begin, columns);
      part.destination_row_stride = problem_.destination_row_stride;
      return;
    }
    float* wide = room_for(scratch().destination, rows.size * column_stride_);
    part.destination = wide;
    part.destination_row_stride = column_stride_;
    if (!problem_.accumulate) return;
    over_lines(rows.size, columns.size, [&](std::int64_t row) {
      loops().widen(place<std::uint16_t>(rows.begin + row, columns), wide + row * column_stride_, columns.size);
    });
  }

  void round(const float* wide, Block rows, Block columns) const {
    over_lines(rows.size, columns.size, [&](std::int64_t row) {
      loops().round(wide + row * column_stride_, place<std::uint16_t>(rows.begin + row, columns), columns.size);
    });
  }

  const MatmulProblem& problem_;
  void (*multiply_)(const MatmulProblem&);
  std::int64_t row_stride_, column_stride_, depth_stride_;  // of lines that have rows, columns or depth as elements
  MatmulOperand right_;
};

}  // namespace

void widened_matmul(const MatmulProblem& problem, void (*multiply)(const MatmulProblem& problem)) {
  WidenedProduct(problem, multiply).run();
}

}  // namespace llmtrain::kernels
