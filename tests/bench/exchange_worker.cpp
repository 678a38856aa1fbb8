// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/elapsed_time.h"
#include "core/model/moe/row_exchange.h"
#include "core/model/moe/row_parts.h"
#include "kernels/moe/expert_rows.h"
#include "parallel/comm/local/local_world.h"
#include "parallel/shard/exchange_tuner.h"
#include "parallel/shard/expert_exchange.h"

// Exchanges of experts' rows, which scripts/benchmarks/bench_exchange compares: it reads a setting from each line of
// standard input and answers with the seconds of each method. Ranks are threads, the network is the local backend's,
// and experts are computed by waiting, so that neither uses the processor and there may be more ranks than cores.

namespace {

using llmtrain::AllToAll;
using llmtrain::ExchangeMethod;
using nlohmann::json;

using Clock = std::chrono::steady_clock;

struct Setting {
  int ranks = 0, node_ranks = 0;
  std::int64_t rows = 0, width = 0;             // that a rank sends, evenly to all experts, of which each rank has one
  double row_seconds = 0, product_seconds = 0;  // of an expert: for each row, and for each part
  std::int64_t rounds = 0;
  llmtrain::LocalOptions options;

  explicit Setting(const json& line)
      : ranks(line.at("ranks")),
        node_ranks(line.at("node_ranks")),
        rows(line.at("rows")),
        width(line.at("width")),
        row_seconds(line.at("row_seconds")),
        product_seconds(line.at("product_seconds")),
        rounds(line.at("rounds")) {
    options.links = {.delay_seconds = line.at("hop_seconds"),
                     .bytes_per_second = line.at("bytes_per_second"),
                     .message_seconds = line.at("message_seconds"),
                     .node_ranks = node_ranks,
                     .node_speedup = line.at("node_speedup")};
  }

  std::vector<ExchangeMethod> methods() const {
    std::vector<ExchangeMethod> result;
    for (const std::int64_t parts : llmtrain::automatic_parts) {
      result.push_back({parts, AllToAll::linear});
      if (node_ranks > 1 && node_ranks < ranks) result.push_back({parts, AllToAll::hierarchical});
    }
    return result;
  }
};

std::string name_of(const ExchangeMethod& method) {
  return std::to_string(method.parts) + (method.all_to_all == AllToAll::linear ? " linear" : " hierarchical");
}

// One rank: passes rows through the experts and back, as a layer does in its forward and in its backward.
class Rank {
 public:
  Rank(llmtrain::Communicator& communicator, const Setting& setting)
      : communicator_(communicator), setting_(setting), tuner_({{}, setting.rows + 1, {setting.methods()}}) {
    const auto group = [&](const std::string& name, int first, int stride, int count) {
      std::vector<int> ranks;
      for (int i = 0; i < count; ++i) ranks.push_back(first + i * stride);
      return communicator.make_group(name, ranks);
    };
    const int all = communicator.size(), inside = setting.node_ranks, rank = communicator.rank();
    linear_ = chosen_ = llmtrain::make_linear_exchange(communicator, group("all", 0, 1, all));
    if (inside > 1 && inside < all) {
      const auto node = group("node", rank / inside * inside, 1, inside);
      hierarchical_ =
          llmtrain::make_hierarchical_exchange(communicator, node, group("place", rank % inside, inside, all / inside));
      chosen_ = llmtrain::make_chosen_exchange(linear_, hierarchical_, tuner_);
    }
    const at::Tensor experts = at::arange(setting.rows, at::kLong).remainder(all).view({-1, 1});
    map_ = llmtrain::kernels::assign_rows(experts, all, std::nullopt);
    rows_ = at::ones({setting.rows, setting.width});
  }

  double run(const ExchangeMethod& method) {
    return run(
        {.experts = (method.all_to_all == AllToAll::linear ? linear_ : hierarchical_).get(), .overlap = method.parts});
  }
  double run_chosen() { return run({.experts = chosen_.get(), .chooser = &tuner_}); }

  // Steps until the tuner has found its method.
  std::int64_t tune() {
    std::int64_t step = 0;
    for (tuner_.start_step(step); !tuner_.current().front().is_final; tuner_.start_step(++step)) {
      run_chosen();
      tuner_.end_step(sums(tuner_.measured()));
    }
    return step;
  }
  const ExchangeMethod& chosen() const { return tuner_.current().front().method; }

 private:
  double run(const llmtrain::MixtureRanks& ranks) {
    communicator_.barrier(communicator_.world()).wait();
    const auto start = Clock::now();
    const llmtrain::RowExchange exchange(ranks, map_);
    const auto network = [&](std::size_t part, const at::Tensor& rows) {
      const double seconds =
          setting_.product_seconds + static_cast<double>(exchange.local(part).rows()) * setting_.row_seconds;
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      return rows.clone();
    };
    for (int pass = 0; pass < 2; ++pass) exchange.through_experts(rows_.clone(), network);
    communicator_.barrier(communicator_.world()).wait();
    return llmtrain::seconds_since(start);
  }

  // Over all ranks, the same on each.
  std::vector<double> sums(const std::vector<double>& own) {
    using llmtrain::ElementType;
    std::vector<double> all(own.size() * static_cast<std::size_t>(communicator_.size()));
    const auto bytes = [](const std::vector<double>& values) {
      return static_cast<std::int64_t>(values.size() * sizeof(double));
    };
    communicator_
        .all_gather(communicator_.world(), llmtrain::Purpose::control,
                    llmtrain::ConstArray{own.data(), bytes(own), ElementType::uint8},
                    llmtrain::Array{all.data(), bytes(all), ElementType::uint8})
        .wait();
    std::vector<double> sums(own.size());
    for (std::size_t i = 0; i < all.size(); ++i) sums[i % sums.size()] += all[i];
    return sums;
  }

  llmtrain::Communicator& communicator_;
  const Setting& setting_;
  llmtrain::ExchangeTuner tuner_;
  std::shared_ptr<const llmtrain::ExpertRanks> linear_, hierarchical_, chosen_;
  llmtrain::kernels::ExpertRows map_;
  at::Tensor rows_;
};

json measure(const Setting& setting) {
  json answer;
  std::map<std::string, std::vector<double>> seconds;
  llmtrain::LocalWorld(setting.ranks, setting.options).run([&](llmtrain::Communicator& communicator) {
    Rank rank(communicator, setting);
    const std::int64_t steps = rank.tune();
    const std::vector<ExchangeMethod> methods = setting.methods();
    const auto keep = [&](const std::string& name, double time) {
      if (communicator.rank() == 0) seconds[name].push_back(time);
    };
    // Methods take turns, so that slow phases of the machine meet all of them.
    for (std::int64_t round = 0; round < setting.rounds; ++round) {
      for (const ExchangeMethod& method : methods) keep(name_of(method), rank.run(method));
      keep("auto", rank.run_chosen());
    }
    if (communicator.rank() == 0) answer = {{"chosen", name_of(rank.chosen())}, {"steps", steps}};
  });
  answer["seconds"] = seconds;
  return answer;
}

}  // namespace

int main() {
  try {
    for (std::string line; std::getline(std::cin, line);) std::cout << measure(Setting(json::parse(line))) << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "exchange_worker: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
