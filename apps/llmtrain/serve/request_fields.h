// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/json_text.h"

namespace llmtrain::app {

// The fields of a request's JSON object, each asked for by name. null stands for a field that is not there. Everything
// throws ApiError with status 400 that names the field.
class RequestFields {
 public:
  // Throws also where the text is not JSON, or no object, or has a field twice.
  explicit RequestFields(std::string_view body);

  // null where it is not there.
  const Json& value(const std::string& name);
  std::optional<std::int64_t> whole_number(const std::string& name, std::int64_t least, std::int64_t most);
  std::optional<double> number(const std::string& name, double least, double most);
  bool flag(const std::string& name);
  std::optional<std::string> text(const std::string& name);
  // A text or a list of texts, none of which is empty.
  std::vector<std::string> texts(const std::string& name, std::size_t most);

  // Fields that may stand there and change nothing.
  void ignore(const std::vector<std::string>& names);
  // A field that is refused but for `value`, which means that it is not used; `why` says what to do.
  void require_unused(const std::string& name, const Json& value, const std::string& why);
  // Refuses what nobody has asked for.
  void require_known() const;

 private:
  Json object_;
  std::set<std::string> known_;
};

// The ids of a list of tokens; `name` is the field's. Throws ApiError with status 400 where it is something else.
std::vector<std::int64_t> token_ids_of(const Json& list, const std::string& name);

}  // namespace llmtrain::app
