// SPDX-License-Identifier: Apache-2.0
#include "core/data/file_search.h"

#include <fnmatch.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>

#include "core/base/error.h"
#include "core/data/records/input_stream.h"
#include "core/data/records/table_records.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

bool has_wildcard(std::string_view text) { return text.find_first_of("*?[") != std::string_view::npos; }

// "build", "build-debug", "build.old", but not "builders".
bool is_build_folder(std::string_view name) {
  return name.starts_with("build") && (name.size() == 5 || std::isalnum(static_cast<unsigned char>(name[5])) == 0);
}

// A NUL byte near the start, the sign that grep and git use.
bool is_binary(const fs::path& file) {
  std::array<char, 8192> head{};
  std::ifstream stream(file, std::ios::binary);
  stream.read(head.data(), head.size());
  const auto end = head.begin() + stream.gcount();
  return std::find(head.begin(), end, '\0') != end;
}

std::vector<fs::directory_entry> entries(const fs::path& folder) {
  std::error_code failure;
  std::vector<fs::directory_entry> result;
  fs::directory_iterator entry(folder.empty() ? fs::path(".") : folder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) result.push_back(*entry);
  if (failure) throw Error(ExitCode::bad_data, folder.string() + ": cannot be listed: " + failure.message());
  return result;
}

// Links are followed; what cannot be examined is neither file nor folder.
fs::file_type type_of(const fs::path& path) {
  std::error_code ignored;
  return fs::status(path, ignored).type();
}

bool is_folder(const fs::path& path) { return type_of(path) == fs::file_type::directory; }

// Expands a pattern, component by component, into the regular files that match.
class Search {
 public:
  explicit Search(std::vector<std::string> parts) : parts_(std::move(parts)) {}

  std::set<std::string> from(const fs::path& folder) {
    expand(folder, 0);
    return std::move(found_);
  }

 private:
  void expand(const fs::path& folder, std::size_t part) {
    if (parts_[part] == "**") {
      expand_any_depth(folder, part);
    } else if (has_wildcard(parts_[part])) {
      expand_names(folder, part);
    } else {
      take(folder / parts_[part], part);
    }
  }

  void expand_any_depth(const fs::path& folder, std::size_t part) {
    // "**" also matches no folder at all.
    expand(folder, part + 1);
    for (const auto& entry : entries(folder)) {
      const std::string name = entry.path().filename().string();
      std::error_code ignored;
      // Links to folders are not followed: they could form a cycle.
      if (name.starts_with('.') || is_build_folder(name) || entry.is_symlink(ignored)) continue;
      if (is_folder(entry.path())) expand(folder / name, part);
    }
  }

  void expand_names(const fs::path& folder, std::size_t part) {
    const std::string& pattern = parts_[part];
    for (const auto& entry : entries(folder)) {
      const std::string name = entry.path().filename().string();
      if (::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) != 0) continue;
      // A wildcard does not find build folders; a pattern that begins with "build" asks for them.
      if (is_build_folder(name) && !pattern.starts_with("build") && is_folder(entry.path())) continue;
      take(folder / name, part);
    }
  }

  void take(const fs::path& path, std::size_t part) {
    if (part + 1 == parts_.size()) {
      if (type_of(path) == fs::file_type::regular) found_.insert(path.string());
    } else if (is_folder(path)) {
      expand(path, part + 1);
    }
  }

  std::vector<std::string> parts_;
  // Sorted, so that the order of the data does not depend on the order of folder entries; and each file once.
  std::set<std::string> found_;
};

std::vector<std::string> parts_of(const fs::path& pattern) {
  std::vector<std::string> parts;
  for (const auto& part : pattern.relative_path()) {
    // Two in a row match the same as one, but would visit every folder once per split between them.
    const bool repeated = part == "**" && !parts.empty() && parts.back() == "**";
    if (!part.empty() && !repeated) parts.push_back(part.string());
  }
  if (parts.back() == "**") parts.emplace_back("*");
  return parts;
}

