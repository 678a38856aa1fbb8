// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace llmtrain {

// The files that a source's `path` names, sorted by the bytes of their paths, each once:
// - a file: itself, whatever its content;
// - a folder: every regular file below it, and of one that datasets' save_to_disk has made its .arrow files alone;
// - a glob: every regular file that matches. `*`, `?` and `[…]` match within a name, `**` any number of folders. The
//   folders at its beginning that exist by these names, wildcards or not, are taken literally.
// Searches (folders and globs) leave out hidden files and folders, folders named "build" or "build-…" and binary files
// (a NUL byte in the first 8 KiB) that are neither compressed text (.gz, .zst) nor tables (.parquet, .arrow, .feather),
// unless a part of the pattern starts with "." or "build" itself. Token files (.bin) are found only by a glob that ends
// in ".bin"; these are not checked for NUL bytes. `**` and folders do not follow links to folders.
//
// Throws Error(missing_input) when there is no such file or no match, Error(bad_data) when the path is neither file nor
// folder, a folder cannot be listed, or a search finds no usable file.
std::vector<std::filesystem::path> find_files(const std::string& path);

// Whether a file holds token ids (core/data/token_source.h), by the end of its name: all others are read as text.
bool is_token_file(const std::filesystem::path& file);

// The files' paths, sizes and times of change: differs where one of them has been replaced. What cannot be read of a
// file is 0.
std::string versions_of(const std::vector<std::filesystem::path>& files);

}  // namespace llmtrain
