// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device/column_pieces.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/packs.h"
#include "kernels/cuda/device/row_team.h"
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
  const float* partials;  // [pieces, stride]: of the weight, then of the bias
  float* dweight;
  float* dbias;
  std::int64_t pieces, stride;
  int width;
  int adds;
};

// The row that is normalised: x, or residual after x was added. Each thread goes on with packs that it has written.
template <class T, int size, Team team>
__device__ TeamRow<T, size, team> normalised_row(const Forward<T>& p, std::int64_t row) {
  using Elements = Pack<T, size>;
  const TeamRow<T, size, team> x(p.x + row * p.width, p.width);
  if (p.residual == nullptr) return x;
  T* const residual = p.residual + row * p.width;
  TeamRow<T, size, team> sum(residual, p.width);
  over_packs<size, team>(p.width, [&](int i) {
    const Elements added = x[i];
    Elements total = sum[i];
    for (int k = 0; k < size; ++k) total.of[k] = narrowed<T>(widened(total.of[k]) + widened(added.of[k]));
    reinterpret_cast<Elements*>(residual)[i] = total;
    sum.held = total;
  });
  return sum;
}

// Σ (row − mean)^power for power 1 or 2, in all threads of the team.
template <int power, class T, int size, Team team>
__device__ float row_sum(const TeamRow<T, size, team>& x, int width, float mean) {
  float sum = 0;
  over_packs<size, team>(width, [&](int i) {
    const Pack<T, size> value = x[i];
    for (int k = 0; k < size; ++k) {
      const float centred = widened(value.of[k]) - mean;
      sum += power == 1 ? centred : centred * centred;
    }
  });
  return team_sum<team>(sum);
}

template <class T, int size, Team team>
__global__ void __launch_bounds__(most_threads(team)) norm_forward_kernel(Forward<T> p) {
  using Elements = Pack<T, size>;
  const auto width = static_cast<float>(p.width);
  const TeamRow<T, size, team> weight(p.weight, p.width), bias(p.bias, p.width);
  for (std::int64_t row = first_team<team>(); row < p.rows; row += team_count<team>()) {
    const TeamRow<T, size, team> x = normalised_row<T, size, team>(p, row);
    const float mean = p.mean != nullptr ? row_sum<1>(x, p.width, 0) / width : 0;
    const float rstd = 1 / sqrtf(row_sum<2>(x, p.width, mean) / width + p.eps);
    if (place<team>() == 0) {
      if (p.mean != nullptr) p.mean[row] = mean;
      p.rstd[row] = rstd;
    }
    auto* y = reinterpret_cast<Elements*>(p.y + row * p.width);
    over_packs<size, team>(p.width, [&](int i) {
      const Elements value = x[i], scale = weight[i];
      Elements shift{}, result;
      if (p.bias != nullptr) shift = bias[i];
      for (int k = 0; k < size; ++k) {
        const float scaled = (widened(value.of[k]) - mean) * rstd * widened(scale.of[k]);
        result.of[k] = narrowed<T>(p.bias != nullptr ? scaled + widened(shift.of[k]) : scaled);
      }
      y[i] = result;
    });
  }
}

// A piece's sums over rows: of the weight's gradient and, where there is a mean, of the bias's. A thread adds to its
// own columns alone, so that no barrier guards them: in registers, or in shared memory as [kinds, size, packs], where
// threads side by side use memory side by side.
template <int size, Team team>
struct ColumnSums {
  float own[2][size];
  float* shared;
  int width;

  __device__ float& at(int kind, int k, int i) {
    if constexpr (team == Team::loop) return shared[kind * width + k * (width / size) + i];
    return own[kind][k];
  }
  // Calls work(sum, its column) for this thread's sums.
  template <class Work>
  __device__ void over_all(int kinds, Work work) {
    over_packs<size, team>(width, [&](int i) {
#pragma unroll
      for (int kind = 0; kind < 2; ++kind)
        for (int k = 0; k < size && kind < kinds; ++k) work(at(kind, k, i), kind * width + i * size + k);
    });
  }
};

