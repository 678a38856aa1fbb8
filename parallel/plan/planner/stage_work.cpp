// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/stage_work.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "core/base/collective.h"
#include "core/graph/operators/operators.h"
#include "core/graph/values.h"
#include "parallel/plan/cost/operator_cost.h"
#include "parallel/plan/cost/state_transfers.h"
#include "parallel/plan/report/text_layout.h"

namespace llmtrain {
namespace {

// As a share of a pass, what rounding may make.
constexpr double negligible = 1e-9;

// What an operator does in its passes over data, forward or backward.
struct Amount {
  double value = 0;
  PricedWork::Unit unit = PricedWork::Unit::flops;
};

// Without the host's work: what a device waits for of it is a matter of whole passes.
ClusterProfile without_host(ClusterProfile profile) {
  profile.host.operator_seconds = 0;
  profile.host.micro_batch_seconds = 0;
  return profile;
}

double sum_of(const std::vector<PricedWork>& list) {
  double seconds = 0;
  for (const PricedWork& work : list) seconds += work.seconds;
  return seconds;
}

class WorkList {
 public:
  WorkList(const PricedLayout& with_host, std::map<std::string, std::string>& sources)
      : device_(without_host(with_host.profile)),
        priced_(with_host.partition, device_),
        with_host_(with_host),
        sources_(sources) {}

  // Without the host's work.
  const PricedLayout& priced() const { return priced_; }

  // Adds `count` blocks that are alike, of which `index` is one.
  void add_block(std::size_t index, std::int64_t count, WorkOfStage& work) {
    const OperatorList& block = with_host_.operators.of(index);
    const Recompute recompute = with_host_.operators.recompute_of(index);
    WorkOfStage of_block;
    add_operators(block, recompute, count, of_block);
    const StageCost device = block_cost(priced_, block, recompute), all = block_cost(with_host_, block, recompute);
    add_waits(of_block.forward, count, device.forward.seconds, all.forward.seconds);
    add_waits(of_block.backward, count, device.backward.seconds, all.backward.seconds);
    for (PricedWork& item : of_block.forward) add(std::move(item), work.forward);
    for (PricedWork& item : of_block.backward) add(std::move(item), work.backward);
  }

  void add_transfer(const StateTransfer& transfer, std::vector<PricedWork>& list) {
    list.push_back(collective(transfer.collective, transfer.tensors, transfer.bytes, transfer.ranks, transfer.seconds));
  }

  // Sending these values from one stage to the next; those of one size count together.
  std::vector<PricedWork> transfers(std::span<const std::size_t> values) {
    std::vector<PricedWork> list;
    for (const std::size_t value : values) {
      const Message message = message_of(priced_, value);
      PricedWork work =
          collective(Collective::send, "activations", message.sent_bytes, pipeline_neighbours(priced_.mesh()), 0);
      // In the same node for some ranks and not for others.
      work.source.clear();
      work.shape = message.whole_bytes > 0
                       ? fmt::format("which tensor ranks gather to {}", bytes_text(message.whole_bytes))
                       : "";
      const auto same = std::ranges::find(list, work.amount, &PricedWork::amount);
      if (same == list.end())
        list.push_back(std::move(work));
      else
        ++same->count;
    }
    return list;
  }

  PricedWork collective(Collective collective, std::string_view tensors, double bytes, const RankGroup& ranks,
                        double seconds) {
    const NodeProfile& node = priced_.profile.node;
    const NetworkProfile& network = priced_.profile.network;
    const bool is_inside = ranks.inside_node >= ranks.ranks;
    // A rank has its links, or its share of the node's adapters.
    const double adapters = network.adapter_bandwidth * static_cast<double>(network.adapters) /
                            static_cast<double>(priced_.mesh().devices_per_node);
    const double peak = is_inside ? node.link_bandwidth : adapters, sent = ring_bytes(collective, ranks.ranks, bytes);
    PricedWork work{.name = fmt::format("{} of {}", with_spaces(planned_name(collective)), with_spaces(tensors)),
                    .seconds = seconds,
                    .shape = fmt::format("{} of {} ranks", bytes_text(bytes), ranks.ranks),
                    .amount = sent,
                    .peak = peak,
                    .efficiency = seconds > 0 && peak > 0 ? sent / seconds / peak : 0};
    if (!state_basis(priced_.collectives.basis(collective, bytes, ranks), work))
      work.source = source(is_inside ? "node" : "network");
    return work;
  }

