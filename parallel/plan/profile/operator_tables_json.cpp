// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/plan/profile/operator_tables.h"
#include "parallel/plan/profile/profile_keys.h"
#include "parallel/plan/profile/profile_reader.h"

namespace llmtrain {
namespace {

Json table_json(std::span<const char* const> axes, const TablesByType& tables) {
  Json json = Json::object();
  for (const auto& [type, table] : tables) {
    // All types of an operator were measured over the same sizes.
    for (std::size_t axis = 0; axis < axes.size(); ++axis) json[axes[axis]] = table.axes()[axis];
    json[type] = table.efficiencies();
  }
  return json;
}

}  // namespace

nlohmann::ordered_json to_json(const OperatorTables& tables) {
  Json json{{"measured_on", tables.measured_on},
            {"training_speed", tables.training_speed},
            {"memory_fraction", tables.memory_fraction},
            {"memory_seconds", tables.memory_seconds},
            {"fp8_cast_seconds", tables.fp8_cast_seconds},
            {"products", table_json(OperatorTables::product_axes, tables.products)},
            {"attention", table_json(OperatorTables::attention_axes, tables.attention)}};
  if (!tables.grouped_products.empty())
    json["grouped_products"] = table_json(OperatorTables::grouped_axes, tables.grouped_products);
  if (!tables.collectives.empty())
    json["collectives"] = table_json(OperatorTables::collective_axes, tables.collectives);
  return json;
}

void ProfileReader::operators(std::string_view name, std::shared_ptr<const OperatorTables>& field) {
  optional_section(name, [&] {
    OperatorTables tables;
    text("measured_on", tables.measured_on);
    number("training_speed", tables.training_speed, fraction_range);
    number("memory_fraction", tables.memory_fraction, fraction_range);
    number("memory_seconds", tables.memory_seconds, seconds_range);
    number("fp8_cast_seconds", tables.fp8_cast_seconds, seconds_range);
    tables_by_type("products", OperatorTables::product_axes, table_types, tables.products);
    tables_by_type("attention", OperatorTables::attention_axes, table_types, tables.attention);
    const auto optional_tables = [&](const char* key, auto&&... arguments) {
      if (levels_.back().value->contains(key))
        tables_by_type(key, arguments...);
      else
        levels_.back().names.emplace_back(key);
    };
    optional_tables("grouped_products", OperatorTables::grouped_axes, table_types, tables.grouped_products);
    optional_tables("collectives", OperatorTables::collective_axes, table_collectives, tables.collectives);
    field = std::make_shared<const OperatorTables>(std::move(tables));
  });
}

void ProfileReader::tables_by_type(std::string_view name, std::span<const char* const> axes,
                                   std::span<const char* const> types, TablesByType& field) {
  section(name, [&] {
    std::vector<std::vector<double>> sizes;
    for (const char* axis : axes) {
      sizes.push_back(numbers(axis, 2, size_range));
      // Lookups interpolate between neighbours.
      if (std::ranges::adjacent_find(sizes.back(), std::greater_equal{}) != sizes.back().end())
        problem(append_key(levels_.back().pointer, axis), "sizes must increase");
    }
    const std::size_t points = std::transform_reduce(sizes.begin(), sizes.end(), std::size_t{1}, std::multiplies{},
                                                     [](const std::vector<double>& axis) { return axis.size(); });
    for (const char* type : types) {
      if (!levels_.back().value->contains(type) && type != types.front()) continue;
      std::vector<double> found = numbers(type, 1, fraction_range);
      if (found.size() != points)
        problem(append_key(levels_.back().pointer, type),
                "has " + std::to_string(found.size()) + " numbers; the sizes make " + std::to_string(points));
      else if (problems_.empty())
        field.emplace(type, EfficiencyTable(sizes, std::move(found)));
    }
  });
}

std::vector<double> ProfileReader::numbers(std::string_view name, std::size_t fewest, ProfileRange range) {
  const auto are_right = [&](const Json& value) {
    return value.is_array() && value.size() >= fewest &&
           std::ranges::all_of(value, [&](const Json& item) { return is_number_in(range, item); });
  };
  const std::string rule = "must be a list of " + std::to_string(fewest) + " numbers or more from " +
                           shown_value(Json(range.minimum)) + " to " + shown_value(Json(range.maximum));
  const Json* value = take(name, "a list of numbers", rule, are_right);
  return value == nullptr ? std::vector<double>{} : value->get<std::vector<double>>();
}

}  // namespace llmtrain
