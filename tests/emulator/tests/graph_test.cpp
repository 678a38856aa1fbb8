// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "tests/emulator/tests/child_program.h"
#include "tests/emulator/tests/floats.h"

using namespace emulated;
using namespace emulated::test;

TEST_CASE("A graph replays its work with the addresses and scalars that it was captured with") {
  must_be_right([] {
    Stream* const stream = default_stream(0);
    const Floats x = device_floats(10);
    set(stream, x, 0);
    Graph graph;
    graph.begin(stream);
    add(stream, x, 2);
    add(stream, x, 3);
    graph.end();
    expect(graph.size() == 2 && first_of(stream, x) == 0, "nothing has run");
    for (int i = 0; i < 3; ++i) graph.replay(stream);
    expect(first_of(stream, x) == 15, "the sum of three replays");
  });
}

TEST_CASE("Memory that is freed in a capture is the graph's until its end") {
  must_be_right([] {
    Stream* const stream = default_stream(0);
    {
      Graph graph;
      graph.begin(stream);
      const std::int64_t launches = counters(0).launches;
      const Floats x = device_floats(10);
      set(stream, x, 1);
      release(x.data);
      graph.end();
      expect(counters(0).launches == launches, "no launch");
      expect(device_floats(10).data != x.data, "another block");
      graph.replay(stream);
      synchronize(stream, "a test");
    }
    expect(counters(0).races == 0, "no race");
  });
}

TEST_CASE("The host may not wait in a capture, nor may memory run out") {
  must_be_caught("synchronisation while a graph is captured: a loss", [] {
    Graph graph;
    graph.begin(default_stream(0));
    synchronize(default_stream(0), "a loss");
  });
  must_be_caught("memory runs out while a graph is captured", [] {
    settings().memory = 1 << 20;
    release(allocate(0, 1 << 19));
    Graph graph;
    graph.begin(default_stream(0));
    allocate(0, 1 << 20);
  });
}

TEST_CASE("A stream is captured by one graph at a time") {
  must_be_caught("the stream is captured already", [] {
    Graph one, two;
    one.begin(default_stream(0));
    two.begin(default_stream(0));
  });
  must_be_caught("a capture ends that has not begun", [] { Graph().end(); });
}