 private:
  void add_operators(const OperatorList& block, Recompute recompute, std::int64_t count, WorkOfStage& work) {
    for (const Operator& item : block) {
      add_operator(item, recompute, count, work);
      for (const Exchange& exchange : item.exchanges) {
        const bool is_forward = exchange.direction == Direction::forward;
        add_exchange(block, exchange, count, is_forward ? work.forward : work.backward);
        if (is_forward && is_exchanged_again(block.front(), recompute))
          add_exchange(block, exchange, count, work.backward, "again: ");
      }
    }
  }

  // What a pass takes beyond its operators and the collectives that it waits for.
  void add_waits(std::vector<PricedWork>& list, std::int64_t count, double device_seconds, double seconds) {
    const auto blocks = static_cast<double>(count);
    const double hidden = blocks * device_seconds - sum_of(list), host = blocks * (seconds - device_seconds);
    if (hidden > negligible * blocks * seconds)
      list.push_back({.name = "traffic that takes longer than what hides it", .count = count, .seconds = hidden});
    if (host > negligible * blocks * seconds)
      list.push_back({.name = "waiting for the host", .count = count, .seconds = host, .source = source("host")});
  }

  void add_operator(const Operator& item, Recompute recompute, std::int64_t count, WorkOfStage& work) {
    OperatorList alone{item};
    // Priced apart: what a pass waits for of them depends on the whole block.
    alone.front().exchanges.clear();
    const StageCost cost = block_cost(priced_, alone, recompute);
    const double again = cost.backward.recompute_seconds;
    add(described(item, cost.forward.seconds, count, amount(item, Direction::forward)), work.forward);
    add(described(item, cost.backward.seconds - again, count, amount(item, Direction::backward)), work.backward);
    PricedWork repeated = described(item, again, count, amount(item, Direction::forward));
    repeated.name = "again: " + repeated.name;
    add(std::move(repeated), work.backward);
  }

  void add_exchange(const OperatorList& block, const Exchange& exchange, std::int64_t count,
                    std::vector<PricedWork>& list, const char* before = "") {
    const double shown = shown_share(priced_, block, exchange);
    PricedWork work =
        collective(exchange.collective, exchange.tensors, exchange.bytes, group_of(priced_, exchange.axis).ranks,
                   static_cast<double>(count) * shown * exchange_seconds(priced_, exchange));
    work.name = before + work.name;
    work.count = count;
    if (shown < 1) work.shape += fmt::format(", {} of it not hidden", percent(shown));
    add(std::move(work), list);
  }

  // `seconds`: of one.
  PricedWork described(const Operator& item, double seconds, std::int64_t count, const Amount& amount) {
    const bool has_flops = amount.unit == PricedWork::Unit::flops;
    PricedWork work{.name = item.name,
                    .count = count,
                    .seconds = static_cast<double>(count) * seconds,
                    .amount = amount.value,
                    .unit = amount.unit};
    PrecisionRecipe precision = priced_.recipe().precision;
    if (!item.uses_fp8) precision.fp8_level = Fp8Level::off;
    work.peak = has_flops ? peak_flops(priced_.profile, precision) : priced_.profile.device.memory_bandwidth;
    if (seconds > 0 && work.peak > 0) work.efficiency = amount.value / seconds / work.peak;
    switch (item.kind) {
      case OperatorKind::product:
      case OperatorKind::stored_attention: {
        const MatrixType type = item.uses_fp8 ? MatrixType::fp8 : MatrixType::compute;
        work.shape = shape_of(item.product);
        const bool is_grouped = item.is_grouped && priced_.roofline.measures_grouped(item.product);
        const Reached reached = is_grouped ? priced_.roofline.grouped_efficiency(item.product, type)
                                           : priced_.roofline.product_efficiency(item.product, type);
        if (!state_basis(reached.basis, work)) work.source = source("matrix");
        break;
      }
      case OperatorKind::fused_attention:
        work.shape = "fused";
        if (!state_basis(priced_.roofline.attention_efficiency(attention_sizes(item)).basis, work))
          work.source = attention_source();
        break;
      case OperatorKind::elementwise:
      case OperatorKind::cross_entropy:
        work.source = source(priced_.roofline.measures_passes() ? "operators" : "memory");
        break;
    }
    return work;
  }

  // Names the measurements of such operators alone, if they price it.
  bool state_basis(const std::optional<Basis>& basis, PricedWork& work) {
    if (!basis) return false;
    work.source = source("operators");
    work.basis = basis_words[static_cast<std::size_t>(*basis)];
    const std::string& measured_on = priced_.profile.operators->measured_on;
    if (measured_on != priced_.profile.name) work.basis += ", borrowed from " + measured_on;
    return true;
  }

  static std::string shape_of(const MatrixProduct& product) {
    std::string shape = fmt::format("{:.0f} × {:.0f} × {:.0f}", product.rows, product.inner, product.columns);
    return product.batch == 1 ? shape : fmt::format("{:.0f} × ({})", product.batch, shape);
  }

