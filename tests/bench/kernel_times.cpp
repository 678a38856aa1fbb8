// SPDX-License-Identifier: Apache-2.0
// A profiler as CUDA knows them: a library that CUDA_INJECTION64_PATH names, and that it loads when a process begins to
// use a GPU. When the process ends, writes what its kernels, copies and fills took, by name, to the file that
// KERNEL_TIMES_OUTPUT names, as JSON: seconds between the first and the last, seconds in which the GPU was busy, and
// the seconds and number of each.
#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t buffer_bytes = std::size_t{8} << 20, buffer_alignment = 8;

struct Total {
  std::uint64_t nanoseconds = 0;
  std::int64_t count = 0;
};

struct Times {
  std::mutex mutex;  // CUPTI fills buffers in a thread of its own
  std::map<std::string, Total> totals;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;  // nanoseconds from begin to end

  void add(const std::string& name, std::uint64_t begin, std::uint64_t end) {
    Total& total = totals[name];
    total.nanoseconds += end - begin;
    ++total.count;
    spans.emplace_back(begin, end);
  }
};

// Never destroyed: CUPTI may deliver buffers after static objects have ended.
Times& times() {
  static auto* const all = new Times;
  return *all;
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(buffer_alignment, buffer_bytes));
  *size = buffer_bytes;
  *most_records = 0;  // as many as fit
}

void add_record(const CUpti_Activity* record) {
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    times().add(kernel->name, kernel->start, kernel->end);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
    times().add("copy of kind " + std::to_string(copy->copyKind), copy->start, copy->end);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto* fill = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
    times().add("fill", fill->start, fill->end);
  }
}

void CUPTIAPI take_buffer(CUcontext /*context*/, std::uint32_t /*stream*/, std::uint8_t* buffer, std::size_t /*size*/,
                          std::size_t valid_bytes) {
  const std::lock_guard lock(times().mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) add_record(record);
  std::free(buffer);
}

std::string readable(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> found(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                          &std::free);
  return status == 0 ? found.get() : name;
}

// The length of the union of all spans, as kernels of several streams overlap.
std::uint64_t busy_nanoseconds(std::vector<std::pair<std::uint64_t, std::uint64_t>> spans) {
  std::sort(spans.begin(), spans.end());
  std::uint64_t busy = 0, done = 0;
  for (const auto& [begin, end] : spans) {
    if (end <= done) continue;
    busy += end - std::max(begin, done);
    done = end;
  }
  return busy;
}

nlohmann::json describe(const Times& all) {
  std::uint64_t first = all.spans.front().first, last = 0;
  for (const auto& [begin, end] : all.spans) {
    first = std::min(first, begin);
    last = std::max(last, end);
  }
  nlohmann::json kernels = nlohmann::json::array();
  for (const auto& [name, total] : all.totals)
    kernels.push_back(
        {{"name", readable(name)}, {"seconds", 1e-9 * static_cast<double>(total.nanoseconds)}, {"count", total.count}});
  std::sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) { return a["seconds"] > b["seconds"]; });
  return {{"span_seconds", 1e-9 * static_cast<double>(last - first)},
          {"busy_seconds", 1e-9 * static_cast<double>(busy_nanoseconds(all.spans))},
          {"kernels", kernels}};
}

void write_times() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::lock_guard lock(times().mutex);
  const char* path = std::getenv("KERNEL_TIMES_OUTPUT");
  if (path != nullptr && !times().spans.empty()) std::ofstream(path) << describe(times()).dump(1) << '\n';
}

}  // namespace

// What CUDA calls after loading the library; another value than 1 means that it could not begin.
extern "C" int InitializeInjection() {
  if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS) return 0;
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    if (cuptiActivityEnable(kind) != CUPTI_SUCCESS) return 0;
  std::atexit(write_times);
  return 1;
}
