// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/profile/cluster_profile.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "parallel/plan/profile/gpu_profile.h"
#include "parallel/plan/profile/named_file.h"
#include "tests/support/source_folder.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

const std::filesystem::path shipped = test::source_folder() / "recipes/clusters";

nlohmann::ordered_json cpu_json() { return nlohmann::ordered_json::parse(read_file(shipped / "cpu.json")); }

std::string message_of(const nlohmann::ordered_json& json) {
  try {
    parse_profile(json.dump(), "p.json");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_recipe);
    return error.what();
  }
  return "";
}

TEST_CASE("every shipped profile is read, and written as it was read") {
  const std::vector<std::string> expected = {"a100-40gb",
                                             "a100-80gb",
                                             "a100-80gb-800gbps",
                                             "b200",
                                             "cpu",
                                             "h100-sxm-80gb",
                                             "h200",
                                             "v100-32gb",
                                             "b300",
                                             "gb200",
                                             "gb300",
                                             "l40s",
                                             "l4",
                                             "mi300x",
                                             "rtx-4090",
                                             "rtx-5090",
                                             "raspberry-pi-zero-2-w"};
  const std::vector<std::string> names = names_in(shipped);
  for (const std::string& name : expected) CHECK(std::count(names.begin(), names.end(), name) == 1);
  for (const std::string& name : names) {
    const ClusterProfile profile = load_profile(name, shipped);
    CHECK(profile.name == name);
    for (const char* section : {"device", "matrix", "attention", "memory", "host", "node", "network"}) {
      CHECK(profile.sources.contains(section));
    }
    CHECK(to_json(parse_profile(to_json(profile).dump(), name)) == to_json(profile));
  }
}

TEST_CASE("a GPU profile contains its vendor's figures") {
  const ClusterProfile a100 = load_profile("a100-80gb", shipped);
  CHECK(a100.device.peak_flops.bf16 == 312e12);
  CHECK(a100.node.devices == 8);
  CHECK(static_cast<double>(a100.network.adapters) * a100.network.adapter_bandwidth == Approx(200e9));
  const ClusterProfile slower = load_profile("a100-80gb-800gbps", shipped);
  CHECK(static_cast<double>(slower.network.adapters) * slower.network.adapter_bandwidth == Approx(100e9));
  CHECK(a100.node.all_reduce.size() == 7);
}

TEST_CASE("MFU divides by the peak of the compute type, FP8's at FP8 levels") {
  const ClusterProfile h100 = load_profile("h100-sxm-80gb", shipped);
  CHECK(peak_flops(h100, {DataType::bf16, DataType::fp32, Fp8Level::off}) == h100.device.peak_flops.bf16);
  CHECK(peak_flops(h100, {DataType::fp32, DataType::fp32, Fp8Level::off}) == h100.device.peak_flops.fp32);
  CHECK(peak_flops(h100, {DataType::bf16, DataType::fp32, Fp8Level::o2}) == h100.device.peak_flops.fp8);
  const ClusterProfile a100 = load_profile("a100-80gb", shipped);
  CHECK(peak_flops(a100, {DataType::bf16, DataType::fp32, Fp8Level::o2}) == a100.device.peak_flops.bf16);
}

TEST_CASE("MFU of FP4 products divides by their peak, where a device has them") {
  PrecisionRecipe precision{.compute = DataType::bf16, .fp8_level = Fp8Level::o0};
  precision.product_format = ProductFormat::nvfp4;
  // HGX B200 72, HGX B300 108, NVL72 720 and 1,080 PFLOP/s of dense FP4, in as many GPUs as they have.
  CHECK(peak_flops(load_profile("b200", shipped), precision) == Approx(72e15 / 8));
  CHECK(peak_flops(load_profile("b300", shipped), precision) == Approx(108e15 / 8));
  CHECK(peak_flops(load_profile("gb200", shipped), precision) == Approx(720e15 / 72));
  CHECK(peak_flops(load_profile("gb300", shipped), precision) == Approx(1080e15 / 72));
  const ClusterProfile h100 = load_profile("h100-sxm-80gb", shipped);
  CHECK(peak_flops(h100, precision) == h100.device.peak_flops.bf16);
  CHECK_FALSE(to_json(h100)["device"]["peak_flops"].contains("fp4"));
  CHECK(parse_profile(to_json(load_profile("b200", shipped)).dump(), "b200").device.peak_flops.fp4 == 9e15);
}

