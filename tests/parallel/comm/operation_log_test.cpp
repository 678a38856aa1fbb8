// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/operation.h"

#include <catch2/catch.hpp>

using namespace llmtrain;

namespace {

Request request(Collective collective, std::int64_t count) {
  Request result;
  result.collective = collective;
  result.purpose = Purpose::tensor_parallel;
  result.group = Group(std::make_shared<Group::State>("tensor", std::vector<int>{2, 3}, 1));
  result.type = ElementType::bfloat16;
  result.count = count;
  return result;
}

}  // namespace

TEST_CASE("calls, bytes and seconds are counted by purpose and collective") {
  OperationLog log;
  CHECK(log.counts().empty());
  const OperationLog::Entry first = log.start(request(Collective::all_reduce, 100));
  log.start(request(Collective::all_reduce, 50));
  log.start(request(Collective::all_gather, 10));
  log.finish(first, first.started + std::chrono::seconds(3));
  log.add_wait(first, 2);

  const std::vector<CommunicationCount> counts = log.counts();
  REQUIRE(counts.size() == 2);
  CHECK(counts[0].purpose == Purpose::tensor_parallel);
  CHECK(counts[0].collective == Collective::all_reduce);
  CHECK(counts[0].calls == 2);
  CHECK(counts[0].bytes == 300);  // 2 (2 − 1) / 2 of 150 elements of 2 bytes
  CHECK(counts[0].seconds == 3);
  CHECK(counts[0].waited_seconds == 2);
  CHECK(counts[1].collective == Collective::all_gather);
  CHECK(counts[1].bytes == 20);  // (2 − 1) / 2 of 20 elements of 2 bytes
  log.reset_counts();
  CHECK(log.counts().empty());
}

TEST_CASE("the last operations are kept, oldest first") {
  OperationLog log;
  CHECK(log.last_operation() == "none");
  std::vector<OperationLog::Entry> entries;
  for (int i = 1; i <= 20; ++i) entries.push_back(log.start(request(Collective::all_reduce, i)));
  log.finish(entries[0], entries[0].started);  // no longer kept: must not change the entry in its place
  log.finish(entries[18], entries[18].started);

  const std::vector<OperationRecord> last = log.last_operations();
  REQUIRE(last.size() == 16);
  for (std::size_t i = 0; i < last.size(); ++i) {
    CHECK(last[i].number == i + 5);
    CHECK((last[i].state == OperationRecord::State::done) == (i == 14));
  }
  CHECK(last.back().description == "all_reduce of 20 bf16 for tensor_parallel in group tensor [2 3]");
  CHECK(log.last_operation().find("all_reduce of 20 bf16 for tensor_parallel in group tensor [2 3], not done") == 0);
}

TEST_CASE("a rank's last operation names what the rank does") {
  OperationLog log;
  CHECK(log.activity().empty());
  log.set_activity(0, "");
  CHECK(log.last_operation() == "none");
  log.set_activity(3, "forward stage 1 micro 2");
  CHECK(log.step() == 3);
  CHECK(log.last_operation() == "none, in step 3, forward stage 1 micro 2");
  log.start(request(Collective::all_reduce, 20));
  CHECK_THAT(log.last_operation(), Catch::EndsWith(" ago, in step 3, forward stage 1 micro 2"));
}

TEST_CASE("the last operation that a rank took part in follows from the completed ones") {
  OperationLog log;
  CHECK(log.last_done_with(3) == "none");
  const auto finish = [&](const Request& request) {
    const OperationLog::Entry entry = log.start(request);
    log.finish(entry, entry.started);
  };
  finish(request(Collective::all_reduce, 1));
  Request send = request(Collective::send, 2);
  send.peer = 0;
  finish(send);
  log.start(request(Collective::all_reduce, 3));
  CHECK(log.last_done_with(2) == send.description());
  CHECK(log.last_done_with(3) == request(Collective::all_reduce, 1).description());
  CHECK(log.last_done_with(7) == "none");
}

TEST_CASE("a broadcast counts at its root, a message names its other side") {
  OperationLog log;
  Request broadcast = request(Collective::broadcast, 10);
  broadcast.peer = 0;
  log.start(broadcast);
  CHECK(log.counts().front().bytes == 0);
  broadcast.peer = 1;
  log.start(broadcast);
  CHECK(log.counts().front().bytes == 20);
  Request send = request(Collective::send, 8);
  send.peer = 0;
  CHECK(send.description() == "send of 8 bf16 to rank 2 for tensor_parallel in group tensor [2 3]");
}
