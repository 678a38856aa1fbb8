// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "tests/emulator/tests/child_program.h"
#include "tests/emulator/tests/floats.h"

using namespace emulated;
using namespace emulated::test;

namespace {

constexpr std::size_t elements = 1 << 12;

}  // namespace

TEST_CASE("A stream that waits for an event sees what was written before it") {
  must_be_right([] {
    Stream *const one = new_stream(0), *const two = new_stream(0);
    const Floats x = device_floats(elements), host = pinned_floats(elements);
    order(default_stream(0), one);
    set(one, x, 1);
    for (int i = 0; i < 20; ++i) add(one, x, 1);
    order(one, two);
    copy(two, x, host);
    synchronize(two, "a test");
    expect(host.data[elements - 1] == 21, "the number that was copied");
  });
}

TEST_CASE("Orders pass on from event to event, and through the host") {
  must_be_right([] {
    Stream *const one = new_stream(0), *const two = new_stream(0), *const three = new_stream(0);
    const Floats x = device_floats(elements);
    order(default_stream(0), one);
    set(one, x, 1);
    order(one, two);
    order(two, three);
    add(three, x, 1);
    synchronize(three, "a test");
    add(two, x, 1);
    expect(first_of(two, x) == 3, "the sum");
  });
}

TEST_CASE("Two streams may read at once, and write beside each other") {
  must_be_right([] {
    Stream *const one = new_stream(0), *const two = new_stream(0);
    const Floats x = device_floats(elements), a = pinned_floats(elements), b = pinned_floats(elements);
    set(default_stream(0), x, 5);
    order(default_stream(0), one);
    order(default_stream(0), two);
    copy(one, x, a);
    copy(two, x, b);
    order(one, two);
    order(two, one);
    add(one, {x.data, elements / 2}, 1);
    add(two, {x.data + elements / 2, elements / 2}, 1);
  });
}

TEST_CASE("A missing event is found, whatever the streams' threads do") {
  SECTION("written, then read") {
    must_be_caught("race: copy reads", [] {
      const Floats x = device_floats(elements), host = pinned_floats(elements);
      copy(new_stream(0), x, host);
    });
  }
  SECTION("read, then written") {
    must_be_caught("race: set writes", [] {
      Stream *const one = new_stream(0), *const two = new_stream(0);
      const Floats x = device_floats(elements), host = pinned_floats(elements);
      synchronize_device(0, "a test");
      copy(one, x, host);
      set(two, x, 1);
    });
  }
  SECTION("written twice") {
    must_be_caught("race: set writes", [] {
      Stream *const one = new_stream(0), *const two = new_stream(0);
      const Floats x = device_floats(elements);
      synchronize_device(0, "a test");
      set(one, x, 1);
      set(two, {x.data + elements - 1, 1}, 1);
    });
  }
  SECTION("an event that was recorded too early") {
    must_be_caught("race: copy reads", [] {
      Stream* const side = new_stream(0);
      const Floats x = device_floats(elements), host = pinned_floats(elements);
      order(default_stream(0), side);
      set(default_stream(0), x, 1);
      copy(side, x, host);
    });
  }
  SECTION("an event that is waited for in the wrong direction") {
    must_be_caught("race: copy reads", [] {
      Stream* const side = new_stream(0);
      const Floats x = device_floats(elements), host = pinned_floats(elements);
      set(default_stream(0), x, 1);
      order(side, default_stream(0));
      copy(side, x, host);
    });
  }
}

TEST_CASE("Races that are only logged are counted, and the program goes on") {
  must_be_right([] {
    settings().throws = false;
    const Floats x = device_floats(elements);
    enqueue(new_stream(0), {"a kernel that races", {x.read()}, [] {}});
    expect(counters(0).races == 1, "one race");
    expect(counters(0).reports.size() == 1, "one report");
  });
}

TEST_CASE("Copies between devices need events of both") {
  const auto program = [](bool with_events) {
    Stream *const here = default_stream(0), *const there = default_stream(1);
    const Floats x = device_floats(elements, 0), y = device_floats(elements, 1);
    set(here, x, 7);
    if (with_events) order(there, here);
    copy(here, x, y);
    if (with_events) order(here, there);
    expect(first_of(there, y) == 7, "the number that was copied");
  };
  must_be_right([=] { program(true); });
  must_be_caught("race: copy writes", [=] { program(false); });
}

TEST_CASE("An event of one device is not recorded on a stream of another") {
  must_be_right([] { Event(0).record(default_stream(0)); });
  must_be_caught("an event of device 0 is recorded on a stream of device 1",
                 [] { Event(0).record(default_stream(1)); });
}

TEST_CASE("An error of a stream is seen at a later call, and stays") {
  must_be_right([] {
    Stream* const stream = default_stream(0);
    bool has_run = false;
    enqueue(stream, {"broken", {}, [] { throw std::runtime_error("index out of range\nframe #0"); }});
    for (int attempt = 0; attempt < 2; ++attempt) {
      std::string text;
      try {
        synchronize(stream, "a test");
      } catch (const Fault& fault) {
        text = fault.what();
      }
      expect(text == "device error, seen late: index out of range", text);
    }
    try {
      enqueue(stream, {"later", {}, [&] { has_run = true; }});
    } catch (const Fault&) {
    }
    expect(!has_run, "nothing runs after an error");
  });
}

TEST_CASE("Waits of the host are counted by reason, and refused where they are forbidden") {
  must_be_right([] {
    synchronize(default_stream(0), "one");
    synchronize(default_stream(0), "two");
    synchronize(default_stream(0), "two");
    const Counters c = counters(0);
    expect(c.synchronisations == 3 && c.waits.at("one") == 1 && c.waits.at("two") == 2, "the counts");
  });
  must_be_caught("forbidden synchronisation: a loss", [] {
    const NoSynchronisation none;
    synchronize(default_stream(0), "a loss");
  });
}

TEST_CASE("A query that finds an event passed orders the host after that event alone") {
  must_be_right([] {
    Stream *const one = new_stream(0), *const two = new_stream(0);
    const Floats x = device_floats(elements);
    order(default_stream(0), one);
    set(one, x, 1);
    const MarkPointer mark = record(one);
    while (!query(mark)) {
    }
    set(two, x, 2);
    while (!query(two)) {
    }
    set(one, x, 3);
  });
  must_be_caught("race: set writes", [] {
    Stream *const one = new_stream(0), *const two = new_stream(0);
    const Floats x = device_floats(elements);
    synchronize_device(0, "a test");
    const MarkPointer before = record(one);
    set(one, x, 1);
    while (!query(before)) {
    }
    set(two, x, 2);
  });
}

TEST_CASE("A pool of streams gives the same ones again after thirty-two") {
  must_be_right([] {
    Stream* const first = pool_stream(0);
    for (int i = 0; i < 31; ++i) expect(pool_stream(0) != first, "other streams");
    expect(pool_stream(0) == first, "the first again");
  });
}

TEST_CASE("There is no device beyond the last") {
  must_be_caught("there is no device 2", [] { exchange_device(2); });
}
