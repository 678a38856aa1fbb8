// SPDX-License-Identifier: Apache-2.0
#include "core/token_files/tokenize_journal.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/json/json_memory.h"

namespace llmtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr int version = 1;

Json object_of(const JobDescription& job) {
  Json object = Json::object();
  for (const auto& [name, value] : job) object[name] = value;
  return object;
}

JobState state_of(const Json& json) {
  JobState state;
  state.next.file = json.at("file").get<std::size_t>();
  state.next.offset = json.at("offset").get<std::int64_t>();
  state.next.line = json.at("line").get<std::int64_t>();
  state.tokens = json.at("tokens").get<std::int64_t>();
  state.documents = json.at("documents").get<std::int64_t>();
  state.text_bytes = json.at("text_bytes").get<std::int64_t>();
  if (json.contains("bad_lines")) state.bad_lines = BadLines::of_json(json["bad_lines"]);
  return state;
}

}  // namespace

std::optional<JobState> TokenizeJournal::read() const {
  if (!path_exists(file_)) return std::nullopt;
  const std::string text = read_file(file_);
  const Json json = is_too_large_json(text) ? Json() : Json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("version", 0) != version || !json.contains("job")) return std::nullopt;
  for (const auto& [name, value] : job_)
    if (json["job"].value(name, "") != value)
      throw Error(ExitCode::cannot_write, file_.string() + ": a job that was interrupted left it, with another " +
                                              name +
                                              "; repeat that job to end it, remove the file to begin anew, or name "
                                              "another output");
  try {
    return state_of(json);
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

void TokenizeJournal::write(const JobState& state) const {
  const Json json = {
      {"version", version},           {"job", object_of(job_)},         {"file", state.next.file},
      {"offset", state.next.offset},  {"line", state.next.line},        {"tokens", state.tokens},
      {"documents", state.documents}, {"text_bytes", state.text_bytes}, {"bad_lines", state.bad_lines.json()}};
  write_file_atomically(file_, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace llmtrain
