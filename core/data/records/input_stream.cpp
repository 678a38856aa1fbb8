// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/input_stream.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& file, const std::string& what) {
  throw Error(ExitCode::bad_data, file.string() + ": " + what);
}

class PlainStream final : public InputStream {
 public:
  explicit PlainStream(fs::path file) : file_(std::move(file)), stream_(file_, std::ios::binary) {
    std::error_code failure;
    if (stream_ && fs::is_regular_file(file_, failure)) return;
    if (!fs::exists(file_, failure)) throw Error(ExitCode::missing_input, file_.string() + ": no such file");
    refuse(file_, "cannot be opened");
  }

  std::size_t read(std::span<char> buffer) override {
    stream_.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    if (stream_.bad()) refuse(file_, "cannot be read");
    position_ += stream_.gcount();
    return static_cast<std::size_t>(stream_.gcount());
  }

  void skip(std::int64_t bytes) override {
    stream_.seekg(bytes, std::ios::cur);
    position_ += bytes;
  }

  std::int64_t position() const override { return position_; }

 private:
  fs::path file_;
  std::ifstream stream_;
  std::int64_t position_ = 0;
};

// RFC 1952; several members one after another are one file, as gzip reads them.
class GzipStream final : public InputStream {
 public:
  explicit GzipStream(const fs::path& file) : file_(file), stream_(gzopen(file.c_str(), "rb"), gzclose) {
    if (stream_ == nullptr) refuse(file_, "cannot be opened");
    // Larger blocks than zlib's 8 KiB, which cost more calls.
    gzbuffer(stream_.get(), 256 << 10);
    // zlib passes a file through that is none of its own.
    if (gzdirect(stream_.get()) != 0) refuse(file_, "is not a gzip file; rename it or compress it again");
  }

  std::size_t read(std::span<char> buffer) override {
    const auto most = static_cast<unsigned>(std::min<std::size_t>(buffer.size(), std::numeric_limits<int>::max()));
    const int count = gzread(stream_.get(), buffer.data(), most);
    int error = Z_OK;
    gzerror(stream_.get(), &error);
    if (count < 0 || error != Z_OK)
      refuse(file_, error == Z_BUF_ERROR ? "the gzip file is cut short; copy it again"
                                         : "the gzip file is damaged; copy it again");
    return static_cast<std::size_t>(count);
  }

  std::int64_t position() const override { return gzoffset(stream_.get()); }

 private:
  fs::path file_;
  std::unique_ptr<gzFile_s, decltype(&gzclose)> stream_;
};

// RFC 8878; several frames one after another are one file, as zstd reads them.
class ZstandardStream final : public InputStream {
 public:
  explicit ZstandardStream(const fs::path& file)
      : file_(file), packed_(file), context_(ZSTD_createDStream(), ZSTD_freeDStream), block_(ZSTD_DStreamInSize()) {
    if (context_ == nullptr) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, longest_window_log);
  }

  std::size_t read(std::span<char> buffer) override {
    ZSTD_outBuffer output{buffer.data(), buffer.size(), 0};
    while (output.pos < output.size) {
      if (input_.pos == input_.size) {
        input_ = {block_.data(), packed_.read(block_), 0};
        if (input_.size == 0) break;
      }
      frame_rest_ = ZSTD_decompressStream(context_.get(), &output, &input_);
      if (ZSTD_isError(frame_rest_) != 0) refuse_frame();
    }
    if (output.pos == 0 && frame_rest_ != 0) refuse(file_, "the zstd file is cut short; copy it again");
    return output.pos;
  }

  std::int64_t position() const override { return packed_.position(); }

 private:
  // Windows of up to 2 GiB, the longest that zstd writes (--long=31); memory is taken as the text fills it.
  static constexpr int longest_window_log = 31;

  [[noreturn]] void refuse_frame() const {
    switch (ZSTD_getErrorCode(frame_rest_)) {
      case ZSTD_error_frameParameter_windowTooLarge:
        refuse(file_,
               "the zstd file needs a window of more than 2 GiB to be unpacked, the longest that is supported; "
               "compress it again with --long=31 or less");
      case ZSTD_error_memory_allocation:
        refuse(file_,
               "there is no memory for the window that the zstd file needs to be unpacked, up to 2 GiB; compress "
               "it again without --long");
      default:
        refuse(file_, std::string("the zstd file is damaged: ") + ZSTD_getErrorName(frame_rest_) + "; copy it again");
    }
  }

  fs::path file_;
  PlainStream packed_;
  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> context_;
  std::vector<char> block_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  std::size_t frame_rest_ = 0;  // 0 between frames
};

}  // namespace

void InputStream::skip(std::int64_t bytes) {
  std::vector<char> block(std::size_t{1} << 20);
  while (bytes > 0) {
    const auto most = static_cast<std::size_t>(std::min(bytes, static_cast<std::int64_t>(block.size())));
    const std::size_t count = read(std::span(block).first(most));
    if (count == 0) return;
    bytes -= static_cast<std::int64_t>(count);
  }
}

bool is_compressed(const fs::path& file) { return file.extension() == ".gz" || file.extension() == ".zst"; }

std::unique_ptr<InputStream> open_input(const fs::path& file) {
  if (!is_compressed(file)) return std::make_unique<PlainStream>(file);
  // Also what the libraries would not report: whether there is such a file.
  PlainStream check(file);
  if (file.extension() == ".gz") return std::make_unique<GzipStream>(file);
  return std::make_unique<ZstandardStream>(file);
}

}  // namespace llmtrain
