// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/fp8/scaled_adamw_kernels.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/cuda/device/ascending.h"
#include "kernels/cuda/device/fp8_span.h"
#include "kernels/cuda/device/launch.h"

namespace llmtrain::kernels {
namespace {

constexpr int threads = fp8_threads;
// A block takes two portions, for which its threads compare what they have found once; more blocks than these would not
// run at once.
constexpr std::int64_t portions_of_block = 2, most_blocks = 2048;

// Gradient is std::uint8_t (E4M3) or float, and so is M, the first moment's type; V is __half or float.
template <class Gradient, class M, class V>
struct Arrays {
  __half* weights;
  M* m;
  V* v;
  const Gradient* gradients;
  const float *weights_scale, *m_scale, *v_scale, *gradients_scale;
  float* numbers;  // [3]: magnitudes that a search is to exceed, or scales of a step
  std::int64_t n;
  float decay;
  std::int32_t is_packed;  // with the decay it fills 8 bytes: parameters are to have no gaps
};

// Where a tensor's part of the work ends, which is dealt out to blocks in portions of as many spans as they have
// threads.
template <class Tensor, int tensors>
struct List {
  static constexpr int most = tensors;
  AdamwConstants step;
  std::int64_t count;
  std::int64_t ends[tensors];  // portions of a tensor and of those before
  Tensor of[tensors];
};

// What a kernel's parameters hold: 4 KiB on every GPU.
template <class Gradient, class M, class V>
using Tensors = List<Arrays<Gradient, M, V>, 40>;
template <class Gradient, class M, class V>
struct RandomTensors : List<Arrays<Gradient, M, V>, 29> {
  StochasticRounding rounding[29];
};
static_assert(sizeof(Tensors<float, float, float>) <= 4096 && sizeof(RandomTensors<float, float, float>) <= 4096);

struct Element {
  float weight, m, v;
};

// `gradient` without the clipping coefficient.
__device__ __forceinline__ Element stepped(const Element& before, float gradient, float decay,
                                           const AdamwConstants& c) {
  // Rounded by itself, as on a processor, and not with the difference below.
  const float g = __fmul_rn(gradient, c.gradient_scale);
  // As PyTorch's lerp rounds.
  const float m = fmaf(g - before.m, c.one_minus_beta1, before.m);
  const float v = fmaf(g * g, c.one_minus_beta2, before.v * c.beta2);
  const float denominator = sqrtf(v) / c.root_of_correction + c.eps;
  return {fmaf(before.weight, decay, -(c.step_size * m / denominator)), m, v};
}

__device__ __forceinline__ float number(float x) { return x; }
__device__ __forceinline__ float number(__half x) { return widened(x); }
__device__ __forceinline__ float number(std::uint8_t code) { return widened_pair<Fp8Format::e4m3>(code).x; }

__device__ __forceinline__ void store(float& place, float value) { place = value; }
__device__ __forceinline__ void store(std::uint8_t& place, float value) {
  place = static_cast<std::uint8_t>(fp8_pair<Fp8Format::e4m3>(value, 0));
}
// Rounded to nearest, but to the least number instead of 0: a first moment over a second one that has been rounded away
// would be divided by eps alone.
__device__ __forceinline__ void store(__half& place, float value) {
  const __half rounded = narrowed<__half>(value);
  place = value > 0 && number(rounded) == 0 ? __half(__half_raw{1}) : rounded;
}

// A span of each array.
template <class Gradient, class M, class V>
struct Spans {
  Span<__half> weights;
  Span<M> m;
  Span<V> v;
  Span<Gradient> gradients;

