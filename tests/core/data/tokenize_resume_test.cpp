// SPDX-License-Identifier: Apache-2.0
// A job that makes a token file goes on where another process was killed.
#include <zlib.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/file.h"
#include "core/token_files/token_file_writer.h"
#include "core/token_files/tokenize_files.h"
#include "core/tokenizer/byte_tokenizer.h"
#include "tests/core/data/data_files.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

namespace fs = std::filesystem;

const std::set<std::string> megatron_files{"a.bin", "a.idx", "a.skipped.json"};

std::string lines_of(int count, char letter) {
  std::string lines;
  for (int i = 0; i < count; ++i)
    lines += "{\"text\": \"" + std::string(static_cast<std::size_t>(i % 40), letter) + "\"}\n";
  return lines;
}

fs::path write_gzip(const fs::path& file, const std::string& text) {
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> stream(gzopen(file.c_str(), "wb"), gzclose);
  if (gzwrite(stream.get(), text.data(), static_cast<unsigned>(text.size())) != static_cast<int>(text.size()))
    throw std::runtime_error("the test cannot write " + file.string());
  return file;
}

// Its encoders take ten seconds for a text that is not abandoned.
class EndlessTokenizer final : public Tokenizer {
 public:
  bool all_abandoned() const { return all_abandoned_; }

