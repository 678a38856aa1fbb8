// SPDX-License-Identifier: Apache-2.0
// A profiler as CUDA knows them: a library that CUDA_INJECTION64_PATH names, and that it loads when a process begins to
// use a GPU. When the process ends, writes what its kernels, copies and fills took, by name, to the file that
// KERNEL_TIMES_OUTPUT names, as JSON: seconds between the first and the last, seconds in which the GPU was busy, the
// seconds and number of each, and in which gaps, between what, the GPU waited.
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

struct Span {
  std::uint64_t begin, end;  // nanoseconds
  const std::string* name;   // a key of the totals
};

struct Times {
  std::mutex mutex;  // CUPTI fills buffers in a thread of its own
  std::map<std::string, Total> totals;
  std::vector<Span> spans;

  void add(const std::string& name, std::uint64_t begin, std::uint64_t end) {
    const auto place = totals.try_emplace(name).first;
    place->second.nanoseconds += end - begin;
    ++place->second.count;
    if (end > begin) spans.push_back({begin, end, &place->first});
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

double seconds_of(std::uint64_t nanoseconds) { return 1e-9 * static_cast<double>(nanoseconds); }

// [{name, seconds, count}], the longest first.
template <class Totals, class Describe>
nlohmann::json described(const Totals& totals, Describe describe) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [key, total] : totals) {
    nlohmann::json one = describe(key);
    one["seconds"] = seconds_of(total.nanoseconds);
    one["count"] = total.count;
    all.push_back(std::move(one));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a["seconds"] > b["seconds"]; });
  return all;
}

// The length of the union of spans in order, of which those of several streams overlap, and what lies between them.
struct Busy {
  std::uint64_t nanoseconds = 0;
  std::map<std::pair<const std::string*, const std::string*>, Total> gaps;  // by what ends and what begins
};

Busy busy_of(const std::vector<Span>& spans) {
  Busy busy;
  std::uint64_t done = spans.front().begin;
  const std::string* last = nullptr;
  for (const Span& span : spans) {
    if (span.begin > done) {
      Total& gap = busy.gaps[{last, span.name}];
      gap.nanoseconds += span.begin - done;
      ++gap.count;
    }
    if (span.end <= done) continue;
    busy.nanoseconds += span.end - std::max(span.begin, done);
    done = span.end;
    last = span.name;
  }
  return busy;
}

nlohmann::json describe(Times& all) {
  std::sort(all.spans.begin(), all.spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  std::uint64_t last = 0;
  for (const Span& span : all.spans) last = std::max(last, span.end);
  const Busy busy = busy_of(all.spans);
  const auto named = [](const std::string& name) { return nlohmann::json{{"name", readable(name)}}; };
  const auto between = [](const auto& ends) {
    return nlohmann::json{{"after", readable(*ends.first)}, {"before", readable(*ends.second)}};
  };
  return {{"span_seconds", seconds_of(last - all.spans.front().begin)},
          {"busy_seconds", seconds_of(busy.nanoseconds)},
          {"kernels", described(all.totals, named)},
          {"gaps", described(busy.gaps, between)}};
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
