// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/token_files/token_file_writer.h"

namespace llmtrain::test {

using TokenDocuments = std::vector<std::vector<TokenId>>;

// `data.train` of one token file; with an index of its documents in Megatron's format.
inline std::string train_on(const std::filesystem::path& prefix, TokenFileFormat format,
                            const TokenDocuments& documents) {
  TokenFileWriter writer(prefix, format, 256);
  for (const std::vector<TokenId>& document : documents) writer.add(document);
  writer.close();
  return R"(data.train=[{"path": ")" + writer.file().string() + R"("}])";
}

}  // namespace llmtrain::test