// dx of one row, and the row's share of the sums.
template <class T, int size, Team team>
__device__ void backward_row(const Backward<T>& p, std::int64_t row, const TeamRow<T, size, team>& weight,
                             ColumnSums<size, team>& sums) {
  using Elements = Pack<T, size>;
  const std::int64_t begin = row * p.width;
  // All that is read is under way before the team meets.
  const TeamRow<T, size, team> dy(p.dy + begin, p.width), x(p.x + begin, p.width), before(p.dx + begin, p.width);
  const bool has_mean = p.mean != nullptr;
  const float mean = has_mean ? p.mean[row] : 0, rstd = p.rstd[row];
  // With g = dy·weight and h the normalised row.
  float g_sum = 0, gh_sum = 0;
  over_packs<size, team>(p.width, [&](int i) {
    const Elements gradient = dy[i], value = x[i], scale = weight[i];
    for (int k = 0; k < size; ++k) {
      const float g = widened(gradient.of[k]) * widened(scale.of[k]);
      g_sum += g;
      gh_sum += g * (widened(value.of[k]) - mean) * rstd;
    }
  });
  const auto width = static_cast<float>(p.width);
  const float gh_mean = team_sum<team>(gh_sum) / width, g_mean = has_mean ? team_sum<team>(g_sum) / width : 0;
  over_packs<size, team>(p.width, [&](int i) {
    const Elements gradient = dy[i], value = x[i], scale = weight[i];
    Elements total = before[i];
    for (int k = 0; k < size; ++k) {
      const float d = widened(gradient.of[k]), h = (widened(value.of[k]) - mean) * rstd;
      const float own = (d * widened(scale.of[k]) - h * gh_mean - g_mean) * rstd;
      total.of[k] = narrowed<T>(widened(total.of[k]) + own);
      sums.at(0, k, i) += d * h;
      if (has_mean) sums.at(1, k, i) += d;
    }
    reinterpret_cast<Elements*>(p.dx + begin)[i] = total;
  });
}

// A team per norm_kernel_rows rows.
template <class T, int size, Team team>
__global__ void __launch_bounds__(most_threads(team)) norm_backward_kernel(Backward<T> p) {
  DYNAMIC_SHARED(float, shared);
  ColumnSums<size, team> sums{{}, shared, p.width};
  const int kinds = p.mean != nullptr ? 2 : 1;
  const TeamRow<T, size, team> weight(p.weight, p.width);
  const std::int64_t pieces = (p.rows + norm_kernel_rows - 1) / norm_kernel_rows;
  for (std::int64_t piece = first_team<team>(); piece < pieces; piece += team_count<team>()) {
    sums.over_all(kinds, [](float& sum, int) { sum = 0; });
    const std::int64_t first = piece * norm_kernel_rows, end = min(first + norm_kernel_rows, p.rows);
    for (std::int64_t row = first; row < end; ++row) backward_row(p, row, weight, sums);
    float* const partials = p.partials + piece * kinds * p.width;
    sums.over_all(kinds, [&](float& sum, int column) { partials[column] = sum; });
  }
}

__global__ void __launch_bounds__(piece_threads) norm_sums_kernel(Sums p) {
  const int column = own_column();
  const bool is_column = column < (p.dbias != nullptr ? 2 * p.width : p.width);
  sum_pieces(p.partials, p.pieces, p.stride, is_column, [&](float sum) {
    float* const gradient = column < p.width ? p.dweight + column : p.dbias + (column - p.width);
    *gradient = p.adds != 0 ? *gradient + sum : sum;
  });
}

constexpr std::int64_t most_blocks = std::int64_t{1} << 20;

unsigned grid_of(std::int64_t blocks) { return static_cast<unsigned>(std::min(blocks, most_blocks)); }

Team team_for(int packs) {
  if (packs <= 32) return Team::warp;
  return packs <= most_threads(Team::block) ? Team::block : Team::loop;
}

// For `rows` rows, or pieces of them, of so many packs.
LaunchShape shape_for(std::int64_t rows, int packs) {
  const Team team = team_for(packs);
  if (team == Team::warp)
    return {grid_of((rows + warps_of_block - 1) / warps_of_block), static_cast<unsigned>(most_threads(team))};
  const int whole_warps = (packs + 31) / 32 * 32;
  return {grid_of(rows), static_cast<unsigned>(std::min(whole_warps, most_threads(team)))};
}

