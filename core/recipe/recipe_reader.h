// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/json/document.h"
#include "core/recipe/keys/key_visitor.h"

namespace llmtrain {

// A value as the recipe gives it. What is wrong with it is one problem, which states the rule that the key has.
class WrittenValue {
 public:
  // `folder` is the base of relative paths in the recipe itself; those from `--set` are relative to the working
  // directory.
  struct Source {
    const Document& document;
    const std::filesystem::path& folder;
    Problems& problems;
  };

  // `words` follow "must be ".
  WrittenValue(const Json& json, std::string pointer, const std::string& words, const Source& source);
  // The value at a key or an index of this one.
  WrittenValue child(const std::string& key, const Json& json, const std::string& words) const;

  const Json& json() const { return json_; }

  // The value where it is valid, else none and a problem.
  std::optional<std::int64_t> whole_number(IntegerRange range) const;
  std::optional<double> number(NumberRange range) const;
  std::optional<bool> boolean() const;
  std::optional<std::size_t> word(Words words) const;           // its index
  std::optional<std::string> text(const TextRule& rule) const;  // with an absolute path

  void refuse(const std::string& what, const std::string& hint = "") const;
  void refuse_type(const std::string& hint = "") const;
  // Each key of the object that is not in `known`.
  void refuse_unknown_keys(Words known) const;

 private:
  std::string resolved(const std::string& text, const TextRule& rule) const;

  const Json& json_;
  std::string pointer_;
  std::string rule_;
  const Source& source_;
};

// The recipe of a document, before any rule between keys is applied: checks every value on its own, fills in defaults,
// reports unknown and missing keys. A wrong value leaves its member's default and one problem. `folder` is the base of
// relative paths in the recipe itself; those from `--set` are relative to the working directory.
Recipe read_keys(const Document& document, const std::filesystem::path& folder, Problems& problems);

}  // namespace llmtrain
