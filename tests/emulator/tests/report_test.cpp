// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/emulator/device/memory/access_log.h"
#include "tests/emulator/tests/child_program.h"
#include "tests/emulator/tests/floats.h"
#include "tests/support/temporary_directory.h"

using namespace emulated;
using namespace emulated::test;
using nlohmann::json;

namespace {

// The report that a process writes which runs the program and exits.
json report_of(const std::function<void()>& program) {
  const llmtrain::test::TemporaryDirectory directory;
  const Outcome outcome = outcome_of([&] {
    settings().report_file = (directory.path() / "report").string();
    program();
    std::exit(0);
  });
  INFO(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  const auto first = std::filesystem::directory_iterator(directory.path());
  std::ifstream file(first->path());
  return json::parse(file);
}

}  // namespace

TEST_CASE("A process reports what its devices did") {
  const json report = report_of([] {
    const Floats x = device_floats(1000);
    set(default_stream(0), x, 1);
    first_of(default_stream(0), x);
    release(x.data);
    destroy(new_stream(1));
    count("communicators", "created", 2);
  });
  const json& device = report.at("devices").at(0);
  CHECK(device.at("launches") == 2);
  CHECK(device.at("allocations") == 1);
  CHECK(device.at("growths") == 1);
  CHECK(device.at("synchronisations") == 1);
  CHECK(device.at("waits") == json{{"a test", 1}});
  CHECK(device.at("peak") == 4096);
  CHECK(device.at("allocated") == 0);
  CHECK(device.at("races") == 0);
  CHECK(device.at("overruns") == 0);
  CHECK(device.at("leaks").at("blocks") == 0);
  CHECK(report.at("devices").at(1).at("streams") == json{{"created", 1}, {"destroyed", 1}});
  CHECK(report.at("pinned").at("leaks").at("blocks") == 0);
  CHECK(report.at("communicators") == json{{"created", 2}});
  CHECK(report.at("busy_streams") == 0);
}

TEST_CASE("Memory that is not released is reported with its last use") {
  const json report = report_of([] {
    const Floats x = device_floats(1000), host = pinned_floats(10);
    set(default_stream(0), x, 1);
    copy(default_stream(0), {x.data, 10}, host);
    release(device_floats(5).data);
  });
  const json leaks = report.at("devices").at(0).at("leaks");
  CHECK(leaks.at("blocks") == 1);
  CHECK(leaks.at("bytes") == 4096);
  CHECK(leaks.at("list") == json::array({{{"bytes", 4000}, {"allocation", 1}, {"last_use", "copy"}}}));
  CHECK(report.at("pinned").at("leaks").at("blocks") == 1);
}

TEST_CASE("Races and overruns that were logged are reported") {
  const json report = report_of([] {
    settings().throws = false;
    const Floats x = device_floats(128), y = device_floats(10, 1);
    enqueue(new_stream(0), {"a kernel that races", {x.read()}, [] {}});
    launch<Floats>(default_stream(1), "a careless kernel", {y.written()}, y,
                   [](const Floats& p) { p.data[p.count] = 1; });
  });
  CHECK(report.at("devices").at(0).at("races") == 1);
  CHECK(report.at("devices").at(1).at("overruns") == 1);
  CHECK_THAT(report.at("devices").at(1).at("reports").at(0).get<std::string>(),
             Catch::Contains("a careless kernel writes 0 bytes behind the end of 40 bytes"));
}

TEST_CASE("A block's accesses that the host has waited for are forgotten") {
  AccessLog log;
  Clock clock, host;
  const std::string name = "read";
  const char memory[4096] = {};
  for (int step = 0; step < 1000; ++step) {
    const std::uint64_t time = clock.advance(1);
    log.add({memory + step, memory + step + 1, 1, time, false, &name}, clock, host);
    host.join(clock);
  }
  CHECK(log.size() <= 64);
}
