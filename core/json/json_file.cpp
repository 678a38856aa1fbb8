// SPDX-License-Identifier: Apache-2.0
#include "core/json/json_file.h"

#include <set>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/json/json_memory.h"

namespace llmtrain {
namespace {

// Limits far above what a manifest or config.json needs, so that a hostile file exhausts neither stack nor memory.
constexpr std::size_t depth_limit = 64;
constexpr std::uintmax_t size_limit = 100'000'000;

[[noreturn]] void refuse_json(const std::string& file, const std::string& what) {
  throw Error(ExitCode::bad_data, file + ": is not strict JSON: " + what + "; correct it or copy it again");
}

// Checks a text before any tree is built from it: copying and destroying a tree recurses, so the nesting must be
// bounded.
class StrictReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  StrictReader(const std::string& file, std::size_t key_limit) : file_(file), key_limit_(key_limit) {}

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t& text) override {
    memory_.add_text(text.size());
    return is_allowed();
  }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return enter(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }

  bool key(string_t& name) override {
    memory_.add_text(name.size());
    is_allowed();
    if (!keys_.back().insert(name).second)
      refuse_json(file_, "the key " + quoted_text(name) + " appears twice in one object");
    if (keys_.back().size() > key_limit_) refuse_json(file_, "an object has too many keys");
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    const std::string_view text = error.what();  // "[json.exception.parse_error.101] parse error at line 1, …"
    const auto prefix = text.find("] ");
    refuse_json(file_, std::string(prefix == std::string_view::npos ? text : text.substr(prefix + 2)));
  }

 private:
  bool is_allowed() const {
    if (memory_.exceeds()) throw Error(ExitCode::bad_data, file_ + ": " + std::string(too_large_json));
    return true;
  }

  bool value() {
    memory_.add_value();
    return is_allowed();
  }

  bool enter() {
    memory_.add_container();
    is_allowed();
    if (keys_.size() == depth_limit) refuse_json(file_, "it is nested more than 64 levels deep");
    keys_.emplace_back();
    return true;
  }

  bool leave() {
    keys_.pop_back();
    return true;
  }

  const std::string& file_;
  const std::size_t key_limit_;
  JsonMemory memory_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

template <typename Json>
Json parse_json(std::string_view text, const std::string& file) {
  if (text.find('\0') != std::string_view::npos) refuse_json(file, "it has a NUL character");
  if (text.substr(0, 3) == "\xef\xbb\xbf") refuse_json(file, "it starts with a byte order mark");
  // An object that keeps its order compares each new key with all earlier ones, so their number is bounded.
  constexpr bool keeps_order = std::is_same_v<Json, nlohmann::ordered_json>;
  StrictReader reader(file, keeps_order ? 4096 : size_limit);
  // Twice over the text: the tree is built only once it is known to be harmless.
  nlohmann::json::sax_parse(text, &reader);
  return Json::parse(text);
}

template nlohmann::json parse_json<nlohmann::json>(std::string_view, const std::string&);
template nlohmann::ordered_json parse_json<nlohmann::ordered_json>(std::string_view, const std::string&);

std::string read_text_file(const std::filesystem::path& file) {
  std::error_code error;
  const auto kind = std::filesystem::status(file, error).type();
  if (kind == std::filesystem::file_type::not_found)
    throw Error(ExitCode::missing_input, file.string() + ": does not exist");
  // Opening a pipe would block until it has a writer.
  if (kind != std::filesystem::file_type::regular)
    throw Error(ExitCode::bad_data, file.string() + ": is not a regular file");
  if (std::filesystem::file_size(file, error) > size_limit)
    throw Error(ExitCode::bad_data, file.string() + ": is larger than 100 MB, the limit for such a file");
  return read_file(file);
}

std::string quoted_text(std::string_view text) {
  constexpr std::size_t limit = 200;
  std::string shown(text.substr(0, limit));
  if (text.size() > limit) shown += "…";
  // Replaces invalid UTF-8, to which cutting at a byte may add.
  return nlohmann::json(shown).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace llmtrain
