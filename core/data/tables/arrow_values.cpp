// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/arrow_values.h"

#include <arrow/extension_type.h>
#include <arrow/scalar.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/base/printable.h"

namespace llmtrain {
namespace {

using arrow::Type;
using Json = nlohmann::ordered_json;

template <class Column>
const Column& as(const arrow::Array& column) {
  return static_cast<const Column&>(column);
}

Json text(std::string_view bytes) { return is_utf8(bytes) ? Json(std::string(bytes)) : Json(); }

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json list(const arrow::Array& values, std::int64_t begin, std::int64_t length) {
  Json items = Json::array();
  for (std::int64_t i = begin; i < begin + length; ++i) items.push_back(json_value(values, i));
  return items;
}

template <class List>
Json list_at(const arrow::Array& column, std::int64_t row) {
  const auto& lists = as<List>(column);
  return list(*lists.values(), lists.value_offset(row), lists.value_length(row));
}

Json map_at(const arrow::MapArray& maps, std::int64_t row) {
  Json pairs = Json::array();
  for (std::int64_t i = maps.value_offset(row); i < maps.value_offset(row + 1); ++i)
    pairs.push_back(Json::array({json_value(*maps.keys(), i), json_value(*maps.items(), i)}));
  return pairs;
}

Json struct_at(const arrow::StructArray& structs, std::int64_t row) {
  Json object = Json::object();
  for (int i = 0; i < structs.num_fields(); ++i)
    object[structs.struct_type()->field(i)->name()] = json_value(*structs.field(i), row);
  return object;
}

// What JSON has no type for.
Json shown(const arrow::Array& column, std::int64_t row) {
  const auto scalar = column.GetScalar(row);
  return scalar.ok() ? text(scalar.ValueUnsafe()->ToString()) : Json();
}

Json number_at(const arrow::Array& column, std::int64_t row) {
  switch (column.type_id()) {
    case Type::INT8:
      return as<arrow::Int8Array>(column).Value(row);
    case Type::INT16:
      return as<arrow::Int16Array>(column).Value(row);
    case Type::INT32:
      return as<arrow::Int32Array>(column).Value(row);
    case Type::INT64:
      return as<arrow::Int64Array>(column).Value(row);
    case Type::UINT8:
      return as<arrow::UInt8Array>(column).Value(row);
    case Type::UINT16:
      return as<arrow::UInt16Array>(column).Value(row);
    case Type::UINT32:
      return as<arrow::UInt32Array>(column).Value(row);
    case Type::UINT64:
      return as<arrow::UInt64Array>(column).Value(row);
    case Type::FLOAT:
      return number(as<arrow::FloatArray>(column).Value(row));
    case Type::DOUBLE:
      return number(as<arrow::DoubleArray>(column).Value(row));
    default:
      return shown(column, row);
  }
}

}  // namespace

Json json_value(const arrow::Array& column, std::int64_t row) {
  if (column.IsNull(row)) return nullptr;
  switch (column.type_id()) {
    case Type::NA:
      return nullptr;
    case Type::BOOL:
      return as<arrow::BooleanArray>(column).Value(row);
    case Type::STRING:
    case Type::BINARY:
      return text(as<arrow::BinaryArray>(column).GetView(row));
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
      return text(as<arrow::LargeBinaryArray>(column).GetView(row));
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW:
      return text(as<arrow::BinaryViewArray>(column).GetView(row));
    case Type::FIXED_SIZE_BINARY:
      return text(as<arrow::FixedSizeBinaryArray>(column).GetView(row));
    case Type::LIST:
      return list_at<arrow::ListArray>(column, row);
    case Type::LARGE_LIST:
      return list_at<arrow::LargeListArray>(column, row);
    case Type::FIXED_SIZE_LIST:
      return list_at<arrow::FixedSizeListArray>(column, row);
    case Type::MAP:
      return map_at(as<arrow::MapArray>(column), row);
    case Type::STRUCT:
      return struct_at(as<arrow::StructArray>(column), row);
    case Type::DICTIONARY: {
      const auto& coded = as<arrow::DictionaryArray>(column);
      return json_value(*coded.dictionary(), coded.GetValueIndex(row));
    }
    case Type::EXTENSION:
      return json_value(*as<arrow::ExtensionArray>(column).storage(), row);
    default:
      return number_at(column, row);
  }
}

}  // namespace llmtrain
