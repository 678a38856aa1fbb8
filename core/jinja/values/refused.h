// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace llmtrain::jinja {

// Why an operation on values cannot be done, in words; the template's line is added where the template is known.
class Refused : public std::runtime_error {
 public:
  explicit Refused(const std::string& reason) : std::runtime_error(reason) {}
};

}  // namespace llmtrain::jinja