TEST_CASE("errors of a profile are reported at once with file, pointer and rule") {
  auto json = cpu_json();
  CHECK(message_of(json).empty());
  json["memory"]["fracton"] = 1;
  json["matrix"]["peak_fraction"] = 1.5;
  json["node"]["devices"] = 2.5;
  json["device"].erase("memory_bandwidth");
  const std::string message = message_of(json);
  CHECK_THAT(message, Catch::Contains("p.json: /memory/fracton: is not a key") && Catch::Contains("\"fraction\""));
  CHECK_THAT(message, Catch::Contains("p.json: /matrix/peak_fraction: 1.5: must be a number from"));
  CHECK_THAT(message, Catch::Contains("p.json: /node/devices: 2.5: must be a whole number"));
  CHECK_THAT(message, Catch::Contains("p.json: /device/memory_bandwidth: is missing"));
}

TEST_CASE("an invalid table, section or price is reported") {
  auto json = cpu_json();
  json["node"]["all_reduce"] = {{{"ranks", 2}, {"points", {{1024, 1e-5}, {512, 2e-5}}}}};
  CHECK_THAT(message_of(json),
             Catch::Contains("/node/all_reduce/0/points: [512,") && Catch::Contains("bytes must increase"));
  json["node"]["all_reduce"] = {{{"ranks", 1}, {"points", {{1024, 1e-5}}}}};
  CHECK_THAT(message_of(json), Catch::Contains("/node/all_reduce/0: must be"));
  json = cpu_json();
  json["network"] = 3;
  json["price_per_device_hour"] = "2";
  json["sources"]["host"] = 1;
  const std::string message = message_of(json);
  CHECK_THAT(message, Catch::Contains("/network: 3: must be an object"));
  CHECK_THAT(message, Catch::Contains("/price_per_device_hour: ") && Catch::Contains("must be a number"));
  CHECK_THAT(message, Catch::Contains("/sources: 1: must be an object of strings"));
}

TEST_CASE("a profile need not say what a long run meets") {
  auto json = cpu_json();
  json.erase("operation");
  CHECK(message_of(json).empty());
  json["operation"] = {
      {"watts_per_device", 0}, {"restart_seconds", nullptr}, {"device_hours_between_failures", nullptr}};
  const std::string message = message_of(json);
  CHECK_THAT(message, Catch::Contains("/operation/watts_per_device: 0: must be a number from 1"));
  CHECK_THAT(message, Catch::Contains("/operation/checkpoint_bandwidth: is missing"));
  const ClusterProfile h100 = load_profile("h100-sxm-80gb", shipped);
  // Llama 3: 419 unexpected interruptions of 16,384 devices in 54 days.
  CHECK(*h100.operation.device_hours_between_failures == Approx(54 * 24 * 16384.0 / 419).epsilon(1e-3));
}

TEST_CASE("text that is not a profile is reported") {
  CHECK_THROWS_WITH(parse_profile("{", "p.json"), Catch::StartsWith("p.json: "));
  CHECK_THROWS_WITH(parse_profile("[]", "p.json"), Catch::Contains("must be an object"));
  CHECK_THROWS_WITH(parse_profile(R"({"name": "a", "name": "b"})", "p.json"), Catch::Contains("/name: is given twice"));
}

TEST_CASE("a profile is found by name, by file and as this machine's own") {
  const test::TemporaryDirectory folder;
  const auto write = [&](const std::string& name) {
    auto json = cpu_json();
    json["name"] = name;
    std::ofstream(folder.path() / (name + ".json")) << json;
  };
  write("cpu");
  CHECK(load_profile("cpu", folder.path()).name == "cpu");
  CHECK(load_profile("auto", folder.path()).name == "cpu");
  write("local");
  CHECK(load_profile("auto", folder.path()).name == "local");
  CHECK(load_profile((folder.path() / "local.json").string(), "/nowhere").name == "local");
  CHECK_THROWS_WITH(load_profile("cpv", folder.path()), Catch::Contains("did you mean \"cpu\"?"));
  CHECK_THROWS_WITH(load_profile("h100", "/nowhere"), Catch::Contains("available: none"));
  CHECK_THROWS_AS(load_profile("/nowhere/x.json", folder.path()), Error);
}

