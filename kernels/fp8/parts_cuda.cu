// SPDX-License-Identifier: Apache-2.0
// FP8 of many tensors at once: what is done to a tensor by itself is a launch for each.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/device/ascending.h"
#include "kernels/cuda/device/block_sum.h"
#include "kernels/cuda/device/fp8_span.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/optimizer/squares_kernels.h"

namespace llmtrain::kernels {
namespace {

constexpr int threads = fp8_threads;

// The parts of a launch, whose portions are dealt out to blocks.
struct List {
  static constexpr std::int64_t most = 120;
  std::int64_t count = 0;
  std::int64_t ends[most] = {};  // portions of a part and of those before
  FlatPart of[most] = {};
};

template <class T>
struct Largest {
  List list;
  const T* x;
  float* largest;
};

template <class T>
struct Cast {
  List list;
  const T* x;
  const float* x_scales;  // or null
  const float* scales;
  std::uint8_t* payload;
};

template <class Payload, class T>
struct Widen {
  List list;
  const Payload* payload;
  const float* scales;
  T* x;
};

struct Count {
  List list;
  const std::uint8_t* payload;
  unsigned long long* counts;
};

struct Squares {
  List list;
  const std::uint8_t* payload;
  const float* scales;
  double* partials;  // of the list's portions
};
// What every GPU takes.
static_assert(sizeof(Cast<float>) <= 4096);

template <class T>
__device__ __forceinline__ bool is_at_pack(const T* x) {
  return reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
}

struct Portion {
  std::int64_t begin, end;  // elements of the flat arrays
  std::int64_t number;      // its part's
  std::int64_t place;       // among the list's
};

// Calls work(portion) for this block's.
template <class Work>
__device__ __forceinline__ void over_portions(const List& list, Work work) {
  const std::int64_t all = list.ends[list.count - 1];
  for (std::int64_t i = blockIdx.x; i < all; i += gridDim.x) {
    const std::int64_t part = count_until(list.ends, list.count, i);
    const FlatPart& own = list.of[part];
    const std::int64_t begin = own.begin + (part == 0 ? i : i - list.ends[part - 1]) * fp8_portion_elements;
    work(Portion{begin, min(begin + fp8_portion_elements, own.end), own.number, i});
  }
}

// Calls work(first element, elements) for this thread's spans of a portion.
template <class Work>
__device__ __forceinline__ void over_own_spans(const Portion& portion, Work work) {
  for (std::int64_t first = portion.begin + std::int64_t{threadIdx.x} * span; first < portion.end;
       first += std::int64_t{threads} * span)
    work(first, static_cast<int>(min(portion.end - first, std::int64_t{span})));
}

template <class T>
__device__ __forceinline__ Span<T> loaded(const T* x, int count) {
  Span<T> of;
  of.load(x, count, is_at_pack(x));
  return of;
}

// Bits of magnitudes order as they do, and those of a NaN are the largest: the same in any order of blocks. All threads
// of the block must call it.
__device__ __forceinline__ void note_largest(float& largest, unsigned bits) {
  bits = block_largest<threads>(bits);
  if (threadIdx.x == 0) atomicMax(reinterpret_cast<unsigned*>(&largest), bits);
}

template <class T>
__global__ void __launch_bounds__(threads) fp8_largest_of_parts_kernel(Largest<T> p) {
  unsigned most = 0;
  std::int64_t last = -1;
  over_portions(p.list, [&](const Portion& portion) {
    if (last != portion.number && last >= 0) {
      note_largest(p.largest[last], most);
      most = 0;
    }
    last = portion.number;
    over_own_spans(portion, [&](std::int64_t first, int count) {
      Span<T> x = loaded(p.x + first, count);
#pragma unroll
      for (int i = 0; i < span; ++i) most = max(most, magnitude_bits(widened(x[i])));
    });
  });
  if (last >= 0) note_largest(p.largest[last], most);
}

template <class T>
__global__ void __launch_bounds__(threads) fp8_cast_parts_kernel(Cast<T> p) {
  over_portions(p.list, [&](const Portion& portion) {
    const float scale = p.scales[portion.number];
    const float unit = p.x_scales == nullptr ? 1 : 1 / p.x_scales[portion.number];
    over_own_spans(portion, [&](std::int64_t first, int count) {
      Span<T> x = loaded(p.x + first, count);
      Span<std::uint8_t> codes;
#pragma unroll
      for (int i = 0; i < span; i += 2) {
        const Fp8Pair pair = fp8_pair<Fp8Format::e4m3>(widened(x[i]) * unit * scale, widened(x[i + 1]) * unit * scale);
        codes[i] = static_cast<std::uint8_t>(pair);
        codes[i + 1] = static_cast<std::uint8_t>(pair >> 8);
      }
      codes.store(p.payload + first, count, is_at_pack(p.payload + first));
    });
  });
}

__device__ __forceinline__ float number(std::uint8_t code) { return widened_pair<Fp8Format::e4m3>(code).x; }
__device__ __forceinline__ float number(__half x) { return widened(x); }

// Threads side by side write side by side: pieces of 16 bytes with gaps, which other stores fill, took four times as
// long.
template <class Payload, class T>
__global__ void __launch_bounds__(threads) fp8_widen_parts_kernel(Widen<Payload, T> p) {
  constexpr int size = pack_size<T>, together = 4;  // loads under way together hide one another's time
  constexpr std::int64_t step = threads * size;
  over_portions(p.list, [&](const Portion& portion) {
    const float unit = 1 / p.scales[portion.number];
    for (std::int64_t first = portion.begin + std::int64_t{threadIdx.x} * size; first < portion.end;
         first += together * step) {
      Span<Payload, size> payload[together];
      const auto count_of = [&](int j) {
        return static_cast<int>(min(portion.end - first - j * step, std::int64_t{size}));
      };
#pragma unroll
      for (int j = 0; j < together; ++j)
        payload[j].load(p.payload + first + j * step, count_of(j), is_at_pack(p.payload + portion.begin));
#pragma unroll
      for (int j = 0; j < together; ++j) {
        Span<T, size> x;
#pragma unroll
        for (int i = 0; i < size; ++i) x[i] = narrowed<T>(number(payload[j][i]) * unit);
        x.store(p.x + first + j * step, count_of(j), is_at_pack(p.x + portion.begin));
      }
    }
  });
}

__global__ void __launch_bounds__(threads) fp8_count_parts_kernel(Count p) {
  constexpr int largest = 0x7e;
  over_portions(p.list, [&](const Portion& portion) {
    unsigned all = 0;
    over_own_spans(portion, [&](std::int64_t first, int count) {
      Span<std::uint8_t> codes = loaded(p.payload + first, count);
#pragma unroll
      for (int i = 0; i < span; ++i) all += (codes[i] & 0x7f) == largest ? 1 : 0;
    });
    all = block_sum(all);
    if (threadIdx.x == 0 && all > 0) atomicAdd(p.counts + portion.number, static_cast<unsigned long long>(all));
  });
}

// Squares are whole numbers of 2⁻¹⁸, of which a portion has less than 2⁵⁰.
constexpr unsigned long long not_a_number = 1ULL << 55;

// In units of 2⁻¹⁸, or not_a_number.
__device__ __forceinline__ unsigned long long square_of(std::uint8_t code) {
  const unsigned exponent = code >> 3 & 15, mantissa = code & 7;
  if ((code & 0x7f) == 0x7f) return not_a_number;
  const unsigned units = exponent == 0 ? mantissa : (8 | mantissa) << (exponent - 1);
  return static_cast<unsigned long long>(units) * units;
}

__global__ void __launch_bounds__(threads) fp8_squares_of_parts_kernel(Squares p) {
  over_portions(p.list, [&](const Portion& portion) {
    unsigned long long all = 0;
    over_own_spans(portion, [&](std::int64_t first, int count) {
      Span<std::uint8_t> codes = loaded(p.payload + first, count);
#pragma unroll
      for (int i = 0; i < span; ++i) all += square_of(codes[i]);
    });
    // So that those of all threads are within 64 bits.
    all = block_sum(min(all, not_a_number));
    if (threadIdx.x != 0) return;
    const double unit = 1 / static_cast<double>(p.scales[portion.number]);
    const double sum = static_cast<double>(all) * 0x1p-18 * unit * unit;
    p.partials[portion.place] = all < not_a_number ? sum : static_cast<double>(__uint_as_float(0x7fc00000));
  });
}

// Calls start(list, what it reads and writes, blocks) with the parts that have elements, as many at a time as there are
// places. note(part, memory) adds what a kernel reads and writes of one.
template <class Note, class Start>
void in_lists(const FlatParts& parts, Note note, Start start) {
  constexpr std::int64_t most_blocks = 2048;
  List list;
  std::vector<MemoryUse> memory;
  const auto start_list = [&] {
    if (list.count == 0) return;
    const std::int64_t portions = list.ends[list.count - 1];
    start(list, memory, LaunchShape{static_cast<unsigned>(std::min(portions, most_blocks)), threads});
    memory.clear();
    list.count = 0;
  };
  for (std::int64_t i = 0; i < parts.count; ++i) {
    const FlatPart& part = parts.parts[i];
    if (part.begin == part.end) continue;
    list.of[list.count] = part;
    list.ends[list.count] = fp8_portions(part) + (list.count > 0 ? list.ends[list.count - 1] : 0);
    note(part, memory);
    if (++list.count == List::most) start_list();
  }
  start_list();
}

using Memory = std::vector<MemoryUse>;

template <class T>
MemoryUse reads_of(const T* x, const FlatPart& part) {
  return reads(x + part.begin, size_of(part.end - part.begin));
}
template <class T>
MemoryUse writes_of(const T* x, const FlatPart& part) {
  return writes(x + part.begin, size_of(part.end - part.begin));
}

template <class T>
void start_largest(const Fp8PartsLargestArguments& a, void* stream) {
  const auto* x = static_cast<const T*>(a.x);
  in_lists(
      a.of,
      [&](const FlatPart& part, Memory& memory) {
        memory.insert(memory.end(), {reads_of(x, part), updates(a.largest + part.number, 1)});
      },
      [&](const List& list, const Memory& memory, const LaunchShape& shape) {
        launch(stream, "fp8_largest_of_parts", fp8_largest_of_parts_kernel<T>, shape, Largest<T>{list, x, a.largest},
               std::span(memory));
      });
}

template <class T>
void start_cast(const Fp8PartsCastArguments& a, void* stream) {
  const auto* x = static_cast<const T*>(a.x);
  auto* const payload = static_cast<std::uint8_t*>(a.payload);
  in_lists(
      a.of,
      [&](const FlatPart& part, Memory& memory) {
        memory.insert(memory.end(), {reads_of(x, part), reads(a.scales + part.number, 1), writes_of(payload, part)});
        if (a.x_scales != nullptr) memory.push_back(reads(a.x_scales + part.number, 1));
      },
      [&](const List& list, const Memory& memory, const LaunchShape& shape) {
        launch(stream, "fp8_cast_parts", fp8_cast_parts_kernel<T>, shape,
               Cast<T>{list, x, a.x_scales, a.scales, payload}, std::span(memory));
      });
}

template <class Payload, class T>
void start_widen(const Fp8PartsWidenArguments& a, void* stream) {
  const auto* payload = static_cast<const Payload*>(a.payload);
  auto* const x = static_cast<T*>(a.x);
  in_lists(
      a.of,
      [&](const FlatPart& part, Memory& memory) {
        memory.insert(memory.end(), {reads_of(payload, part), reads(a.scales + part.number, 1), writes_of(x, part)});
      },
      [&](const List& list, const Memory& memory, const LaunchShape& shape) {
        launch(stream, "fp8_widen_parts", fp8_widen_parts_kernel<Payload, T>, shape,
               Widen<Payload, T>{list, payload, a.scales, x}, std::span(memory));
      });
}

}  // namespace

void largest_of_fp8_parts(const Fp8PartsLargestArguments& a, void* stream) {
  with_type_of(a.element, [&]<class T> { start_largest<T>(a, stream); });
}

void cast_fp8_parts(const Fp8PartsCastArguments& a, void* stream) {
  with_type_of(a.element, [&]<class T> { start_cast<T>(a, stream); });
}

void widen_fp8_parts(const Fp8PartsWidenArguments& a, void* stream) {
  with_type_of(a.element,
               [&]<class T> { (a.is_fp8 ? start_widen<std::uint8_t, T> : start_widen<__half, T>)(a, stream); });
}

void count_saturated_fp8_parts(const Fp8PartsCountArguments& a, void* stream) {
  const auto* payload = static_cast<const std::uint8_t*>(a.payload);
  auto* const counts = reinterpret_cast<unsigned long long*>(a.counts);
  in_lists(
      a.of,
      [&](const FlatPart& part, Memory& memory) {
        memory.insert(memory.end(), {reads_of(payload, part), updates(a.counts + part.number, 1)});
      },
      [&](const List& list, const Memory& memory, const LaunchShape& shape) {
        launch(stream, "fp8_count_parts", fp8_count_parts_kernel, shape, Count{list, payload, counts},
               std::span(memory));
      });
}

void squares_of_fp8_parts(const Fp8PartsSquaresArguments& a, void* stream) {
  const auto* payload = static_cast<const std::uint8_t*>(a.payload);
  std::int64_t done = 0;
  in_lists(
      a.of,
      [&](const FlatPart& part, Memory& memory) {
        memory.insert(memory.end(), {reads_of(payload, part), reads(a.scales + part.number, 1)});
      },
      [&](const List& list, Memory& memory, const LaunchShape& shape) {
        const std::int64_t portions = list.ends[list.count - 1];
        memory.push_back(writes(a.partials + done, size_of(portions)));
        launch(stream, "fp8_squares_of_parts", fp8_squares_of_parts_kernel, shape,
               Squares{list, payload, a.scales, a.partials + done}, std::span<const MemoryUse>(memory));
        done += portions;
      });
  total_squares(a.partials, done, a.sum, stream);
}

}  // namespace llmtrain::kernels
