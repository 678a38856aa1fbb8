// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn_matmul.h"

#include <array>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

namespace llmtrain::kernels {
namespace {

using dnnl::memory;

memory::data_type data_type(MatmulElement element) {
  return element == MatmulElement::fp32 ? memory::data_type::f32 : memory::data_type::bf16;
}

struct Engine {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

// One per thread: ranks that share a process must not share a stream or a primitive's scratchpad.
Engine& this_engine() {
  thread_local Engine engine;
  return engine;
}

struct Primitive {
  memory::desc left, right, bias, destination;
  dnnl::matmul matmul;
};

Primitive make_primitive(const MatmulProblem& problem) {
  const auto operand = data_type(problem.operand_element);
  Primitive result;
  result.left = {{problem.m, problem.k}, operand, memory::dims{problem.left.row_stride, problem.left.column_stride}};
  result.right = {{problem.k, problem.n}, operand, memory::dims{problem.right.row_stride, problem.right.column_stride}};
  result.destination = {
      {problem.m, problem.n}, data_type(problem.destination_element), memory::dims{problem.n, std::int64_t{1}}};
  dnnl::primitive_attr attributes;
  if (problem.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  auto make_description = [&] {
    if (problem.bias == nullptr) return dnnl::matmul::desc(result.left, result.right, result.destination);
    result.bias = {{1, problem.n}, operand, memory::format_tag::ab};
    return dnnl::matmul::desc(result.left, result.right, result.bias, result.destination);
  };
  result.matmul = dnnl::matmul({make_description(), attributes, this_engine().engine});
  return result;
}

// Building a primitive costs more than running a small one, and a training step asks for the same few again and again.
const Primitive& cached_primitive(const MatmulProblem& problem) {
  using Key = std::array<std::int64_t, 11>;
  thread_local std::map<Key, Primitive> cache;
  const Key key{problem.m,
                problem.n,
                problem.k,
                static_cast<std::int64_t>(problem.operand_element),
                static_cast<std::int64_t>(problem.destination_element),
                problem.accumulate ? 1 : 0,
                problem.left.row_stride,
                problem.left.column_stride,
                problem.right.row_stride,
                problem.right.column_stride,
                problem.bias == nullptr ? 0 : 1};
  const auto found = cache.find(key);
  return found != cache.end() ? found->second : cache.emplace(key, make_primitive(problem)).first->second;
}

memory bind(const memory::desc& description, const void* data) {
  return memory(description, this_engine().engine, const_cast<void*>(data));
}

}  // namespace

void onednn_matmul(const MatmulProblem& problem) {
  const Primitive& primitive = cached_primitive(problem);
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, bind(primitive.left, problem.left.data)},
                                            {DNNL_ARG_WEIGHTS, bind(primitive.right, problem.right.data)},
                                            {DNNL_ARG_DST, bind(primitive.destination, problem.destination)}};
  if (problem.bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, bind(primitive.bias, problem.bias));
  primitive.matmul.execute(this_engine().stream, arguments);
  this_engine().stream.wait();
}

}  // namespace llmtrain::kernels
