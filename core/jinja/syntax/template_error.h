// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace llmtrain::jinja {

// What is wrong with a template, or with what it is given: "line 3: 'messages' is undefined".
class TemplateError : public std::runtime_error {
 public:
  TemplateError(int line, const std::string& reason)
      : std::runtime_error("line " + std::to_string(line) + ": " + reason), line_(line), reason_(reason) {}

  int line() const { return line_; }  // of the template, counted from 1
  const std::string& reason() const { return reason_; }

 private:
  int line_;
  std::string reason_;
};

}  // namespace llmtrain::jinja
