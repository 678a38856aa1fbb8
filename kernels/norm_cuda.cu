// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/block_sum.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_kernels.h"

namespace llmtrain::kernels {
namespace {

template <class T>
struct Forward {
  const T* x;
  T* residual;
  const T* weight;
  const T* bias;
  T* y;
  float* mean;
  float* rstd;
  std::int64_t rows;
  int width;
  float eps;
};

template <class T>
struct Backward {
  const T* dy;
  const T* x;
  const float* mean;
  const float* rstd;
  const T* weight;
  T* dx;
  float* partials;
  std::int64_t rows;
  int width;
};

struct Sums {
  const float* partials;  // [blocks, stride]: of the weight, then of the bias
  float* dweight;
  float* dbias;
  std::int64_t blocks, stride;
  int width;
};

// Calls work(pack) for this thread's packs of a row.
template <int size, int threads, class Work>
__device__ __forceinline__ void over_packs(int width, Work work) {
  for (int i = static_cast<int>(threadIdx.x); i < width / size; i += threads) work(i);
}

// The row that is normalised: x, or residual after x was added. Each thread goes on with packs that it has written.
template <class T, int size, int threads>
__device__ const Pack<T, size>* normalised_row(const Forward<T>& p, std::int64_t row) {
  using Elements = Pack<T, size>;
  const auto* x = reinterpret_cast<const Elements*>(p.x + row * p.width);
  if (p.residual == nullptr) return x;
  auto* residual = reinterpret_cast<Elements*>(p.residual + row * p.width);
  over_packs<size, threads>(p.width, [&](int i) {
    const Elements added = x[i];
    Elements total = residual[i];
    for (int k = 0; k < size; ++k) total.of[k] = narrowed<T>(widened(total.of[k]) + widened(added.of[k]));
    residual[i] = total;
  });
  return residual;
}

// Σ (row − mean)^power for power 1 or 2, in all threads.
template <int power, class T, int size, int threads>
__device__ float row_sum(const Pack<T, size>* x, int width, float mean) {
  float sum = 0;
  over_packs<size, threads>(width, [&](int i) {
    const Pack<T, size> value = x[i];
    for (int k = 0; k < size; ++k) {
      const float centred = widened(value.of[k]) - mean;
      sum += power == 1 ? centred : centred * centred;
    }
  });
  return block_sum<threads>(sum);
}

// A block per row. What is read again comes from the cache.
template <class T, int size, int threads>
__global__ void __launch_bounds__(threads) norm_forward_kernel(Forward<T> p) {
  using Elements = Pack<T, size>;
  const auto width = static_cast<float>(p.width);
  for (std::int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const Elements* x = normalised_row<T, size, threads>(p, row);
    const float mean = p.mean != nullptr ? row_sum<1, T, size, threads>(x, p.width, 0) / width : 0;
    const float rstd = 1 / sqrtf(row_sum<2, T, size, threads>(x, p.width, mean) / width + p.eps);
    if (threadIdx.x == 0) {
      if (p.mean != nullptr) p.mean[row] = mean;
      p.rstd[row] = rstd;
    }
    auto* y = reinterpret_cast<Elements*>(p.y + row * p.width);
    over_packs<size, threads>(p.width, [&](int i) {
      const Elements value = x[i], weight = reinterpret_cast<const Elements*>(p.weight)[i];
      Elements bias{}, result;
      if (p.bias != nullptr) bias = reinterpret_cast<const Elements*>(p.bias)[i];
      for (int k = 0; k < size; ++k) {
        const float scaled = (widened(value.of[k]) - mean) * rstd * widened(weight.of[k]);
        result.of[k] = narrowed<T>(p.bias != nullptr ? scaled + widened(bias.of[k]) : scaled);
      }
      y[i] = result;
    });
  }
}

// dx of one row, and the row's share of the sums: sums[0] of the weight's gradient and sums[1] of the bias's, both
// [size, packs], so that threads side by side use memory side by side.
template <class T, int size, int threads>
__device__ void backward_row(const Backward<T>& p, std::int64_t row, float* sums) {
  using Elements = Pack<T, size>;
  const auto* dy = reinterpret_cast<const Elements*>(p.dy + row * p.width);
  const auto* x = reinterpret_cast<const Elements*>(p.x + row * p.width);
  const auto* weight = reinterpret_cast<const Elements*>(p.weight);
  auto* dx = reinterpret_cast<Elements*>(p.dx + row * p.width);
  const bool has_mean = p.mean != nullptr;
  const float mean = has_mean ? p.mean[row] : 0, rstd = p.rstd[row];
  // With g = dy·weight and h the normalised row.
  float g_sum = 0, gh_sum = 0;
  over_packs<size, threads>(p.width, [&](int i) {
    const Elements gradient = dy[i], value = x[i], scale = weight[i];
    for (int k = 0; k < size; ++k) {
      const float g = widened(gradient.of[k]) * widened(scale.of[k]);
      g_sum += g;
      gh_sum += g * (widened(value.of[k]) - mean) * rstd;
    }
  });
  const auto width = static_cast<float>(p.width);
  const float gh_mean = block_sum<threads>(gh_sum) / width, g_mean = has_mean ? block_sum<threads>(g_sum) / width : 0;
  const int packs = p.width / size;
  over_packs<size, threads>(p.width, [&](int i) {
    const Elements gradient = dy[i], value = x[i], scale = weight[i];
    Elements total = dx[i];
    for (int k = 0; k < size; ++k) {
      const float d = widened(gradient.of[k]), h = (widened(value.of[k]) - mean) * rstd;
      const float own = (d * widened(scale.of[k]) - h * gh_mean - g_mean) * rstd;
      total.of[k] = narrowed<T>(widened(total.of[k]) + own);
      sums[k * packs + i] += d * h;
      if (has_mean) sums[p.width + k * packs + i] += d;
    }
    dx[i] = total;
  });
}

// A block per norm_kernel_rows rows. A thread adds to its own columns alone, so that no barrier guards the sums.
template <class T, int size, int threads>
__global__ void __launch_bounds__(threads) norm_backward_kernel(Backward<T> p) {
  DYNAMIC_SHARED(float, sums);
  const int packs = p.width / size, kinds = p.mean != nullptr ? 2 : 1;
  const auto over_sums = [&](auto work) {
    over_packs<size, threads>(p.width, [&](int i) {
      for (int kind = 0; kind < kinds; ++kind)
        for (int k = 0; k < size; ++k) work(kind * p.width + k * packs + i, kind * p.width + i * size + k);
    });
  };
  const std::int64_t blocks = (p.rows + norm_kernel_rows - 1) / norm_kernel_rows;
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    over_sums([&](int place, int) { sums[place] = 0; });
    const std::int64_t first = block * norm_kernel_rows, end = min(first + norm_kernel_rows, p.rows);
    for (std::int64_t row = first; row < end; ++row) backward_row<T, size, threads>(p, row, sums);
    float* const partials = p.partials + block * kinds * p.width;
    over_sums([&](int place, int column) { partials[column] = sums[place]; });
  }
}

// A thread per column.
template <int threads>
__global__ void __launch_bounds__(threads) norm_sums_kernel(Sums p) {
  const int column = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
  const int columns = p.dbias != nullptr ? 2 * p.width : p.width;
  if (column >= columns) return;
  float sum = 0;
  for (std::int64_t block = 0; block < p.blocks; ++block) sum += p.partials[block * p.stride + column];
  float* const gradient = column < p.width ? p.dweight + column : p.dbias + (column - p.width);
  *gradient += sum;
}

constexpr std::int64_t most_blocks = std::int64_t{1} << 20;

template <class... Pointers>
bool are_aligned(int width, std::size_t element, Pointers... pointers) {
  const bool is_whole = static_cast<std::size_t>(width) * element % 16 == 0;
  return is_whole && (... && (reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0));
}

unsigned grid_of(std::int64_t blocks) { return static_cast<unsigned>(std::min(blocks, most_blocks)); }

// A warp suffices for what it loads at twice.
constexpr int few = 32, many = 256;
bool is_narrow(int width, int size) { return width <= 2 * few * size; }

template <class T, int size>
void start_forward(const Forward<T>& p, void* stream) {
  const auto count = static_cast<std::size_t>(p.rows) * static_cast<std::size_t>(p.width);
  const auto width = static_cast<std::size_t>(p.width), rows = static_cast<std::size_t>(p.rows);
  const bool narrow = is_narrow(p.width, size);
  launch(stream, "norm_forward", narrow ? norm_forward_kernel<T, size, few> : norm_forward_kernel<T, size, many>,
         {grid_of(p.rows), static_cast<unsigned>(narrow ? few : many)}, p,
         {reads(p.x, count), writes(p.residual, count), reads(p.weight, width), reads(p.bias, width),
          writes(p.y, count), writes(p.mean, rows), writes(p.rstd, rows)});
}

template <class T>
void forward_of(const NormForwardArguments& a, void* stream) {
  const Forward<T> p{static_cast<const T*>(a.x),
                     static_cast<T*>(a.residual),
                     static_cast<const T*>(a.weight),
                     static_cast<const T*>(a.bias),
                     static_cast<T*>(a.y),
                     a.mean,
                     a.rstd,
                     a.rows,
                     a.width,
                     a.eps};
  if (are_aligned(a.width, sizeof(T), a.x, a.residual, a.weight, a.bias, a.y)) {
    start_forward<T, pack_size<T>>(p, stream);
  } else {
    start_forward<T, 1>(p, stream);
  }
}

template <class T, int size>
void start_backward(const Backward<T>& p, void* stream) {
  const auto count = static_cast<std::size_t>(p.rows) * static_cast<std::size_t>(p.width);
  const auto width = static_cast<std::size_t>(p.width), rows = static_cast<std::size_t>(p.rows);
  const bool narrow = is_narrow(p.width, size), has_mean = p.mean != nullptr;
  const std::int64_t blocks = (p.rows + norm_kernel_rows - 1) / norm_kernel_rows;
  launch(stream, "norm_backward", narrow ? norm_backward_kernel<T, size, few> : norm_backward_kernel<T, size, many>,
         {grid_of(blocks), static_cast<unsigned>(narrow ? few : many), (has_mean ? 2 : 1) * width * sizeof(float)}, p,
         {reads(p.dy, count), reads(p.x, count), reads(p.mean, rows), reads(p.rstd, rows), reads(p.weight, width),
          writes(p.dx, count), writes(p.partials, static_cast<std::size_t>(norm_partials(p.rows, p.width, has_mean)))});
}

template <class T>
void backward_of(const NormBackwardArguments& a, void* stream) {
  const Backward<T> p{static_cast<const T*>(a.dy),
                      static_cast<const T*>(a.x),
                      a.mean,
                      a.rstd,
                      static_cast<const T*>(a.weight),
                      static_cast<T*>(a.dx),
                      a.partials,
                      a.rows,
                      a.width};
  if (are_aligned(a.width, sizeof(T), a.dy, a.x, a.weight, a.dx)) {
    start_backward<T, pack_size<T>>(p, stream);
  } else {
    start_backward<T, 1>(p, stream);
  }
}

void add_sums(const NormBackwardArguments& a, void* stream) {
  constexpr int threads = 128;
  const std::int64_t blocks = (a.rows + norm_kernel_rows - 1) / norm_kernel_rows;
  const std::int64_t all = norm_partials(a.rows, a.width, a.mean != nullptr);
  const int columns = a.dbias != nullptr ? 2 * a.width : a.width;
  const auto width = static_cast<std::size_t>(a.width);
  launch(stream, "norm_sums", norm_sums_kernel<threads>,
         {static_cast<unsigned>((columns + threads - 1) / threads), static_cast<unsigned>(threads)},
         Sums{a.partials, a.dweight, a.dbias, blocks, all / blocks, a.width},
         {reads(a.partials, static_cast<std::size_t>(all)), writes(a.dweight, width), writes(a.dbias, width)});
}

void forward(const NormForwardArguments& a, void* stream) {
  if (a.rows == 0 || a.width == 0) return;
  switch (a.element) {
    case KernelElement::fp32:
      return forward_of<float>(a, stream);
    case KernelElement::bf16:
      return forward_of<__nv_bfloat16>(a, stream);
    case KernelElement::fp16:
      return forward_of<__half>(a, stream);
  }
}

void backward(const NormBackwardArguments& a, void* stream) {
  if (a.rows == 0 || a.width == 0) return;
  switch (a.element) {
    case KernelElement::fp32:
      backward_of<float>(a, stream);
      break;
    case KernelElement::bf16:
      backward_of<__nv_bfloat16>(a, stream);
      break;
    case KernelElement::fp16:
      backward_of<__half>(a, stream);
      break;
  }
  add_sums(a, stream);
}

}  // namespace

const NormKernels cuda_norm_kernels{forward, backward};

}  // namespace llmtrain::kernels