  Amount amount(const Operator& item, Direction direction) const {
    const bool is_forward = direction == Direction::forward;
    const Movement& movement = is_forward ? item.forward : item.backward;
    switch (item.kind) {
      case OperatorKind::product:
        if (item.is_backward_alone) return {is_forward ? 0 : item.product.flops()};
        return {item.product.flops() * (is_forward || !item.has_weight_gradient ? 1 : 2)};
      case OperatorKind::fused_attention:
        return {is_forward ? fused_attention_flops(item).forward : fused_attention_flops(item).backward};
      case OperatorKind::stored_attention: {
        const double of_values = item.value_size > 0 ? item.value_size / item.product.inner : 1;
        return {item.product.flops() * (1 + of_values) * (is_forward ? 1 : 2)};
      }
      case OperatorKind::elementwise:
        return {moved_bytes(priced_, movement), PricedWork::Unit::bytes};
      case OperatorKind::cross_entropy:
        return {logit_bytes(priced_) * movement.elements, PricedWork::Unit::bytes};
    }
    return {};
  }

  // What takes no time is nobody's question; what is alike counts together.
  static void add(PricedWork work, std::vector<PricedWork>& list) {
    if (work.seconds <= 0) return;
    const auto same = std::ranges::find_if(list, [&](const PricedWork& other) {
      return other.name == work.name && other.shape == work.shape && other.amount == work.amount;
    });
    if (same == list.end()) return list.push_back(std::move(work));
    same->count += work.count;
    same->seconds += work.seconds;
  }

  std::string source(const std::string& section) {
    const auto& known = priced_.profile.sources;
    const auto found = known.find(section);
    if (found == known.end()) return "";
    sources_.emplace(section, found->second);
    return section;
  }

  std::string attention_source() {
    const Program& program = priced_.program();
    const auto found = program.sources.find("attention");
    if (!program.attention_on(priced_.profile.name) || found == program.sources.end()) return source("attention");
    std::string key = "attention of " + program.name;
    sources_.emplace(key, found->second);
    return key;
  }

  const ClusterProfile device_;
  const PricedLayout priced_;
  const PricedLayout& with_host_;
  std::map<std::string, std::string>& sources_;
};

// What a stage's passes take beyond those of its blocks.
void add_rest(std::vector<PricedWork>& list, double seconds) {
  const double rest = seconds - sum_of(list);
  if (rest > negligible * seconds) list.push_back({.name = "sums of gradients, offloading", .seconds = rest});
}

// The values across the cut over which most is sent.
std::span<const std::size_t> widest_bundle(const Partition& partition, const PassSetting& setting) {
  return std::ranges::max_element(
             partition.stages, {},
             [&](const Stage& stage) { return values_bytes(*partition.graph, stage.incoming, setting); })
      ->incoming;
}

void sort_by_seconds(WorkOfStage& work) {
  for (auto* list : {&work.forward, &work.backward, &work.gather, &work.reduction})
    std::ranges::stable_sort(*list, std::ranges::greater{}, &PricedWork::seconds);
}

}  // namespace

StageWork stage_work(const PricedLayout& with_host, const StepCosts& costs) {
  const Partition& partition = with_host.partition;
  const Graph& graph = with_host.graph();
  StageWork result;
  WorkList list(with_host, result.sources);
  const PricedLayout& priced = list.priced();
  std::map<std::vector<std::size_t>, std::size_t> kinds;  // by how many blocks of each kind there are
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage) {
    std::vector<std::size_t> counts(graph.blocks.size());
    for (const std::size_t block : partition.stages[stage].blocks) ++counts[graph.blocks[block].alike];
    const auto [place, is_new] = kinds.try_emplace(counts, result.kinds.size());
    result.kind_of.push_back(place->second);
    if (!is_new) continue;
    WorkOfStage& work = result.kinds.emplace_back();
    for (std::size_t block = 0; block < counts.size(); ++block)
      if (counts[block] > 0) list.add_block(block, static_cast<std::int64_t>(counts[block]), work);
    add_rest(work.forward, costs.stages[stage].forward.seconds);
    add_rest(work.backward, costs.stages[stage].backward.seconds);
    for (const StateTransfer& transfer : state_transfers(priced, stage))
      list.add_transfer(transfer, transfer.when == StateTransfer::When::gather ? work.gather : work.reduction);
    sort_by_seconds(work);
  }
  if (partition.mesh.pipeline == 1) return result;
  result.transfer = list.transfers(widest_bundle(partition, priced.setting()));
  return result;
}

}  // namespace llmtrain