template <class T, int size>
auto forward_kernel(int packs) {
  const Team team = team_for(packs);
  if (team == Team::warp) return norm_forward_kernel<T, size, Team::warp>;
  return team == Team::block ? norm_forward_kernel<T, size, Team::block> : norm_forward_kernel<T, size, Team::loop>;
}

template <class T, int size>
auto backward_kernel(int packs) {
  const Team team = team_for(packs);
  if (team == Team::warp) return norm_backward_kernel<T, size, Team::warp>;
  return team == Team::block ? norm_backward_kernel<T, size, Team::block> : norm_backward_kernel<T, size, Team::loop>;
}

template <class T, int size>
void start_forward(const Forward<T>& p, void* stream) {
  const auto width = static_cast<std::size_t>(p.width), rows = static_cast<std::size_t>(p.rows), count = rows * width;
  const int packs = p.width / size;
  launch(stream, "norm_forward", forward_kernel<T, size>(packs), shape_for(p.rows, packs), p,
         {reads(p.x, count), updates(p.residual, count), reads(p.weight, width), reads(p.bias, width),
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
  if (a.width % pack_size<T> == 0 && are_aligned_to_packs(a.x, a.residual, a.weight, a.bias, a.y)) {
    start_forward<T, pack_size<T>>(p, stream);
  } else {
    start_forward<T, 1>(p, stream);
  }
}

template <class T, int size>
void start_backward(const Backward<T>& p, void* stream) {
  const auto width = static_cast<std::size_t>(p.width), rows = static_cast<std::size_t>(p.rows), count = rows * width;
  const bool has_mean = p.mean != nullptr;
  const int packs = p.width / size;
  LaunchShape shape = shape_for((p.rows + norm_kernel_rows - 1) / norm_kernel_rows, packs);
  if (team_for(packs) == Team::loop) shape.shared_bytes = (has_mean ? 2 : 1) * width * sizeof(float);
  launch(
      stream, "norm_backward", backward_kernel<T, size>(packs), shape, p,
      {reads(p.dy, count), reads(p.x, count), reads(p.mean, rows), reads(p.rstd, rows), reads(p.weight, width),
       updates(p.dx, count), writes(p.partials, static_cast<std::size_t>(norm_partials(p.rows, p.width, has_mean)))});
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
  if (a.width % pack_size<T> == 0 && are_aligned_to_packs(a.dy, a.x, a.weight, a.dx)) {
    start_backward<T, pack_size<T>>(p, stream);
  } else {
    start_backward<T, 1>(p, stream);
  }
}

void add_sums(const NormBackwardArguments& a, void* stream) {
  const std::int64_t pieces = (a.rows + norm_kernel_rows - 1) / norm_kernel_rows;
  const std::int64_t all = norm_partials(a.rows, a.width, a.mean != nullptr);
  const int columns = a.dbias != nullptr ? 2 * a.width : a.width;
  const auto width = static_cast<std::size_t>(a.width);
  const auto sums = a.adds ? updates<float> : writes<float>;
  launch(stream, "norm_sums", norm_sums_kernel, shape_of_columns(columns),
         Sums{a.partials, a.dweight, a.dbias, pieces, all / pieces, a.width, a.adds ? 1 : 0},
         {reads(a.partials, static_cast<std::size_t>(all)), sums(a.dweight, width), sums(a.dbias, width)});
}

void forward(const NormForwardArguments& a, void* stream) {
  if (a.rows == 0 || a.width == 0) return;
  with_type_of(a.element, [&]<class T> { forward_of<T>(a, stream); });
}

void backward(const NormBackwardArguments& a, void* stream) {
  if (a.rows == 0 || a.width == 0) return;
  with_type_of(a.element, [&]<class T> { backward_of<T>(a, stream); });
  add_sums(a, stream);
}

}  // namespace

const NormKernels cuda_norm_kernels{forward, backward};

}  // namespace llmtrain::kernels