  std::unique_ptr<TextEncoder> make_encoder() const override {
    class Encoder final : public TextEncoder {
     public:
      explicit Encoder(std::atomic<bool>& all_abandoned) : all_abandoned_(all_abandoned) {}
      void encode(std::string_view, std::vector<TokenId>&) override {
        for (int i = 0; i < 10000 && !is_abandoned(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (!is_abandoned()) all_abandoned_ = false;
      }

     private:
      std::atomic<bool>& all_abandoned_;
    };
    return std::make_unique<Encoder>(all_abandoned_);
  }
  std::string decode(std::span<const std::int64_t>) const override { return ""; }
  std::int64_t vocab_size() const override { return 256; }
  const DocumentMarks& marks() const override { return marks_; }

 private:
  DocumentMarks marks_;
  mutable std::atomic<bool> all_abandoned_{true};
};

// JSON Lines, plain and packed, and a text, in batches of a few lines; saved after each.
class Job {
 public:
  explicit Job(TokenFileFormat format) : format_(format) {
    job_ = {{input_.write("a.jsonl", "[]\n" + lines_of(30, 'a')),
             write_gzip(input_.path() / "b.jsonl.gz", lines_of(30, 'b')), input_.write("c.txt", "ccc"),
             input_.write("d.jsonl", "\n\n" + lines_of(5, 'd') + "[")},
            "text",
            1,
            128,
            0,
            OnBadLine::skip};
  }

  TokenizeJob& settings() { return job_; }
  fs::path output(const std::string& name) const { return output_.path() / name; }
  std::set<std::string> names() const { return names_in(output_.path()); }

  // Returns how many documents an interrupted writer had saved.
  std::int64_t run(const std::string& name) const {
    TokenFileWriter writer(output(name), format_, 256, description_of(job_, {}, "a format"));
    const std::int64_t resumed = writer.resumed().documents;
    tokenize_files(job_, ByteTokenizer(), writer, [](const TokenizeProgress&) {});
    writer.close();
    return resumed;
  }

  void expect_same(const std::string& one, const std::string& other) const {
    for (const char* ending : {".bin", ".idx", ".skipped.json"})
      if (fs::exists(output(one + ending))) CHECK(read_file(output(one + ending)) == read_file(output(other + ending)));
  }

 private:
  TokenFileFormat format_;
  TemporaryDirectory input_, output_;
  TokenizeJob job_;
};

// Kills the job before its system call number `call`.
bool kill_at(const Job& job, int call) {
  return killed_at_system_call(call, [&] { job.run("a"); });
}

}  // namespace

TEST_CASE("Killed at any moment, a job goes on and ends with the same files", "[exhaustive][one-thread][rights]") {
  if (!tracing_is_allowed()) return;
  const TokenFileFormat format = GENERATE(TokenFileFormat::megatron, TokenFileFormat::nanogpt, TokenFileFormat::llmc);
  const Job job(format);
  job.run("whole");
  std::set<std::int64_t> resumed;
  // Every second call, so that all calls are met in one format or another.
  for (int call = static_cast<int>(format); kill_at(job, call); call += 2) {
    INFO("killed in front of system call " << call);
    // Killed after its last step it has nothing left to do, and refuses to replace what it made.
    const bool is_complete = fs::exists(job.output("a.bin")) && !fs::exists(job.output("a.bin.progress"));
    if (!is_complete) resumed.insert(job.run("a"));
    job.expect_same("whole", "a");
    CHECK(job.names().size() == (format == TokenFileFormat::megatron ? 6 : 4));
    for (const char* name : {"a.bin", "a.idx", "a.skipped.json"}) fs::remove(job.output(name));
  }
  // From the beginning, from the end, and from many places between.
  CHECK(*resumed.begin() == 0);
  CHECK(resumed.size() > 8);
}

TEST_CASE("A job that is killed again and again ends with the same files", "[one-thread][rights]") {
  if (!tracing_is_allowed()) return;
  const Job job(TokenFileFormat::megatron);
  job.run("whole");
  int kills = 0;
  // Time enough for a few batches, and more each time: how many calls a batch takes depends on how often its threads
  // wait for each other, so that no fixed number leads to the end on every machine.
  while (kill_at(job, 100 + 7 * kills)) REQUIRE(++kills < 1000);
  CHECK(kills > 1);
  job.expect_same("whole", "a");
}

TEST_CASE("An interrupted job is not continued as another one", "[one-thread][rights]") {
  if (!tracing_is_allowed()) return;
  Job job(TokenFileFormat::megatron);
  // Until it has kept something: how many calls that takes is the machine's.
  for (int call = 150; kill_at(job, call) && !fs::exists(job.output("a.bin.progress")); call += 20) {
  }
  REQUIRE(fs::exists(job.output("a.bin.progress")));
  const fs::path partial = job.output("a.bin.partial");
  const auto before = fs::file_size(partial);
  job.settings().key = "body";
  require_error(ExitCode::cannot_write, {"a.bin.progress", "another key", "remove the file"}, [&] { job.run("a"); });
  job.settings().key = "text";
  const fs::path input = job.settings().files.back();
  fs::last_write_time(input, fs::last_write_time(input) + std::chrono::seconds(2));
  require_error(ExitCode::cannot_write, {"another list of texts"}, [&] { job.run("a"); });
  CHECK(fs::file_size(partial) == before);
  // Without what it says, or without what it speaks of, the job begins anew.
  fs::last_write_time(input, fs::last_write_time(input) - std::chrono::seconds(2));
  job.settings().on_bad_line = OnBadLine::stop;
  require_error(ExitCode::cannot_write, {"was skipped", "skip them again"}, [&] { job.run("a"); });
  job.settings().on_bad_line = OnBadLine::skip;
  fs::resize_file(partial, 3);
  CHECK(job.run("a") == 0);
  CHECK(job.names() == megatron_files);
}

TEST_CASE("A long document is abandoned where its wait is ended") {
  Job job(TokenFileFormat::nanogpt);
  job.settings().threads = 2;
  const EndlessTokenizer tokenizer;
  TokenFileWriter writer(job.output("a"), TokenFileFormat::nanogpt, 256, {});
  int reports = 0;
  require_error(ExitCode::stopped, {"while waiting"}, [&] {
    tokenize_files(job.settings(), tokenizer, writer, [&](const TokenizeProgress&) {
      // More than there are before the first wait.
      if (++reports > 5) throw stopped_while("waiting");
    });
  });
  CHECK(tokenizer.all_abandoned());
}

TEST_CASE("Two processes do not write one token file") {
  const Job job(TokenFileFormat::nanogpt);
  const TokenFileWriter writer(job.output("a"), TokenFileFormat::nanogpt, 256);
  require_error(ExitCode::cannot_write, {"a.bin.partial", "another process"}, [&] { job.run("a"); });
}

}  // namespace llmtrain::test