std::vector<fs::path> usable(const std::set<std::string>& found, const std::string& path) {
  // A folder of text may contain token files made from it: read as text they would be nonsense, so they must be asked
  // for.
  const bool token_files = path.ends_with(".bin");
  std::vector<fs::path> files;
  for (const fs::path file : found) {
    const bool is_packed = is_compressed(file) || is_column_table(file);
    const bool is_text = !is_token_file(file) && (is_packed || !is_binary(file));
    if (token_files || is_text) files.push_back(file);
  }
  if (!files.empty()) return files;
  throw Error(ExitCode::bad_data, "'" + path + "': contains no usable file (" + std::to_string(found.size()) +
                                      " examined); hidden files, build folders and binary files are skipped, and "
                                      "token files are found by a pattern that ends in .bin only");
}

std::vector<fs::path> matches(const std::string& pattern) {
  std::vector<std::string> parts = parts_of(pattern);
  fs::path folder = fs::path(pattern).root_path();
  // Folders may have wildcards in their names, too: as far as the path exists it is no pattern.
  while (parts.size() > 1 && parts.front() != "**" && is_folder(folder / parts.front())) {
    folder /= parts.front();
    parts.erase(parts.begin());
  }
  const auto found = Search(std::move(parts)).from(folder);
  if (!found.empty()) return usable(found, pattern);
  throw Error(ExitCode::missing_input, "'" + pattern +
                                           "': no file matches this pattern; '*' and '?' stay within one name and skip "
                                           "hidden ones, '**' matches any number of folders");
}

// The files of a folder that `datasets` has saved (save_to_disk), which describes them in texts beside them.
std::vector<fs::path> saved_dataset(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : entries(folder))
    if (entry.path().extension() == ".arrow") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  const auto has = [&](const char* name) { return type_of(folder / name) == fs::file_type::regular; };
  if (has("dataset_dict.json")) {
    std::string splits;
    for (const fs::directory_entry& entry : entries(folder))
      if (is_folder(entry.path())) splits += (splits.empty() ? "" : ", ") + entry.path().string();
    throw Error(ExitCode::bad_data,
                "'" + folder.string() + "': holds several splits of a dataset; name the folder of one: " + splits);
  }
  if (has("state.json") && has("dataset_info.json"))
    if (auto files = saved_dataset(folder); !files.empty()) return files;
  return usable(Search({"**", "*"}).from(folder), folder.string());
}

// "https://…" and the like, of which a path that has been made absolute keeps "https:" as the name of a folder.
bool looks_like_address(const std::string& path) {
  return std::ranges::any_of(fs::path(path), [](const fs::path& part) {
    const std::string name = part.string();
    return name.size() > 1 && name.ends_with(':');
  });
}

}  // namespace

std::vector<fs::path> find_files(const std::string& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (fs::is_regular_file(status)) return {path};
  if (fs::is_directory(status)) return files_in(path);
  // A file may have a wildcard in its name: what exists is taken literally.
  if (has_wildcard(path) && !fs::exists(status)) return matches(path);
  if (status.type() == fs::file_type::not_found) {
    const char* const instead = looks_like_address(path) ? "download what is at an address, and give that file"
                                                         : "give a file, a folder or a glob that exists";
    throw Error(ExitCode::missing_input, "'" + path + "': no such file; " + instead);
  }
  // A pipe or device has no size and could block.
  const std::string reason = failure ? "cannot be opened: " + failure.message() : "is neither a file nor a folder";
  throw Error(ExitCode::bad_data, "'" + path + "': " + reason);
}

bool is_token_file(const fs::path& file) { return file.extension() == ".bin"; }

std::string versions_of(const std::vector<fs::path>& files) {
  std::string text;
  for (const fs::path& file : files) {
    std::error_code size_unknown, time_unknown;
    const auto size = fs::file_size(file, size_unknown);
    const auto changed = fs::last_write_time(file, time_unknown).time_since_epoch().count();
    text += fmt::format("{}\n{} {}\n", file.string(), size_unknown ? 0 : size, time_unknown ? 0 : changed);
  }
  return text;
}

}  // namespace llmtrain
