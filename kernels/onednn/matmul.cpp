// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/matmul_library.h"

#include <omp.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>

namespace llmtrain::kernels {
namespace {

using dnnl::memory;

memory::data_type data_type(MatmulElement element) {
  return element == MatmulElement::fp32 ? memory::data_type::f32 : memory::data_type::bf16;
}

// oneDNN caches built primitives together with their engine, so all threads share one engine.
const dnnl::engine& the_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& this_stream() {
  // One per thread: attention multiplies on many threads at once.
  thread_local dnnl::stream stream(the_engine());
  return stream;
}

// A product of one shape, with memory objects that are bound to new data at every call.
struct Product {
  dnnl::matmul primitive;
  memory left, right, bias, destination, scratchpad;
  std::size_t scratchpad_bytes;
};

memory unbound(const memory::desc& description) { return memory(description, the_engine(), nullptr); }

// Working memory for the thread's next product, as large as any has needed. oneDNN would keep memory of its own for
// every product that it has built, up to megabytes for each size that growing sequences pass through.
void* this_scratchpad(std::size_t bytes) {
  constexpr std::size_t page = 4096;
  struct Free {
    void operator()(void* taken) const { std::free(taken); }
  };
  thread_local std::unique_ptr<void, Free> block;
  thread_local std::size_t size = 0;
  if (bytes > size) {
    block.reset();
    size = 0;
    block.reset(std::aligned_alloc(page, (bytes + page - 1) / page * page));
    if (block == nullptr) throw std::bad_alloc();
    size = bytes;
  }
  return block.get();
}

struct Descriptions {
  memory::desc left, right, bias, destination;
};

Descriptions describe(const MatmulProblem& problem, std::int64_t m, std::int64_t k) {
  const auto operand = data_type(problem.operand_element);
  return {.left = {{m, k}, operand, memory::dims{problem.left.row_stride, problem.left.column_stride}},
          .right = {{k, problem.n}, operand, memory::dims{problem.right.row_stride, problem.right.column_stride}},
          // One row, which oneDNN broadcasts over the rows of the result.
          .bias = {{1, problem.n}, operand, memory::format_tag::ab},
          .destination = {{m, problem.n},
                          data_type(problem.destination_element),
                          memory::dims{problem.destination_row_stride, std::int64_t{1}}}};
}

Product make_product(const MatmulProblem& problem) {
  constexpr std::int64_t at_run_time = DNNL_RUNTIME_DIM_VAL;
  const auto [left, right, bias, destination] =
      describe(problem, problem.varying == VaryingSize::m ? at_run_time : problem.m,
               problem.varying == VaryingSize::k ? at_run_time : problem.k);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  // Adding happens in the product's own write to memory, without a second pass.
  if (problem.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  const auto description = problem.bias == nullptr ? dnnl::matmul::desc(left, right, destination)
                                                   : dnnl::matmul::desc(left, right, bias, destination);
  const Descriptions now = describe(problem, problem.m, problem.k);
  const dnnl::matmul::primitive_desc chosen(description, attributes, the_engine());
  return {dnnl::matmul(chosen),
          unbound(now.left),
          unbound(now.right),
          unbound(now.bias),
          unbound(now.destination),
          unbound(chosen.scratchpad_desc()),
          chosen.scratchpad_desc().get_size()};
}

// Gives the memory objects this call's sizes, which they have from the call before.
void resize(Product& product, const MatmulProblem& problem) {
  const Descriptions now = describe(problem, problem.m, problem.k);
  product.left = unbound(now.left);
  product.right = unbound(now.right);
  // Not the bias, whose length n never varies.
  product.destination = unbound(now.destination);
}

// Building a primitive costs more than running a small one, and a training step repeats the same few. A primitive
// divides its work among as many threads as there were when it was built, so that number is part of the key.
Product& cached_product(const MatmulProblem& problem) {
  using Key = std::array<std::int64_t, 14>;
  // Per thread, since a call binds its data to the cached memory objects.
  thread_local std::map<Key, Product> cache;
  const Key key{problem.varying == VaryingSize::m ? 0 : problem.m,
                problem.n,
                problem.varying == VaryingSize::k ? 0 : problem.k,
                static_cast<std::int64_t>(problem.varying),
                static_cast<std::int64_t>(problem.operand_element),
                static_cast<std::int64_t>(problem.destination_element),
                problem.accumulate ? 1 : 0,
                problem.left.row_stride,
                problem.left.column_stride,
                problem.right.row_stride,
                problem.right.column_stride,
                problem.bias == nullptr ? 0 : 1,
                problem.destination_row_stride,
                omp_in_parallel() ? 1 : omp_get_max_threads()};
  const auto found = cache.find(key);
  return found != cache.end() ? found->second : cache.emplace(key, make_product(problem)).first->second;
}

dnnl_exec_arg_t bind(int argument, memory& memory, const void* data) {
  memory.set_data_handle(const_cast<void*>(data), this_stream());
  return {argument, memory.get()};
}

void run(const MatmulProblem& problem) {
  Product& product = cached_product(problem);
  if (problem.varying != VaryingSize::none) resize(product, problem);
  // The C call takes a plain array; the C++ one would build a hash map for every small product in attention.
  std::array<dnnl_exec_arg_t, 5> arguments{bind(DNNL_ARG_SRC, product.left, problem.left.data),
                                           bind(DNNL_ARG_WEIGHTS, product.right, problem.right.data),
                                           bind(DNNL_ARG_DST, product.destination, problem.destination)};
  int count = 3;
  const auto add = [&](dnnl_exec_arg_t argument) { arguments[static_cast<std::size_t>(count++)] = argument; };
  if (problem.bias != nullptr) add(bind(DNNL_ARG_BIAS, product.bias, problem.bias));
  if (product.scratchpad_bytes > 0)
    add(bind(DNNL_ARG_SCRATCHPAD, product.scratchpad, this_scratchpad(product.scratchpad_bytes)));
  dnnl::error::wrap_c_api(dnnl_primitive_execute(product.primitive.get(), this_stream().get(), count, arguments.data()),
                          "oneDNN could not run a matrix product");
  // The caller may reuse its operands as soon as the call returns.
  this_stream().wait();
}

}  // namespace
}  // namespace llmtrain::kernels

const char* llmtrain_onednn_matmul(const llmtrain::kernels::MatmulProblem* problem) {
  try {
    llmtrain::kernels::run(*problem);
    return nullptr;
  } catch (const std::exception& failure) {
    // No exception may leave through the C interface.
    thread_local std::string message;
    message = failure.what();
    return message.c_str();
  }
}
