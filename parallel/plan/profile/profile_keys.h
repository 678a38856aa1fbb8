// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/profile/cluster_profile.h"

namespace llmtrain {

// The single list of a profile's keys with their ranges; reading and writing are visitors of it. A visitor has text(),
// kind(), number(), number_or_none(), optional_number(), optional_boolean(), integer(),
// section(), optional_section(), tables(), operators() and sources(), like ProfileReader and ProfileWriter.

struct ProfileRange {
  double minimum = 0;
  double maximum = 0;
};

// Fractions and rates that the model divides by exclude 0; upper bounds only catch wrong units. A slowdown of 1 would
// stop the pass for ever, hence the margin.
constexpr ProfileRange fraction_range{1e-6, 1};
constexpr ProfileRange fraction_or_none_range{0, 1};
constexpr ProfileRange slowdown_range{0, 0.9};
constexpr ProfileRange rate_range{1, 1e18};
constexpr ProfileRange rate_or_none_range{0, 1e18};
constexpr ProfileRange seconds_range{0, 1};
constexpr ProfileRange size_range{0, 1e15};
constexpr ProfileRange count_range{1, 1e6};
constexpr ProfileRange price_range{0, 1e6};
constexpr ProfileRange watts_range{1, 1e6};
constexpr ProfileRange hours_range{1, 1e9};
constexpr ProfileRange restart_range{0, 1e6};

// A program may state these, too, for a device.
template <class Visitor>
void visit_attention(Visitor& visitor, AttentionProfile& attention) {
  visitor.number("forward_fraction", attention.forward_fraction, fraction_range);
  visitor.number("backward_fraction", attention.backward_fraction, fraction_range);
}

template <class Visitor>
void visit_operation(Visitor& visitor, OperationProfile& operation) {
  visitor.number_or_none("watts_per_device", operation.watts_per_device, watts_range);
  visitor.number_or_none("device_hours_between_failures", operation.device_hours_between_failures, hours_range);
  visitor.number_or_none("restart_seconds", operation.restart_seconds, restart_range);
  visitor.number_or_none("checkpoint_bandwidth", operation.checkpoint_bandwidth, rate_range);
}

template <class Visitor>
void visit_profile(Visitor& visitor, ClusterProfile& profile) {
  visitor.text("name", profile.name);
  visitor.text("description", profile.description);
  visitor.section("device", [&] {
    visitor.kind("kind", profile.device.kind);
    visitor.number("memory_bytes", profile.device.memory_bytes, size_range);
    visitor.optional_boolean("hard_memory", profile.device.has_hard_memory);
    visitor.number("memory_bandwidth", profile.device.memory_bandwidth, rate_range);
    visitor.section("peak_flops", [&] {
      visitor.number("fp32", profile.device.peak_flops.fp32, rate_range);
      visitor.number("tf32", profile.device.peak_flops.tf32, rate_or_none_range);
      visitor.number("bf16", profile.device.peak_flops.bf16, rate_range);
      visitor.number("fp16", profile.device.peak_flops.fp16, rate_range);
      visitor.number("fp8", profile.device.peak_flops.fp8, rate_or_none_range);
      visitor.optional_number("fp4", profile.device.peak_flops.fp4, rate_or_none_range);
    });
    visitor.number("kernel_seconds", profile.device.kernel_seconds, seconds_range);
    visitor.number("pcie_bandwidth", profile.device.pcie_bandwidth, rate_range);
  });
  visitor.section("matrix", [&] {
    visitor.number("peak_fraction", profile.matrix.peak_fraction, fraction_range);
    visitor.number("inner_half", profile.matrix.inner_half, size_range);
    visitor.number("outer_half", profile.matrix.outer_half, size_range);
    visitor.number("fp8_peak_fraction", profile.matrix.fp8_peak_fraction, fraction_or_none_range);
  });
  visitor.section("attention", [&] { visit_attention(visitor, profile.attention); });
  visitor.operators("operators", profile.operators);
  visitor.section("memory", [&] {
    visitor.number("fraction", profile.memory.fraction, fraction_range);
    visitor.number("half_bytes", profile.memory.half_bytes, size_range);
  });
  visitor.section("host", [&] {
    visitor.number("operator_seconds", profile.host.operator_seconds, seconds_range);
    visitor.number("transfer_seconds", profile.host.transfer_seconds, seconds_range);
    visitor.number("micro_batch_seconds", profile.host.micro_batch_seconds, seconds_range);
    visitor.number("tensor_seconds", profile.host.tensor_seconds, seconds_range);
    visitor.number("step_seconds", profile.host.step_seconds, seconds_range);
    visitor.optional_number("memory_bandwidth", profile.host.memory_bandwidth, rate_or_none_range);
    visitor.optional_number("disk_bandwidth", profile.host.disk_bandwidth, rate_or_none_range);
  });
  visitor.section("node", [&] {
    visitor.integer("devices", profile.node.devices, count_range);
    visitor.number("link_bandwidth", profile.node.link_bandwidth, rate_range);
    visitor.number("link_efficiency", profile.node.link_efficiency, fraction_range);
    visitor.number("latency_seconds", profile.node.latency_seconds, seconds_range);
    visitor.tables("all_reduce", profile.node.all_reduce);
  });
  visitor.section("network", [&] {
    visitor.integer("adapters", profile.network.adapters, count_range);
    visitor.number("adapter_bandwidth", profile.network.adapter_bandwidth, rate_range);
    visitor.number("efficiency", profile.network.efficiency, fraction_range);
    visitor.number("point_to_point_efficiency", profile.network.point_to_point_efficiency, fraction_range);
    visitor.number("latency_seconds", profile.network.latency_seconds, seconds_range);
  });
  visitor.optional_section("operation", [&] { visit_operation(visitor, profile.operation); });
  visitor.number("compute_slowdown", profile.compute_slowdown, slowdown_range);
  visitor.number_or_none("price_per_device_hour", profile.price_per_device_hour, price_range);
  visitor.sources("sources", profile.sources);
}

}  // namespace llmtrain
