// SPDX-License-Identifier: Apache-2.0
// The kernels of a GPU for FP8 (kernels/fp8/fp8.h), with raw pointers to contiguous device memory. Products with a
// scale are fp32's. Arrays are matrices [rows, columns] with a scale per row; an array with one scale is one row.
// LibTorch and CUDA are not needed here.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cuda/device/fp8_format.h"
#include "kernels/cuda/fp8/flat_part.h"
#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

// What a kernel says of an array's magnitudes beside its own work; nothing where `largest` is null. It takes a second,
// short kernel.
struct Fp8Measure {
  unsigned* partials = nullptr;  // scratch, most_fp8_partials numbers
  float* largest = nullptr;      // [1]: the largest magnitude, 0 of no elements; NaN where there is one
  // [1], or null: the array's scale, or NaN where the largest magnitude is not finite. Then all that was cast becomes
  // NaN, too: infinities would saturate.
  float* shown_scale = nullptr;
};
constexpr int most_fp8_partials = 2048;

// Consecutive parts of x whose numbers are the elements divided by the part's scale, a power of two, and rounded to
// bf16: as weights are widened that are kept in fp16. Null scales: x is as it is. Only of fp16, to E4M3.
constexpr int most_fp8_stored_parts = 4;
struct Fp8Stored {
  const float* scales = nullptr;  // [parts]
  std::int64_t parts = 0;
  // Elements, multiples of fp8_stored_elements; of the last part and behind it the largest number.
  std::int64_t ends[most_fp8_stored_parts] = {};
};
constexpr std::int64_t fp8_stored_elements = 16;

struct Fp8CastArguments {
  KernelElement element;
  Fp8Format format;
  const void* x = nullptr;
  const float* scales = nullptr;  // [rows]
  // cast: the codes. round: the values that the format can represent, of x's type; may be x.
  void* result = nullptr;
  std::int64_t rows = 0, columns = 0;
  Fp8Measure measure;
  Fp8Stored stored;  // cast alone, and of one row
};

struct Fp8WidenArguments {
  KernelElement element;  // of x
  Fp8Format format;
  const void* payload = nullptr;
  const float* scales = nullptr;  // [rows]
  void* x = nullptr;
  std::int64_t rows = 0, columns = 0;
};

struct Fp8LargestArguments {
  KernelElement element;
  const void* x = nullptr;
  unsigned* partials = nullptr;  // scratch, rows · fp8_row_parts() numbers
  float* largest = nullptr;      // [rows]
  std::int64_t rows = 0, columns = 0;
};

// In how many parts a row is read, so that few long rows keep a whole GPU busy.
inline std::int64_t fp8_row_parts(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t part = 16384;
  const std::int64_t wanted = (columns + part - 1) / part, most = most_fp8_partials / (rows > 0 ? rows : 1);
  return wanted < most ? (wanted > 0 ? wanted : 1) : (most > 0 ? most : 1);
}

struct Fp8TurnArguments {
  std::optional<KernelElement> element;  // none: x is codes already, which are only moved
  Fp8Format format;
  const void* x = nullptr;       // [rows, columns]
  const float* scale = nullptr;  // [1]; not read of codes
  void* turned = nullptr;        // [columns, stride]: the codes the other way round, with zeros behind the rows
  std::int64_t rows = 0, columns = 0;
  std::int64_t stride = 0;  // at least rows
  void* codes = nullptr;    // [rows, columns]: the codes as they lie, too, or null; not of codes
  Fp8Measure measure;       // with `codes` alone; its partials are fp8_turn_tiles() numbers
  Fp8Stored stored;         // without `codes` alone; parts are of fp8_stored_rows rows, or a multiple of them
};
constexpr std::int64_t fp8_stored_rows = 4;

// Into how many tiles, a block for each, a matrix is cut that is turned.
inline std::int64_t fp8_turn_tiles(KernelElement element, std::int64_t columns, std::int64_t stride) {
  constexpr std::int64_t tile_rows = 128;
  const std::int64_t tile_columns = element == KernelElement::fp32 ? 32 : 64;
  return (stride + tile_rows - 1) / tile_rows * ((columns + tile_columns - 1) / tile_columns);
}

// fp8_scale() (kernels/fp8/scale.h).
struct Fp8ScaleArguments {
  Fp8Format format;
  const float* largest = nullptr;  // [count]
  float* scales = nullptr;         // [count]
  std::int64_t count = 0;
};

struct Fp8CountArguments {
  Fp8Format format;
  const void* payload = nullptr;
  unsigned* partials = nullptr;  // scratch, most_fp8_partials numbers
  float* count = nullptr;        // [1]
  std::int64_t elements = 0;
};

// Parts in the host's memory; a kernel's parameters hold 120 of them.
struct FlatParts {
  const FlatPart* parts = nullptr;
  std::int64_t count = 0;
};

