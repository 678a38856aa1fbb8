// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/run_beginning.h"

#include <spdlog/fmt/fmt.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/base/error.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

// Also of what is not there any more.
fs::path comparable(const fs::path& path) {
  std::error_code error;
  fs::path found = fs::weakly_canonical(path, error);
  if (error) return path;
  return found.filename().empty() ? found.parent_path() : found;
}

// Whether it names the checkpoint itself, or the run whose checkpoint it is.
bool names(const fs::path& named, const fs::path& checkpoint) {
  const fs::path folder = checkpoint.parent_path();
  return named == checkpoint || (folder.filename() == "checkpoints" && named == folder.parent_path());
}

// checkpoint.resume of the recipe with which a checkpoint was written, if it is a path.
std::string resume_of(const CheckpointReader& checkpoint) {
  const nlohmann::ordered_json& recipe = checkpoint.state().recipe;
  const nlohmann::ordered_json::json_pointer key("/checkpoint/resume");
  if (!recipe.is_object() || !recipe.contains(key) || !recipe.at(key).is_string()) return "";
  const auto resume = recipe.at(key).get<std::string>();
  return names_checkpoint(resume) ? comparable(resume).string() : "";
}

}  // namespace

bool names_checkpoint(const std::string& resume) { return resume != "auto" && resume != "never"; }

void check_beginning(const CheckpointReader& own, const std::string& resume) {
  const fs::path named = comparable(resume), newest = comparable(own.folder());
  const std::string& began_from = own.state().began_from;
  if (names(named, newest) || named == resume_of(own) || (!began_from.empty() && names(named, began_from))) return;
  const bool is_own = named.parent_path() == newest.parent_path();
  throw Error(ExitCode::bad_recipe,
              fmt::format("{}: this run stands after step {} and did not begin with {}, which checkpoint.resume "
                          "(--resume) names; to start from that, choose a new --run-dir{}; to go on after step {}, set "
                          "checkpoint.resume to \"auto\"",
                          newest.parent_path().parent_path().string(), own.state().step, resume,
                          is_own ? ", or remove the checkpoints that follow it" : "", own.state().step));
}

std::string beginning_of(const CheckpointReader& own) {
  const std::string& began_from = own.state().began_from;
  if (!began_from.empty()) return began_from;
  const std::string resume = resume_of(own);
  return names(resume, comparable(own.folder())) ? "" : resume;
}

std::string beginning_with(const CheckpointReader& other) { return comparable(other.folder()).string(); }

}  // namespace llmtrain
