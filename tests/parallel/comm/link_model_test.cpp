// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/local/link_model.h"

#include <catch2/catch.hpp>

#include "parallel/comm/local/local_world.h"
#include "tests/parallel/comm/numbers.h"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::vector<Request> requests(Collective collective, std::int64_t bytes) {
  std::vector<Request> result(4);
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i].collective = collective;
    result[i].count = bytes;
    result[i].group = Group(std::make_shared<Group::State>("world", std::vector<int>{0, 1, 2, 3}, static_cast<int>(i)));
  }
  return result;
}

}  // namespace

TEST_CASE("messages are sent one after the other and arrive after the delay") {
  LinkModel links(2, {.delay_seconds = 0.5, .bytes_per_second = 100});
  const Clock::time_point start = Clock::now();
  const LinkModel::Passage first = links.message(0, 1, 100, start);
  const LinkModel::Passage second = links.message(0, 1, 200, start);
  const LinkModel::Passage back = links.message(1, 0, 100, start);
  CHECK(seconds(start, first.left) == Approx(1));
  CHECK(seconds(start, first.arrived) == Approx(1.5));
  CHECK(seconds(start, second.left) == Approx(3));
  CHECK(seconds(start, second.arrived) == Approx(3.5));
  CHECK(seconds(start, back.arrived) == Approx(1.5));
}

TEST_CASE("collectives take the hops and bytes of a ring, and occupy the links of all members") {
  LinkModel links(4, {.delay_seconds = 0.5, .bytes_per_second = 100});
  const Clock::time_point start = Clock::now();
  // 2 · 3/4 of 200 bytes at 100 bytes per second, and 6 hops.
  CHECK(seconds(start, links.collective(requests(Collective::all_reduce, 200), start)) == Approx(3 + 3));
  // The links are free once the bytes are sent; each sends 3 parts of 100.
  CHECK(seconds(start, links.collective(requests(Collective::all_gather, 100), start)) == Approx(3 + 3 + 1.5));
  LinkModel delay_only(4, {.delay_seconds = 0.5});
  CHECK(seconds(start, delay_only.collective(requests(Collective::reduce_scatter, 100), start)) == Approx(1.5));
  CHECK(seconds(start, delay_only.collective(requests(Collective::barrier, 0), start)) == Approx(1));
}

TEST_CASE("each message occupies its sender's link, and all is faster between ranks of a node") {
  const LocalOptions::Links options{
      .delay_seconds = 0.5, .bytes_per_second = 100, .message_seconds = 0.25, .node_ranks = 2, .node_speedup = 4};
  const Clock::time_point start = Clock::now();
  CHECK(seconds(start, LinkModel(4, options).message(0, 2, 100, start).left) == Approx(1.25));
  CHECK(seconds(start, LinkModel(4, options).message(0, 2, 100, start).arrived) == Approx(1.75));
  CHECK(seconds(start, LinkModel(4, options).message(0, 1, 100, start).arrived) == Approx(1.75 / 4));
  // Four ranks of two nodes: three hops, each a message of 100 bytes.
  CHECK(seconds(start, LinkModel(4, options).collective(requests(Collective::all_gather, 100), start)) ==
        Approx(3 * 1.75));
  // To each rank its message, of which the first two ranks' are within a node; nothing costs nothing.
  std::vector<Request> all = requests(Collective::all_to_all, 0);
  for (Request& request : all) request.input_counts = request.output_counts = {100, 100, 100, 0};
  CHECK(seconds(start, LinkModel(4, options).collective(all, start)) == Approx(2 * 1.25 + 1.25 / 4 + 0.5));
  for (Request& request : all) request.input_counts = request.output_counts = {0, 0, 0, 0};
  all[0].input_counts = {100, 100, 0, 100};
  CHECK(seconds(start, LinkModel(4, options).collective(all, start)) == Approx(1.25 / 4 + 1.25 + 0.5));
}

TEST_CASE("an emulated network delays the receiver, and work hides the delay") {
  LocalOptions options;
  options.links.delay_seconds = 0.02;
  LocalWorld world(2, options);
  // The time of both ranks: a receiver that starts late waits less by the same amount.
  const Clock::time_point start = Clock::now();
  world.run([start](Communicator& communicator) {
    Values data(ElementType::float32, 16);
    if (communicator.rank() == 0) {
      communicator.send(communicator.world(), Purpose::pipeline, data.array(), 1).wait();
    } else {
      communicator.receive(communicator.world(), Purpose::pipeline, data.array(), 0).wait();
    }
    const Clock::time_point middle = Clock::now();
    communicator.all_reduce(communicator.world(), Purpose::control, data.array()).wait();
    if (communicator.rank() == 1 && seconds(start, middle) < 0.019)
      throw std::runtime_error("the message came too soon");
    if (seconds(middle, Clock::now()) < 0.039) throw std::runtime_error("the sum came too soon");
  });
}