TEST_CASE("a profile that is based on another one states what differs, key by key, and so does the next") {
  const test::TemporaryDirectory folder;
  const auto write = [&](const std::string& name, const nlohmann::ordered_json& json) {
    std::ofstream(folder.path() / (name + ".json")) << json;
  };
  write("cpu", cpu_json());
  const ClusterProfile base = load_profile("cpu", folder.path());
  write("wide", {{"name", "wide"},
                 {"based_on", "cpu"},
                 {"device", {{"memory_bytes", 1e9}, {"peak_flops", {{"bf16", 7e12}}}}},
                 {"sources", {{"device", "stated"}}}});
  const ClusterProfile wide = load_profile("wide", folder.path());
  CHECK(wide.name == "wide");
  CHECK(wide.device.memory_bytes == 1e9);
  CHECK(wide.device.peak_flops.bf16 == 7e12);
  CHECK(wide.device.peak_flops.fp32 == base.device.peak_flops.fp32);
  CHECK(wide.device.memory_bandwidth == base.device.memory_bandwidth);
  CHECK(wide.sources.at("device") == "stated");
  CHECK(wide.sources.at("matrix") == base.sources.at("matrix"));
  write("wider", {{"name", "wider"}, {"based_on", (folder.path() / "wide.json").string()}, {"compute_slowdown", 0.5}});
  CHECK(load_profile("wider", folder.path()).device.memory_bytes == 1e9);
  CHECK(load_profile("wider", folder.path()).compute_slowdown == 0.5);
  // Other peaks are of another device, unless what it reaches of them is its own.
  CHECK(base.borrowed_from.empty());
  CHECK(wide.borrowed_from == "cpu");
  CHECK(load_profile("wider", folder.path()).borrowed_from == "cpu");
  write("faster", {{"name", "faster"}, {"based_on", "cpu"}, {"compute_slowdown", 0.5}});
  CHECK(load_profile("faster", folder.path()).borrowed_from.empty());
  write("own", {{"name", "own"},
                {"based_on", "cpu"},
                {"device", {{"peak_flops", {{"bf16", 7e12}}}}},
                {"matrix", cpu_json()["matrix"]}});
  CHECK(load_profile("own", folder.path()).borrowed_from.empty());

  write("round", {{"name", "round"}, {"based_on", "circle"}});
  write("circle", {{"name", "circle"}, {"based_on", "round"}});
  CHECK_THROWS_WITH(load_profile("round", folder.path()),
                    Catch::Contains("circle.json: /based_on: \"round\" is based on this one"));
  write("lost", {{"name", "lost"}, {"based_on", "cpv"}});
  CHECK_THROWS_WITH(load_profile("lost", folder.path()), Catch::Contains("/based_on") && Catch::Contains("\"cpu\"?"));
  write("number", {{"name", "number"}, {"based_on", 3}});
  CHECK_THROWS_WITH(load_profile("number", folder.path()), Catch::Contains("/based_on: must be a profile"));
  auto broken = cpu_json();
  broken["node"]["devices"] = 0;
  write("broken", broken);
  write("above", {{"name", "above"}, {"based_on", "broken"}, {"compute_slowdown", 2}});
  CHECK_THROWS_WITH(load_profile("above", folder.path()), Catch::Contains("broken.json: /node/devices"));
  write("wrong", {{"name", "wrong"}, {"based_on", "cpu"}, {"compute_slowdown", 2}});
  CHECK_THROWS_WITH(load_profile("wrong", folder.path()), Catch::Contains("wrong.json: /compute_slowdown"));
}

TEST_CASE("plans with borrowed rates state the error of the worst program, whatever their own has") {
  const std::filesystem::path scores = shipped.parent_path() / "scores";
  const auto stated = [&](const char* name) {
    ClusterProfile profile = load_profile(name, shipped);
    profile.program.name = "megatron-core";
    return accuracy_of(profile, scores);
  };
  const Accuracy measured = stated("h100-sxm-80gb"), borrowed = stated("mi300x");
  CHECK(measured.step->borrowed_from.empty());
  CHECK(borrowed.step->borrowed_from == "h100-sxm-80gb");
  CHECK(borrowed.step->error > measured.step->error);
  CHECK(borrowed.step->error >= measured.step_of_all->error);
  CHECK(borrowed.memory->error == measured.memory->error);
}

