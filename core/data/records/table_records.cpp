// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/table_records.h"

#include <dlfcn.h>

#include <string>

#include "core/base/error.h"
#include "core/data/records/input_stream.h"

namespace llmtrain {
namespace {

constexpr const char* part_file = "libllmtrain_arrow.so";

using OpenTable = RecordReader*(const char*);

OpenTable* find_part(const std::filesystem::path& file) {
  // By its bare name, so that it is found through the run path of the library or program that contains this code.
  void* const library = ::dlopen(part_file, RTLD_NOW | RTLD_LOCAL);
  void* const entry = library == nullptr ? nullptr : ::dlsym(library, "llmtrain_open_table");
  if (entry != nullptr) return reinterpret_cast<OpenTable*>(entry);
  const char* const reason = ::dlerror();
  throw Error(
      ExitCode::missing_input,
      file.string() + ": Parquet and Arrow files are read by " + part_file + ", which cannot be loaded (" +
          (reason != nullptr ? reason : "it has another version") +
          "); run scripts/setup and scripts/build where llmtrain's sources are (they install pyarrow, which has "
          "Arrow's libraries), or write the file as JSON Lines");
}

}  // namespace

bool is_column_table(const std::filesystem::path& file) {
  const auto extension = file.extension();
  return extension == ".parquet" || extension == ".arrow" || extension == ".feather";
}

std::unique_ptr<RecordReader> open_column_table(const std::filesystem::path& file) {
  open_input(file);
  return std::unique_ptr<RecordReader>(find_part(file)(file.c_str()));
}

}  // namespace llmtrain