  __device__ __forceinline__ void load(const Arrays<Gradient, M, V>& p, std::int64_t first, int count) {
    weights.load(p.weights + first, count, p.is_packed != 0);
    m.load(p.m + first, count, p.is_packed != 0);
    v.load(p.v + first, count, p.is_packed != 0);
    gradients.load(p.gradients + first, count, p.is_packed != 0);
  }
};

// Reciprocals of the scales, which are powers of two.
struct Units {
  float weights, m, v, gradients;
};

template <class Gradient, class M, class V>
__device__ __forceinline__ Units units_of(const Arrays<Gradient, M, V>& p) {
  return {1 / *p.weights_scale, 1 / *p.m_scale, 1 / *p.v_scale, 1 / *p.gradients_scale};
}

template <class Gradient, class M, class V>
__device__ __forceinline__ Element after(Spans<Gradient, M, V>& of, int i, const Units& units, float decay,
                                         const AdamwConstants& c) {
  const Element before{number(of.weights[i]) * units.weights, number(of.m[i]) * units.m, number(of.v[i]) * units.v};
  return stepped(before, number(of.gradients[i]) * units.gradients, decay, c);
}

// Calls work(first element, elements) for this thread's span of a portion of a tensor of n elements, where it has one.
template <class Work>
__device__ __forceinline__ void over_portion(std::int64_t portion, std::int64_t n, Work work) {
  const std::int64_t first = (portion * threads + threadIdx.x) * span;
  if (first < n) work(first, static_cast<int>(min(n - first, std::int64_t{span})));
}

// Calls work(tensor, portion of it) for this block's portions.
template <class List, class Work>
__device__ __forceinline__ void over_portions(const List& p, Work work) {
  const std::int64_t all = p.ends[p.count - 1];
  for (std::int64_t i = blockIdx.x; i < all; i += gridDim.x) {
    const std::int64_t tensor = count_until(p.ends, p.count, i);
    work(tensor, tensor == 0 ? i : i - p.ends[tensor - 1]);
  }
}

struct Magnitudes {
  unsigned weights = 0, m = 0, v = 0;
};

// Bits of magnitudes order as they do, and those of a NaN are the largest: the same in any order of blocks. All threads
// of the block must call it.
__device__ __forceinline__ void note(float* numbers, const Magnitudes& found) {
  const unsigned weights = block_largest<threads>(found.weights), m = block_largest<threads>(found.m),
                 v = block_largest<threads>(found.v);
  if (threadIdx.x != 0) return;
  auto* const bits = reinterpret_cast<unsigned*>(numbers);
  atomicMax(bits, weights);
  atomicMax(bits + 1, m);
  atomicMax(bits + 2, v);
}

template <class Gradient, class M, class V>
__global__ void __launch_bounds__(threads) scaled_adamw_largest_kernel(Tensors<Gradient, M, V> p) {
  Magnitudes most;
  std::int64_t last = -1;
  over_portions(p, [&](std::int64_t tensor, std::int64_t portion) {
    if (last != tensor && last >= 0) {
      note(p.of[last].numbers, most);
      most = {};
    }
    last = tensor;
    const auto& own = p.of[tensor];
    over_portion(portion, own.n, [&](std::int64_t first, int count) {
      const Units units = units_of(own);
      Spans<Gradient, M, V> of;
      of.load(own, first, count);
#pragma unroll
      for (int i = 0; i < span; ++i) {
        const Element element = after(of, i, units, own.decay, p.step);
        if (i >= count) continue;
        most.weights = max(most.weights, magnitude_bits(element.weight));
        most.m = max(most.m, magnitude_bits(element.m));
        most.v = max(most.v, magnitude_bits(element.v));
      }
    });
  });
  if (last >= 0) note(p.of[last].numbers, most);
}

// The random words of elements one after the other, from the one on with which it is made.
class RandomWords {
 public:
  __device__ RandomWords(const StochasticRounding& of, std::int64_t i) : rounding_(of), i_(i) { find(); }

  __device__ __forceinline__ uint2 next() {
    if (left_ == 0) find();
    const bool is_odd = index_ % 2 != 0;
    if (!is_odd || !has_words_) fill();
    ++index_;
    ++i_;
    --left_;
    return is_odd ? make_uint2(words_[2], words_[3]) : make_uint2(words_[0], words_[1]);
  }

 private:
  __device__ __forceinline__ void find() {
    const RunPart part = run_part(rounding_, i_, span);
    index_ = part.index;
    left_ = part.left;
    has_words_ = false;
  }
  __device__ __forceinline__ void fill() {
    const auto counter = static_cast<std::uint64_t>(index_ / 2);
    words_[0] = static_cast<std::uint32_t>(counter);
    words_[1] = static_cast<std::uint32_t>(counter >> 32);
    words_[2] = words_[3] = 0;
    philox_in_place(rounding_.key, words_);
    has_words_ = true;
  }

