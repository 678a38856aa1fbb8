// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/mpirun/shared_files.h"

#include <spdlog/fmt/fmt.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <system_error>

#include "core/base/error.h"
#include "core/base/units.h"

namespace llmtrain::app {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t mebibyte = 1 << 20;
// What Open MPI 4.1 allocates: two segments of PMIx of 4 MiB each and small files, some of them for each rank; and a
// segment of 4 MiB of shared memory for each rank, which begins sparse.
constexpr std::int64_t session_bytes = 8 * mebibyte + 256 * 1024, session_bytes_per_rank = 8 * 1024;
constexpr std::int64_t memory_bytes_per_rank = 4 * mebibyte;

struct ParentFolder {
  std::string name;  // of the setting that names it
  fs::path folder;
};

// A setting of Open MPI's, from its environment variable or the user's file of lines "name = value".
std::optional<ParentFolder> setting(const std::string& name) {
  const std::string variable = "OMPI_MCA_" + name;
  if (const char* value = std::getenv(variable.c_str())) return ParentFolder{variable, value};
  const char* home = std::getenv("HOME");
  if (home == nullptr) return std::nullopt;
  const fs::path file = fs::path(home) / ".openmpi" / "mca-params.conf";
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const auto equals = line.find('=');
    const auto trimmed = [](const std::string& text) {
      const auto first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
      return first == std::string::npos ? std::string() : text.substr(first, last + 1 - first);
    };
    if (equals == std::string::npos || trimmed(line.substr(0, equals)) != name) continue;
    return ParentFolder{name + " in " + file.string(), trimmed(line.substr(equals + 1))};
  }
  return std::nullopt;
}

ParentFolder session_parent() {
  if (auto place = setting("orte_tmpdir_base")) return *place;
  for (const char* name : {"TMPDIR", "TEMP", "TMP"})
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return {name, value};
  return {"TMPDIR", "/tmp"};
}

// None where ranks exchange in another way, or keep the segments in the session's folder.
std::optional<ParentFolder> memory_parent() {
  const char* ways = std::getenv("OMPI_MCA_btl");
  const char* messages = std::getenv("OMPI_MCA_pml");
  if (ways != nullptr && std::string(ways).find("vader") == std::string::npos) return std::nullopt;
  if (messages != nullptr && std::string(messages) != "ob1") return std::nullopt;
  if (auto place = setting("btl_vader_backing_directory")) return place;
  // As Open MPI decides it.
  return ::access("/dev/shm", W_OK) == 0 ? std::optional(ParentFolder{"", "/dev/shm"}) : std::nullopt;
}

[[noreturn]] void refuse_place(const ParentFolder& place, const std::string& what, std::int64_t bytes) {
  const std::string remedy = place.name.empty()
                                 ? "enlarge it (a container's: docker run --shm-size)"
                                 : fmt::format("set {} to a folder with room for {}", place.name, format_bytes(bytes));
  throw Error(ExitCode::cannot_write,
              fmt::format("{}: {}, where ranks that are processes exchange: {}, or set launch.backend to \"local\"",
                          place.folder.string(), what, remedy));
}

void require_room(const ParentFolder& place, std::int64_t bytes) {
  struct statvfs space {};
  if (::statvfs(place.folder.c_str(), &space) != 0) return;
  const auto free = static_cast<std::int64_t>(space.f_bavail * space.f_frsize);
  if (free < bytes)
    refuse_place(place, format_bytes(free) + " are free, and " + format_bytes(bytes) + " needed", bytes);
  constexpr fsfilcnt_t least_files = 64;
  if (space.f_files > 0 && space.f_favail < least_files) refuse_place(place, "no file can be added", bytes);
}

void make_folder(std::optional<ScratchFolder>& folder, const ParentFolder& place, std::int64_t bytes,
                 const char* setting_name) {
  // As Open MPI does. What comes next fails where this has failed.
  std::error_code failed;
  fs::create_directories(place.folder, failed);
  ScratchFolder::remove_abandoned(place.folder);
  require_room(place, bytes);
  try {
    folder.emplace(fs::absolute(place.folder));
  } catch (const fs::filesystem_error& failure) {
    refuse_place(place, "nothing can be written: " + failure.code().message(), bytes);
  }
  ::setenv(setting_name, folder->path().c_str(), 1);
}

}  // namespace

SharedFiles::SharedFiles(std::int64_t ranks) {
  std::int64_t bytes = session_bytes + ranks * session_bytes_per_rank;
  const std::optional<ParentFolder> memory = memory_parent();
  if (memory) {
    make_folder(memory_, *memory, ranks * memory_bytes_per_rank, "OMPI_MCA_btl_vader_backing_directory");
  } else {
    bytes += ranks * memory_bytes_per_rank;
  }
  make_folder(session_, session_parent(), bytes, "OMPI_MCA_orte_tmpdir_base");
}

}  // namespace llmtrain::app
