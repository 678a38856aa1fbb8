// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <thread>

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

TEST_CASE("Memory that is freed in a capture serves it again, and a graph beside it") {
  must_be_right([] {
    Stream* const stream = default_stream(0);
    Graph first;
    first.begin(stream);
    const Floats kept = device_floats(10), freed = device_floats(10);
    set(stream, kept, 1);
    set(stream, freed, 5);
    release(freed.data);
    expect(device_floats(10).data == freed.data, "the block that was freed");
    set(stream, freed, 2);
    release(freed.data);
    first.end();
    expect(device_floats(10).data != freed.data, "another block");
    Graph beside;
    beside.begin(stream, &first);
    const Floats mine = device_floats(10);
    expect(mine.data == freed.data, "the block that the first graph has left");
    add(stream, kept, 10);
    set(stream, mine, 3);
    release(mine.data);
    beside.end();
    const std::int64_t launches = counters(0).launches;
    for (int i = 0; i < 3; ++i) {
      first.replay(stream);
      beside.replay(stream);
    }
    expect(counters(0).launches == launches + 6, "a launch for each graph");
    expect(first_of(stream, kept) == 11, "what the last replays have written");
    release(kept.data);
  });
}

TEST_CASE("A graph's memory counts at its peak, and is the device's when its last graph has ended") {
  must_be_right([] {
    Stream* const stream = default_stream(0);
    {
      Graph one;
      one.begin(stream);
      release(device_floats(128).data);
      release(device_floats(128).data);
      one.end();
      expect(counters(0).allocated == 512 && counters(0).peak == 512, "one block");
      Graph two;
      two.begin(stream, &one);
      const Floats x = device_floats(128), y = device_floats(128);
      release(x.data);
      release(y.data);
      two.end();
      expect(counters(0).allocated == 1024, "two blocks");
      release(device_floats(128).data);
      expect(counters(0).allocated == 1024 && counters(0).peak == 1536, "a block that is no graph's");
    }
    expect(counters(0).allocated == 0 && counters(0).reserved == 1536, "nothing");
    const std::int64_t growths = counters(0).growths;
    device_floats(128);
    expect(counters(0).growths == growths, "a block of the cache");
    empty_cache(0);
    expect(counters(0).reserved == 512, "the block in use");
  });
}

TEST_CASE("A freed block of a graph is nobody else's") {
  must_be_caught("device memory that is not allocated", [] {
    Graph graph;
    graph.begin(default_stream(0));
    const Floats x = device_floats(10);
    release(x.data);
    graph.end();
    set(default_stream(0), x, 1);
  });
}

TEST_CASE("A replay needs the memory from outside of its graph") {
  must_be_caught("device memory that is not allocated", [] {
    Stream* const stream = default_stream(0);
    const Floats x = device_floats(10);
    Graph graph;
    graph.begin(stream);
    set(stream, x, 1);
    graph.end();
    graph.replay(stream);
    release(x.data);
    graph.replay(stream);
  });
}

TEST_CASE("A replay races with the work of other streams") {
  must_be_caught("race", [] {
    Stream* const stream = default_stream(0);
    Stream* const other = new_stream(0);
    const Floats x = device_floats(10);
    set(stream, x, 0);
    order(stream, other);
    Graph graph;
    graph.begin(stream);
    add(stream, x, 1);
    graph.end();
    graph.replay(stream);
    add(other, x, 1);
  });
}

TEST_CASE("A write beside a tensor is found at a replay") {
  must_be_caught("behind the end", [] {
    Stream* const stream = default_stream(0);
    Graph graph;
    graph.begin(stream);
    const Floats x = device_floats(10);
    enqueue(stream, {"an overrun", {x.written()}, [x] { static_cast<float*>(reachable(x.data))[10] = 1; }});
    graph.end();
    graph.replay(stream);
    synchronize(stream, "a test");
  });
}

TEST_CASE("A capture is of one stream, and of no work from outside") {
  must_be_caught("waits for an event from outside of the capture", [] {
    Stream* const stream = default_stream(0);
    const MarkPointer before = record(new_stream(0));
    Graph graph;
    graph.begin(stream);
    wait(stream, before);
  });
  must_be_caught("a stream waits for an event that is captured", [] {
    Stream* const stream = default_stream(0);
    Graph graph;
    graph.begin(stream);
    wait(new_stream(0), record(stream));
  });
  must_be_caught("a graph is launched whose capture has not ended", [] {
    Graph graph;
    graph.begin(default_stream(0));
    graph.replay(new_stream(0));
  });
}

TEST_CASE("The host may not wait in a capture, nor may memory run out") {
  must_be_caught("synchronisation while a graph is captured: a loss", [] {
    Graph graph;
    graph.begin(default_stream(0));
    synchronize(default_stream(0), "a loss");
  });
  must_be_caught("synchronisation while a graph is captured: the allocator", [] {
    Graph graph;
    graph.begin(default_stream(0));
    empty_cache(0);
  });
  must_be_caught("memory runs out while a graph is captured", [] {
    settings().memory = 1 << 20;
    release(allocate(0, 1 << 19));
    Graph graph;
    graph.begin(default_stream(0));
    allocate(0, 1 << 20);
  });
}

TEST_CASE("Other threads may wait while one captures") {
  must_be_right([] {
    Stream* const stream = new_stream(0);
    const Floats x = device_floats(10);
    Graph graph;
    graph.begin(default_stream(0));
    std::thread([&] { synchronize(stream, "another thread"); }).join();
    release(x.data);
    graph.end();
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
