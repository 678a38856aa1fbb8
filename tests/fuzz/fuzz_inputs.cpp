// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/fuzz_inputs.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/checkpoint/manifest.h"
#include "core/checkpoint/safetensors.h"
#include "core/data/token_formats.h"

namespace llmtrain::fuzz {
namespace {

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

void require(bool holds, const char* what) {
  if (!holds) fail(what);
}

// Whether `read` returns; false where it throws the error that a bad file is.
bool accepts(const std::function<void()>& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    require(error.code() == ExitCode::bad_data, error.what());
    return false;
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

// A file in memory, without a name.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "no memory for a file");
    require(::write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "a short write");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

// The manifest's text with its own hash, without which hardly any change would get past the first check.
std::string sealed(std::string_view text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return std::string(text) + ",\n\"sha256\": \"" + hash.hexadecimal() + "\"\n}\n";
}

void parse_and_write(const std::string& text, Coverage coverage) {
  const Manifest manifest = parse_manifest(text, "a manifest", coverage);
  const std::string again = manifest_text(manifest);
  require(manifest_text(parse_manifest(again, "a manifest", coverage)) == again, "another manifest after writing it");
}

}  // namespace

void safetensors(std::string_view bytes) {
  const MemoryFile memory(bytes);
  accepts([&] {
    const SafetensorsFile file(memory.path());
    std::size_t total = 0;
    unsigned sum = 0;
    for (const SafetensorsEntry& entry : file.entries()) {
      require(file.find(entry.name) != nullptr, "a tensor that is not found");
      // Reads every byte that the file promises.
      for (const std::byte byte : file.bytes(entry)) sum += static_cast<unsigned>(byte);
      total += file.bytes(entry).size();
    }
    require(total <= bytes.size() && sum <= 255 * bytes.size(), "more bytes than the file has");
  });
}

void manifest(std::string_view bytes) {
  for (const Coverage coverage : {Coverage::whole, Coverage::part}) {
    accepts([&] { parse_and_write(std::string(bytes), coverage); });
    accepts([&] { parse_and_write(sealed(bytes), coverage); });
  }
}

void token_index(std::string_view bytes) {
  const MemoryFile memory(bytes);
  accepts([&] {
    const MegatronIndex index = read_megatron_index(memory.path());
    require(index.tokens >= 0 && index.documents >= 0, "a negative count");
  });
}

}  // namespace llmtrain::fuzz
