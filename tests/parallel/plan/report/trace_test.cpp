// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/trace.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "core/json/json_text.h"
#include "tests/parallel/plan/report/sample_plan.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

using test::looped;

Json parsed(const std::filesystem::path& file) {
  const JsonText text = parse_json(read_file(file));
  REQUIRE(text.error.empty());
  return text.value;
}

std::vector<Json> events(const Plan& plan, const std::string& phase) {
  const test::TemporaryDirectory folder;
  write_trace(folder.path() / "trace.json", plan);
  const Json trace = parsed(folder.path() / "trace.json");
  std::vector<Json> found;
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("ph") == phase) found.push_back(event);
  return found;
}

TEST_CASE("one record is one complete event with the fields of its instruction") {
  const test::TemporaryDirectory folder;
  TraceWriter writer(folder.path() / "trace.json", "a \"title\"");
  writer.name_rank(5, "rank 5 on </node>");
  writer.write({.rank = 5,
                .instruction = {.operation = Operation::forward, .stage = 2, .micro = 7},
                .start_seconds = 1.5,
                .end_seconds = 1.500250125});
  writer.close();
  const Json trace = parsed(folder.path() / "trace.json");
  CHECK(trace.at("otherData").at("title") == "a \"title\"");
  const Json& list = trace.at("traceEvents");
  REQUIRE(list.size() == 11);
  CHECK(list[0].at("args").at("name") == "rank 5 on </node>");
  CHECK(list[2].at("name") == "thread_name");
  CHECK(list[10] == Json::parse(R"({"ph":"X","pid":5,"tid":0,"ts":1500000.0,"dur":250.125,"cat":"compute",
      "name":"Forward stage 2 micro 7",
      "args":{"stage":2,"micro":7,"step":0,"instruction":"Forward stage 2 micro 7"}})"));
}

TEST_CASE("every instruction that takes time is in the trace once, on its rank") {
  const Plan plan = test::sample_plan(looped);
  std::multiset<std::pair<int, std::string>> expected;
  for (std::size_t rank = 0; rank < plan.layout->schedule().ranks.size(); ++rank)
    for (const Instruction& instruction : plan.layout->schedule().ranks[rank].instructions)
      if (instruction.operation != Operation::free_weights)
        expected.emplace(static_cast<int>(rank), to_text(instruction));
  std::multiset<std::pair<int, std::string>> found;
  for (const Json& event : events(plan, "X"))
    found.emplace(event.at("pid").get<int>(), event.at("args").at("instruction").get<std::string>());
  CHECK((found == expected));
}

TEST_CASE("events of one thread do not overlap, to the nanosecond") {
  std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> threads;
  const auto nanoseconds = [](const Json& number) { return std::llround(number.get<double>() * 1000); };
  for (const Json& event : events(test::sample_plan(looped), "X")) {
    const auto start = nanoseconds(event.at("ts"));
    threads[{event.at("pid"), event.at("tid")}].emplace_back(start, start + nanoseconds(event.at("dur")));
  }
  CHECK(threads.size() == 16);
  for (auto& [thread, intervals] : threads) {
    std::sort(intervals.begin(), intervals.end());
    for (std::size_t i = 1; i < intervals.size(); ++i) CHECK(intervals[i - 1].second <= intervals[i].first);
  }
}

TEST_CASE("each arrow leads from a send to its receive on another rank") {
  const Plan plan = test::sample_plan(looped);
  std::map<std::string, Json> starts;
  for (const Json& start : events(plan, "s")) CHECK(starts.emplace(start.at("id"), start).second);
  const auto ends = events(plan, "f");
  // Activations and gradients of 8 micro-batches over 7 boundaries between stages.
  CHECK(starts.size() == 2 * 7 * 8);
  CHECK(ends.size() == starts.size());
  for (const Json& end : ends) {
    REQUIRE(starts.count(end.at("id")) == 1);
    const Json& start = starts.at(end.at("id"));
    CHECK(start.at("ts") < end.at("ts"));
    CHECK(start.at("pid") != end.at("pid"));
    CHECK(end.at("bp") == "e");
    CHECK(start.at("name") == end.at("name"));
  }
}

TEST_CASE("counters show the memory of each rank at each change") {
  const Plan plan = test::sample_plan(looped);
  const auto counters = events(plan, "C");
  std::size_t expected = 0;
  for (const RankSimulation& rank : plan.simulation.ranks) expected += rank.memory.size();
  REQUIRE(counters.size() == expected);
  const MemorySample& first = plan.simulation.ranks[0].memory[0];
  CHECK(counters[0].at("pid") == 0);
  CHECK(counters[0].at("args").size() == memory_categories);
  CHECK(counters[0].at("args").at("master weights") == std::llround(first.bytes[MemoryCategory::master_weights]));
  CHECK(counters[0].at("args").at("framework") == std::llround(first.bytes[MemoryCategory::framework]));
}

TEST_CASE("arrows of different steps of a run are distinct") {
  const test::TemporaryDirectory folder;
  TraceWriter writer(folder.path() / "trace.json", "");
  const Instruction send{.operation = Operation::send_gradient, .stage = 1, .micro = 0, .peer = 0};
  for (int step = 0; step < 3; ++step) {
    const double start = step;
    writer.write({.step = step, .instruction = send, .start_seconds = start, .end_seconds = start + 0.5});
  }
  writer.close();
  const Json trace = parsed(folder.path() / "trace.json");
  std::set<std::string> ids;
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("ph") == "s") ids.insert(event.at("id"));
  CHECK(ids.size() == 3);
}

TEST_CASE("a trace replaces a link of its name, and appears whole") {
  const test::TemporaryDirectory folder;
  const auto other = folder.write("other", "of somebody else"), file = folder.path() / "trace.json";
  std::filesystem::create_symlink(other, file);
  std::filesystem::create_symlink(other, folder.path() / "trace.json.tmp");
  write_trace(file, test::sample_plan(looped));
  CHECK(read_file(other) == "of somebody else");
  CHECK(parsed(file).contains("traceEvents"));
  CHECK(test::names_in(folder.path()) == std::set<std::string>{"other", "trace.json"});
}

TEST_CASE("a trace without events is valid") {
  const test::TemporaryDirectory folder;
  TraceWriter(folder.path() / "trace.json", "").close();
  CHECK(parsed(folder.path() / "trace.json").at("traceEvents").empty());
}

}  // namespace
}  // namespace llmtrain