TEST_CASE("a processor's memory is hard where its profile says so, and then plans of it have an error") {
  const std::filesystem::path scores = shipped.parent_path() / "scores";
  const ClusterProfile soft = load_profile("cpu", shipped), hard = load_profile("raspberry-pi-zero-2-w", shipped);
  CHECK_FALSE(soft.device.has_hard_memory);
  CHECK_FALSE(to_json(soft)["device"].contains("hard_memory"));
  CHECK_FALSE(accuracy_of(soft, scores).memory);
  CHECK(hard.device.has_hard_memory);
  CHECK(to_json(hard)["device"]["hard_memory"] == true);
  // The largest error of a row that no constant was taken from in docs/performance.md#memory.
  CHECK(accuracy_of(hard, scores).memory->error == 0.05);
  CHECK_FALSE(accuracy_of(hard, scores).step);
  nlohmann::ordered_json json = cpu_json();
  json["device"]["hard_memory"] = 1;
  CHECK_THAT(message_of(json), Catch::Contains("/device/hard_memory: 1: must be true or false"));
}

TEST_CASE("the GPUs of a rack are one node, and borrow the operators that were measured on another device") {
  for (const char* name : {"gb200", "gb300"}) {
    const ClusterProfile rack = load_profile(name, shipped);
    CHECK(rack.node.devices == 72);
    // 130 TB/s of a rack, both directions.
    CHECK(2 * 72 * rack.node.link_bandwidth == Approx(130e12).epsilon(0.01));
    CHECK(rack.device.peak_flops.bf16 == 2500e12);
    REQUIRE(rack.operators);
    CHECK(rack.operators->measured_on == "b200");
  }
  CHECK(load_profile("b300", shipped).device.memory_bytes == 270e9);
  CHECK(load_profile("rtx-4090", shipped).operators->measured_on == "h100-sxm-80gb");
}

TEST_CASE("a GPU has the profile of its kind by its driver's name for it") {
  CHECK(gpu_profile("NVIDIA H100 80GB HBM3") == "h100-sxm-80gb");
  CHECK(gpu_profile("NVIDIA H200") == "h200");
  CHECK(gpu_profile("NVIDIA H200, 140 GiB, cuda:0") == "h200");
  CHECK(gpu_profile("NVIDIA B200") == "b200");
  CHECK(gpu_profile("NVIDIA GB200") == "gb200");
  CHECK(gpu_profile("NVIDIA B300 SXM6 AC") == "b300");
  CHECK(gpu_profile("NVIDIA L40S") == "l40s");
  CHECK(gpu_profile("NVIDIA L4") == "l4");
  CHECK(gpu_profile("NVIDIA GeForce RTX 4090") == "rtx-4090");
  CHECK(gpu_profile("NVIDIA GeForce RTX 5090") == "rtx-5090");
  CHECK(gpu_profile("NVIDIA A100-SXM4-80GB") == "a100-80gb");
  CHECK(gpu_profile("NVIDIA A100-PCIE-40GB") == "a100-40gb");
  CHECK(gpu_profile("Tesla V100-SXM2-16GB") == "v100-32gb");
  // Others whose names hold these: a Grace Hopper's processor is no H200.
  for (const char* other : {"", "NVIDIA GH200 480GB", "NVIDIA L40", "NVIDIA GeForce RTX 3090", "AMD Instinct MI250X"})
    CHECK(gpu_profile(other).empty());
  for (const char* model : {"H100", "H200", "B200", "A100", "A100 40GB", "V100", "GB300", "MI300X", "RTX 5090"})
    CHECK(load_profile(std::string(gpu_profile(model)), shipped).device.kind == DeviceKind::cuda);
  CHECK(load_profile(std::string(assumed_gpu_profile), shipped).device.kind == DeviceKind::cuda);
}

}  // namespace
}  // namespace llmtrain
