// SPDX-License-Identifier: Apache-2.0
// Several writers of one checkpoint, of which one is killed in front of each of its system calls.
#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint_folder.h"
#include "core/checkpoint/checkpoint_part.h"
#include "tests/core/checkpoint/checkpoint_fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;
using test::SampleCheckpoint;
using test::TemporaryDirectory;

constexpr std::size_t pair_size = 2;
constexpr std::int64_t saved_step = 2;

// The sample's slices, every second one written by the same writer.
class Writers {
 public:
  explicit Writers(const SampleCheckpoint& sample) : state_(sample.state()) {
    state_.step = saved_step;
    for (std::size_t i = 0; i < sample.slices().size(); ++i) slices_[i % pair_size].push_back(sample.slices()[i]);
    for (const auto& slices : slices_) parts_.emplace_back(slices, 200);
  }

  CheckpointPart write(std::size_t writer, const fs::path& checkpoints) const {
    const std::size_t before = writer == 0 ? 0 : parts_[0].files();
    return parts_[writer].write(aside(checkpoints), {before, parts_[0].files() + parts_[1].files()});
  }
  void commit(const fs::path& checkpoints, const std::vector<CheckpointPart>& parts) const {
    commit_checkpoint(checkpoints, aside(checkpoints), state_, parts, 1);
  }
  // All that the ranks of a run do to save the step.
  void save(const fs::path& checkpoints) const {
    clear_leftovers(checkpoints);
    std::vector<CheckpointPart> parts;
    for (std::size_t writer = 0; writer < pair_size; ++writer) parts.push_back(write(writer, checkpoints));
    commit(checkpoints, parts);
  }

 private:
  static fs::path aside(const fs::path& checkpoints) { return checkpoint_aside(checkpoints, saved_step, "4711"); }

  CheckpointState state_;
  std::array<std::vector<TensorSlice>, pair_size> slices_;
  std::vector<PartWriter> parts_;
};

// A folder with an older checkpoint, in which the writers of a newer one are killed.
class Scene {
 public:
  Scene() { older_.write(folder_.path() / "before", 1); }

  // Kills `work` before each of its system calls in turn, after `prepare`; returns their number. Whatever is left, one
  // of the two checkpoints is found whole, and saving the step again succeeds.
  int kill_each(const std::function<void()>& prepare, const std::function<void()>& work) {
    for (int call = 0;; ++call) {
      fs::remove_all(checkpoints());
      fs::copy(folder_.path() / "before", checkpoints(), fs::copy_options::recursive);
      prepare();
      const bool was_killed = test::killed_at_system_call(call, work);
      INFO("killed in front of system call " << call);
      check();
      if (!was_killed) return call;
    }
  }

  fs::path checkpoints() const { return folder_.path() / "checkpoints"; }
  const Writers& all() const { return writers_; }
  bool was_older() const { return was_older_; }
  bool was_newer() const { return was_newer_; }

 private:
  void check() {
    std::vector<std::string> skipped;
    const auto found = test::find_checkpoint(checkpoints(), skipped);
    REQUIRE(found);
    const bool is_newer = found == checkpoints() / "step-00000002";
    REQUIRE((is_newer ? newer_ : older_).is_in(*found));
    (is_newer ? was_newer_ : was_older_) = true;
    writers_.save(checkpoints());
    REQUIRE(newer_.is_in(checkpoints() / "step-00000002"));
    REQUIRE(test::find_checkpoint(checkpoints(), skipped) == checkpoints() / "step-00000002");
    REQUIRE(std::distance(fs::directory_iterator(checkpoints()), {}) == 2);
  }

  TemporaryDirectory folder_;
  SampleCheckpoint older_{1}, newer_{2};
  Writers writers_{newer_};
  bool was_older_ = false, was_newer_ = false;
};

TEST_CASE("a writer that is killed at any point of its part leaves the older checkpoint", "[one-thread][rights]") {
  if (!test::tracing_is_allowed()) return;
  for (std::size_t killed = 0; killed < pair_size; ++killed) {
    Scene scene;
    // The other writer may be anywhere: before its part, or done.
    const int calls = scene.kill_each([] {}, [&] { scene.all().write(killed, scene.checkpoints()); });
    CHECK(calls > 10);
    scene.kill_each([&] { scene.all().write(1 - killed, scene.checkpoints()); },
                    [&] { scene.all().write(killed, scene.checkpoints()); });
    CHECK(scene.was_older());
    CHECK(!scene.was_newer());
  }
}

TEST_CASE("a writer that is killed at any point of the commit leaves the older or the newer checkpoint",
          "[one-thread][rights]") {
  if (!test::tracing_is_allowed()) return;
  Scene scene;
  std::vector<CheckpointPart> parts;
  const auto prepare = [&] {
    parts.clear();
    for (std::size_t writer = 0; writer < pair_size; ++writer)
      parts.push_back(scene.all().write(writer, scene.checkpoints()));
  };
  const int calls = scene.kill_each(prepare, [&] { scene.all().commit(scene.checkpoints(), parts); });
  CHECK(calls > 10);
  CHECK(scene.was_older());
  CHECK(scene.was_newer());
}

}  // namespace
}  // namespace llmtrain
