// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/cluster_profile.h"

#include "core/base/error.h"
#include "parallel/plan/cost/profile_keys.h"
#include "parallel/plan/cost/profile_reader.h"

namespace llmtrain {
namespace {

// The visitor of visit_profile() that writes JSON; ProfileReader is the one that reads it.
class ProfileWriter {
 public:
  void text(const char* name, const std::string& field) { top()[name] = field; }
  void kind(const char* name, DeviceKind field) { top()[name] = field == DeviceKind::cpu ? "cpu" : "cuda"; }
  void number(const char* name, double field, ProfileRange) { top()[name] = field; }
  void integer(const char* name, std::int64_t field, ProfileRange) { top()[name] = field; }
  void sources(const char* name, const std::map<std::string, std::string>& field) { top()[name] = field; }

  void price(const char* name, const std::optional<double>& field) {
    top()[name] = field ? nlohmann::ordered_json(*field) : nlohmann::ordered_json();
  }

  void tables(const char* name, const std::vector<CollectiveTable>& field) {
    auto list = nlohmann::ordered_json::array();
    for (const CollectiveTable& table : field) {
      auto points = nlohmann::ordered_json::array();
      for (const CollectivePoint& point : table.points) points.push_back({point.bytes, point.seconds});
      list.push_back({{"ranks", table.ranks}, {"points", points}});
    }
    top()[name] = list;
  }

  template <class Body>
  void section(const char* name, Body body) {
    levels_.push_back(nlohmann::ordered_json::object());
    body();
    auto inner = std::move(levels_.back());
    levels_.pop_back();
    top()[name] = std::move(inner);
  }

  nlohmann::ordered_json take() { return std::move(top()); }

 private:
  nlohmann::ordered_json& top() { return levels_.back(); }

  std::vector<nlohmann::ordered_json> levels_{nlohmann::ordered_json::object()};
};

}  // namespace

double peak_flops(const ClusterProfile& profile, const PrecisionRecipe& precision) {
  const PeakFlops& peak = profile.device.peak_flops;
  // A device without FP8 units is rated by its compute type, which is what it would run.
  if (precision.fp8_level != Fp8Level::off && peak.fp8 > 0) return peak.fp8;
  if (precision.compute == DataType::bf16) return peak.bf16;
  return precision.compute == DataType::fp16 ? peak.fp16 : peak.fp32;
}

ClusterProfile parse_profile(std::string_view text, const std::string& file) {
  const JsonText json = parse_json(text);
  if (!json.error.empty()) throw Error(ExitCode::bad_recipe, file + ": " + json.error);
  // Parsers keep one of two equal keys silently; which one is not obvious to the author of the file.
  if (!json.duplicates.empty()) {
    throw Error(ExitCode::bad_recipe, file + ": " + json.duplicates.front() + ": is given twice; take one out");
  }
  ClusterProfile profile;
  ProfileReader reader(json.value, file);
  visit_profile(reader, profile);
  reader.finish();
  return profile;
}

nlohmann::ordered_json to_json(const ClusterProfile& profile) {
  ProfileWriter writer;
  // One visitor interface serves reading and writing, so it takes the profile by mutable reference.
  ClusterProfile copy = profile;
  visit_profile(writer, copy);
  return writer.take();
}

}  // namespace llmtrain