  const StochasticRounding& rounding_;
  std::int64_t i_, index_ = 0, left_ = 0;
  std::uint32_t words_[4] = {};
  bool has_words_ = false;
};

__device__ __forceinline__ float at_random(const float& /*place*/, float value, uint2 /*words*/) { return value; }
__device__ __forceinline__ float at_random(const std::uint8_t& /*place*/, float m, uint2 words) {
  return rounded_at_random<E4m3Format>(m, wide_threshold(words.y));
}
__device__ __forceinline__ float at_random(const __half& /*place*/, float v, uint2 words) {
  return second_moment_at_random(v, high_threshold(words.x));
}

struct NoWords {};

// Those of a tensor, for kernels that round at random.
template <bool is_random, class List>
__device__ __forceinline__ auto words_from(const List& p, std::int64_t tensor, std::int64_t first) {
  if constexpr (is_random) {
    return RandomWords(p.rounding[tensor], first);
  } else {
    return NoWords();
  }
}

template <bool is_random, class Gradient, class M, class V>
using StepTensors = std::conditional_t<is_random, RandomTensors<Gradient, M, V>, Tensors<Gradient, M, V>>;

template <bool is_random, class Gradient, class M, class V>
__global__ void __launch_bounds__(threads) scaled_adamw_step_kernel(StepTensors<is_random, Gradient, M, V> p) {
  over_portions(p, [&](std::int64_t tensor, std::int64_t portion) {
    const auto& own = p.of[tensor];
    over_portion(portion, own.n, [&](std::int64_t first, int count) {
      const Units units = units_of(own);
      const float weights_scale = own.numbers[0], m_scale = own.numbers[1], v_scale = own.numbers[2];
      Spans<Gradient, M, V> of;
      of.load(own, first, count);
      auto random = words_from<is_random>(p, tensor, first);
#pragma unroll
      for (int i = 0; i < span; ++i) {
        const Element element = after(of, i, units, own.decay, p.step);
        float weight = element.weight * weights_scale, m = element.m * m_scale, v = element.v * v_scale;
        if constexpr (is_random) {
          const uint2 words = random.next();
          weight = rounded_at_random<Fp16Format>(weight, low_threshold(words.x));
          m = at_random(of.m[i], m, words);
          v = at_random(of.v[i], v, words);
        }
        of.weights[i] = narrowed<__half>(weight);
        store(of.m[i], m);
        store(of.v[i], v);
      }
      of.weights.store(own.weights + first, count, own.is_packed != 0);
      of.m.store(own.m + first, count, own.is_packed != 0);
      of.v.store(own.v + first, count, own.is_packed != 0);
    });
  });
}

template <class Gradient, class M, class V>
Arrays<Gradient, M, V> arrays_of(const ScaledAdamwOperands& a) {
  Arrays<Gradient, M, V> p{};
  p.weights = static_cast<__half*>(a.weights.payload);
  p.m = static_cast<M*>(a.m.payload);
  p.v = static_cast<V*>(a.v.payload);
  p.gradients = static_cast<const Gradient*>(a.gradients.payload);
  p.weights_scale = a.weights.scale;
  p.m_scale = a.m.scale;
  p.v_scale = a.v.scale;
  p.gradients_scale = a.gradients.scale;
  p.numbers = a.numbers;
  p.n = a.n;
  p.decay = a.decay;
  p.is_packed = are_packed(1, a.n, p.weights, p.m, p.v, p.gradients) ? 1 : 0;
  return p;
}

template <class Gradient, class M, class V>
void keep_rounding(Tensors<Gradient, M, V>& /*p*/, std::int64_t /*i*/, const ScaledAdamwOperands& /*tensor*/) {}
template <class Gradient, class M, class V>
void keep_rounding(RandomTensors<Gradient, M, V>& p, std::int64_t i, const ScaledAdamwOperands& tensor) {
  p.rounding[i] = *tensor.rounding;
}

// Launches a kernel over the tensors that are taken, as many at a time as its parameters hold. note_memory(tensor,
// arrays, memory) adds what it reads and writes of one.
template <class Parameters, class Gradient, class M, class V, class Takes, class Uses>
void start(const ScaledAdamwArguments& a, const char* name, void (*kernel)(Parameters), Takes takes, Uses note_memory,
           void* stream) {
  Parameters p{};
  std::vector<MemoryUse> memory;
  p.step = a.step;
  const auto start_list = [&] {
    if (p.count == 0) return;
    const std::int64_t portions = p.ends[p.count - 1];
    const auto blocks =
        static_cast<unsigned>(std::min((portions + portions_of_block - 1) / portions_of_block, most_blocks));
    launch(stream, name, kernel, {blocks, static_cast<unsigned>(threads)}, p, std::span<const MemoryUse>(memory));
    memory.clear();
    p.count = 0;
  };
  for (std::int64_t i = 0; i < a.count; ++i) {
    const ScaledAdamwOperands& tensor = a.tensors[i];
    if (tensor.n == 0 || !takes(tensor)) continue;
    const auto own = arrays_of<Gradient, M, V>(tensor);
    const std::int64_t portions = (own.n + threads * span - 1) / (threads * span);
    p.of[p.count] = own;
    p.ends[p.count] = portions + (p.count > 0 ? p.ends[p.count - 1] : 0);
    keep_rounding(p, p.count, tensor);
    note_memory(own, memory);
    if (++p.count == Parameters::most) start_list();
  }
  start_list();
}

template <class Own>
void note_reads(const Own& own, std::vector<MemoryUse>& memory) {
  memory.insert(memory.end(), {reads(own.gradients, size_of(own.n)), reads(own.weights_scale, 1), reads(own.m_scale, 1),
                               reads(own.v_scale, 1), reads(own.gradients_scale, 1)});
}

template <class Gradient, class M, class V, class Takes>
void start_largest(const ScaledAdamwArguments& a, Takes takes, void* stream) {
  const auto note_memory = [](const Arrays<Gradient, M, V>& own, std::vector<MemoryUse>& memory) {
    const std::size_t n = size_of(own.n);
    note_reads(own, memory);
    memory.insert(memory.end(), {reads(own.weights, n), reads(own.m, n), reads(own.v, n), updates(own.numbers, 3)});
  };
  start<Tensors<Gradient, M, V>, Gradient, M, V>(a, "scaled_adamw_largest", scaled_adamw_largest_kernel<Gradient, M, V>,
                                                 takes, note_memory, stream);
}

template <bool is_random, class Gradient, class M, class V, class Takes>
void start_step(const ScaledAdamwArguments& a, Takes takes, void* stream) {
  const auto note_memory = [](const Arrays<Gradient, M, V>& own, std::vector<MemoryUse>& memory) {
    const std::size_t n = size_of(own.n);
    note_reads(own, memory);
    memory.insert(memory.end(), {updates(own.weights, n), updates(own.m, n), updates(own.v, n),
                                 reads(static_cast<const float*>(own.numbers), 3)});
  };
  start<StepTensors<is_random, Gradient, M, V>, Gradient, M, V>(
      a, "scaled_adamw", scaled_adamw_step_kernel<is_random, Gradient, M, V>,
      [takes](const ScaledAdamwOperands& tensor) { return takes(tensor) && (tensor.rounding != nullptr) == is_random; },
      note_memory, stream);
}

// Calls work.template operator()<Gradient, M, V>(takes) for each of the types that arrays may have, of which
// takes(tensor) says whether a tensor has them.
template <class Work>
void with_types(Work work) {
  const auto have = [](bool has_small_moments, bool has_wide_gradients) {
    return [=](const ScaledAdamwOperands& tensor) {
      return tensor.has_small_moments == has_small_moments && tensor.has_wide_gradients == has_wide_gradients;
    };
  };
  work.template operator()<float, std::uint8_t, __half>(have(true, true));
  work.template operator()<std::uint8_t, std::uint8_t, __half>(have(true, false));
  work.template operator()<float, float, float>(have(false, true));
  work.template operator()<std::uint8_t, float, float>(have(false, false));
}

void largest(const ScaledAdamwArguments& a, void* stream) {
  with_types([&]<class Gradient, class M, class V>(auto takes) { start_largest<Gradient, M, V>(a, takes, stream); });
}

void step(const ScaledAdamwArguments& a, void* stream) {
  with_types([&]<class Gradient, class M, class V>(auto takes) {
    start_step<false, Gradient, M, V>(a, takes, stream);
    start_step<true, Gradient, M, V>(a, takes, stream);
  });
}

}  // namespace

const ScaledAdamwDeviceKernels cuda_scaled_adamw_kernels{largest, step};

}  // namespace llmtrain::kernels
