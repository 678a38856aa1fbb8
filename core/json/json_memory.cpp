// SPDX-License-Identifier: Apache-2.0
#include "core/json/json_memory.h"

#include <nlohmann/json.hpp>
#include <string>

namespace llmtrain {
namespace {

class Counter final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t& text) override { return add_text(text); }
  bool binary(binary_t&) override { return value(); }
  bool key(string_t& name) override { return add_text(name); }
  bool start_object(std::size_t) override { return container(); }
  bool start_array(std::size_t) override { return container(); }
  bool end_object() override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

  bool exceeds() const { return memory_.exceeds(); }

 private:
  bool value() {
    memory_.add_value();
    return !exceeds();
  }
  bool add_text(const std::string& text) {
    memory_.add_text(text.size());
    return !exceeds();
  }
  bool container() {
    memory_.add_container();
    return !exceeds();
  }

  JsonMemory memory_;
};

}  // namespace

bool is_too_large_json(std::string_view text) {
  // No byte is worth more than a container that two of them make.
  if (text.size() < most_json_memory / 96) return false;
  Counter counter;
  nlohmann::json::sax_parse(text, &counter);
  return counter.exceeds();
}

}  // namespace llmtrain
