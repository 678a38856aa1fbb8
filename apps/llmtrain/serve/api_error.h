// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace llmtrain::app {

// What an answer says instead of what was asked for, in the form of OpenAI's interface.
class ApiError : public std::runtime_error {
 public:
  // `field`: of the request, which the message begins with; empty: none.
  ApiError(int status, const std::string& field, const std::string& message)
      : std::runtime_error(field.empty() ? message : field + ": " + message), status_(status), field_(field) {}

  int status() const { return status_; }
  const std::string& field() const { return field_; }

 private:
  int status_;
  std::string field_;
};

// As JSON.
std::string error_text(int status, const std::string& field, const std::string& message);

}  // namespace llmtrain::app
