// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/recipe/recipe_io.h"
#include "parallel/engine/trainer.h"
#include "tests/parallel/engine/lone_trainer.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {

// Bytes with some structure, so that there is something to learn.
inline std::string training_text() {
  std::string text;
  for (int i = 0; text.size() < 6000; ++i) text += "line " + std::to_string(i * i) + " of the text;\n";
  return text;
}

struct Run {
  std::vector<double> losses;
  std::vector<double> norms;
};

class TrainingSetting {
 public:
  TrainingSetting() { data_ = directory_.write("text.txt", training_text()).string(); }

  Recipe recipe(const std::vector<std::string>& overrides) const {
    std::string text = R"({"model": {"architecture": "llama", "layers": 3, "hidden_size": 32, "heads": 4,
      "kv_heads": 2, "ffn_hidden_size": 48, "vocab_size": 256, "max_sequence_length": 24},
      "data": {"train": [{"path": "DATA"}], "validation": [{"path": "DATA"}]},
      "batch": {"global": 8, "micro": 8},
      "training": {"steps": 20, "evaluate_batches": 2, "learning_rate": {"warmup_steps": 20}},
      "cluster": {"device": "cpu"}})";
    for (std::size_t at = text.find("DATA"); at != std::string::npos; at = text.find("DATA"))
      text.replace(at, 4, data_);
    return parse_recipe(text, "test", directory_.path(), overrides);
  }

  Run train(const std::vector<std::string>& overrides, std::int64_t steps = 6) const {
    LoneTrainer trainer(recipe(overrides));
    return train(trainer, steps);
  }

  static Run train(Trainer& trainer, std::int64_t steps) {
    Run run;
    for (std::int64_t i = 0; i < steps; ++i) {
      const StepResult result = trainer.step();
      run.losses.push_back(result.loss);
      run.norms.push_back(result.gradient_norm);
    }
    return run;
  }

  const TemporaryDirectory& directory() const { return directory_; }

 private:
  TemporaryDirectory directory_;
  std::string data_;
};

inline void check_close(const Run& a, const Run& b, double loss_tolerance, double norm_tolerance) {
  REQUIRE(a.losses.size() == b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    CHECK(a.losses[i] == Approx(b.losses[i]).epsilon(loss_tolerance));
    CHECK(a.norms[i] == Approx(b.norms[i]).epsilon(norm_tolerance));
  }
}

inline void check_equal(const Run& a, const Run& b) {
  CHECK(a.losses == b.losses);
  CHECK(a.norms == b.norms);
}

}  // namespace llmtrain::test
