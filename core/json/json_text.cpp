// SPDX-License-Identifier: Apache-2.0
#include "core/json/json_text.h"

#include <unordered_set>
#include <utility>

namespace llmtrain {
namespace {

// Builds the document from the parser's events. nlohmann's own builder silently takes the last of several equal keys.
class DocumentBuilder final : public nlohmann::json_sax<Json> {
 public:
  DocumentBuilder(std::string_view text, JsonText& result) : text_(text), result_(result) {}

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override { return scalar(value); }
  bool number_unsigned(number_unsigned_t value) override { return scalar(value); }
  bool number_float(number_float_t value, const string_t&) override { return scalar(value); }
  bool string(string_t& value) override { return scalar(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    auto& level = levels_.back();
    // The value of a repeated key is parsed but not stored: the first one stays.
    level.kept = level.names.insert(name).second;
    if (!level.kept) result_.duplicates.push_back(append_key(level.pointer, name));
    level.name = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& reason) override {
    result_.error = describe_syntax_error(text_, position, reason.what());
    return false;
  }

 private:
  struct Level {
    Json value;
    std::string pointer;
    std::unordered_set<std::string> names;
    std::string name;  // of the value that comes next
    bool kept = true;  // false for a value whose key occurred before
  };

  std::string child_pointer() const {
    if (levels_.empty()) return "";
    const auto& level = levels_.back();
    return append_key(level.pointer, level.value.is_array() ? std::to_string(level.value.size()) : level.name);
  }

  bool open(Json container) {
    // Copying and destroying a document recurses, so its depth must be bounded.
    if (levels_.size() == deepest_nesting) {
      result_.error = "lists and objects are nested more than " + std::to_string(deepest_nesting) + " levels deep";
      return false;
    }
    levels_.push_back({std::move(container), child_pointer(), {}, {}, true});
    return true;
  }

  bool close() {
    Json value = std::move(levels_.back().value);
    levels_.pop_back();
    return scalar(std::move(value));
  }

  bool scalar(Json value) {
    if (levels_.empty()) {
      result_.value = std::move(value);
      return true;
    }
    auto& level = levels_.back();
    if (level.value.is_array()) {
      level.value.push_back(std::move(value));
    } else if (level.kept) {
      // Bypasses ordered_map's own insert, which compares with every earlier key: `names` has done so already.
      level.value.get_ref<Json::object_t&>().emplace_back(std::move(level.name), std::move(value));
    }
    return true;
  }

  std::string_view text_;
  JsonText& result_;
  std::vector<Level> levels_;
};

std::string cut(std::string text) {
  constexpr std::size_t longest = 60;
  if (text.size() <= longest) return text;
  std::size_t end = longest;
  // Not within a character of several bytes.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

JsonText parse_json(std::string_view text) {
  JsonText result;
  if (text.starts_with("\xEF\xBB\xBF")) {
    result.error = "line 1, column 1: the text starts with a byte order mark, which JSON does not allow";
    return result;
  }
  DocumentBuilder builder(text, result);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return result;
}

std::string append_key(const std::string& pointer, std::string_view key) {
  std::string result = pointer + '/';
  for (const char c : key) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

std::vector<std::string> split_pointer(std::string_view pointer) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      keys.emplace_back();
      // RFC 6901: "~1" is a slash and "~0" a tilde.
    } else if (pointer[i] == '~' && i + 1 < pointer.size()) {
      keys.back() += pointer[++i] == '1' ? '/' : '~';
    } else {
      keys.back() += pointer[i];
    }
  }
  return keys;
}

std::string shown_value(const Json& value) {
  return value.is_structured() && value.size() > 8 ? std::string(kind_of(value)) : cut(dump(value));
}

std::string shown_text(std::string_view text) {
  // As a JSON string without its quotes: control characters and invalid UTF-8 would garble the line.
  // Cut before quoting: a key may be as long as the file.
  const auto quoted = dump(Json(std::string(text.substr(0, 256))));
  return cut(quoted.substr(1, quoted.size() - 2));
}

std::string_view kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

}  // namespace llmtrain