// What follows is of parts of flat arrays in E4M3, with numbers and scales by the parts' `number`. Scales are powers of
// two; value = payload / scale.
struct Fp8PartsLargestArguments {
  FlatParts of;
  KernelElement element;
  const void* x = nullptr;
  float* largest = nullptr;  // not below 0: becomes the larger of itself and the magnitudes; NaN where there is one
};

struct Fp8PartsCastArguments {
  FlatParts of;
  KernelElement element;
  const void* x = nullptr;
  const float* x_scales = nullptr;  // of x; null: 1
  const float* scales = nullptr;
  void* payload = nullptr;
};

struct Fp8PartsWidenArguments {
  FlatParts of;
  bool is_fp8 = true;  // else the payload is fp16
  const void* payload = nullptr;
  const float* scales = nullptr;
  KernelElement element;
  void* x = nullptr;
};

struct Fp8PartsCountArguments {
  FlatParts of;
  const void* payload = nullptr;
  std::int64_t* counts = nullptr;  // to which those of the largest magnitude are added
};

struct Fp8PartsSquaresArguments {
  FlatParts of;
  const void* payload = nullptr;
  const float* scales = nullptr;
  double* partials = nullptr;  // scratch, as many as fp8_portions() of the parts together
  double* sum = nullptr;       // [1]
};

// In how many portions, each a block's work, a part is read.
constexpr std::int64_t fp8_portion_elements = 16384;
inline std::int64_t fp8_portions(const FlatPart& part) {
  return (part.end - part.begin + fp8_portion_elements - 1) / fp8_portion_elements;
}

// One kernel each, and another one where it says so. Bytes per element of size s.
struct Fp8Kernels {
  void (*cast)(const Fp8CastArguments& arguments, void* stream);    // s + 1
  void (*round)(const Fp8CastArguments& arguments, void* stream);   // 2 s
  void (*widen)(const Fp8WidenArguments& arguments, void* stream);  // 1 + s
  // s; a second kernel for the parts of rows.
  void (*largest)(const Fp8LargestArguments& arguments, void* stream);
  void (*turn)(const Fp8TurnArguments& arguments, void* stream);  // s + 1, with the codes as they lie s + 2
  // 1; a second kernel for the sum. How many codes are the format's largest number or its negative, below 2³².
  void (*count_saturated)(const Fp8CountArguments& arguments, void* stream);
  void (*scale)(const Fp8ScaleArguments& arguments, void* stream);  // 8
  // These take all parts at once, or as many as a kernel's parameters hold.
  void (*largest_of_parts)(const Fp8PartsLargestArguments& arguments, void* stream);     // s
  void (*cast_parts)(const Fp8PartsCastArguments& arguments, void* stream);              // s + 1
  void (*widen_parts)(const Fp8PartsWidenArguments& arguments, void* stream);            // those of a payload's, and s
  void (*count_saturated_parts)(const Fp8PartsCountArguments& arguments, void* stream);  // 1
  // 1; another kernel adds up the portions. A portion's sum is exact, and so is its product with the scale unless that
  // is beyond float64; all are added in an order that the parts alone decide.
  void (*squares_of_parts)(const Fp8PartsSquaresArguments& arguments, void* stream);
};

// Defined where kernels/fp8/fp8_cuda.cu is compiled.
extern const Fp8Kernels cuda_fp8_kernels;

// Those of it that are in sources of their own.
void largest_fp8(const Fp8LargestArguments& arguments, void* stream);
// largest[row] of the bits partials[row, parts].
void join_fp8(const unsigned* partials, std::int64_t rows, std::int64_t parts, float* largest, void* stream);
void count_saturated_fp8(const Fp8CountArguments& arguments, void* stream);
void scale_fp8(const Fp8ScaleArguments& arguments, void* stream);
// Says what the blocks of a cast have found, where that is asked for, and makes NaN of its codes where it is to show.
struct Fp8Codes {
  std::uint8_t* codes = nullptr;  // [count]
  std::int64_t count = 0;
  std::uint8_t* turned = nullptr;  // [columns, stride], of which `rows` are codes, or null
  std::int64_t rows = 0, columns = 0, stride = 0;
};
void settle_fp8(const Fp8Measure& measure, const float* scale, unsigned blocks, const Fp8Codes& codes, void* stream);
void turn_fp8(const Fp8TurnArguments& arguments, void* stream);
void largest_of_fp8_parts(const Fp8PartsLargestArguments& arguments, void* stream);
void cast_fp8_parts(const Fp8PartsCastArguments& arguments, void* stream);
void widen_fp8_parts(const Fp8PartsWidenArguments& arguments, void* stream);
void count_saturated_fp8_parts(const Fp8PartsCountArguments& arguments, void* stream);
void squares_of_fp8_parts(const Fp8PartsSquaresArguments& arguments, void* stream);

}  // namespace llmtrain::kernels
