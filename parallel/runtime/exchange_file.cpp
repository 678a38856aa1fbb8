// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/exchange_file.h"

#include <utility>

#include "core/base/file.h"
#include "core/base/log.h"
#include "parallel/comm/agreement.h"
#include "parallel/engine/exchange_record.h"

namespace llmtrain {
namespace {

std::filesystem::path file_in(const std::filesystem::path& folder) { return folder / "exchange.json"; }

}  // namespace

void use_exchange_file(const std::filesystem::path& folder, const LocalModel& model) {
  if (!tries_exchanges(model)) return;
  std::string text;
  const bool is_first = model.groups().is_first();
  if (is_first && path_exists(file_in(folder))) text = read_file(file_in(folder));
  text = share_text(model.groups().communicator(), text);
  if (text.empty()) return;
  const bool is_used = use_exchange_record(model, text);
  if (!is_first) return;
  if (is_used) {
    log().info("experts exchange rows as {} says", file_in(folder).string());
  } else {
    log().info("{} is of another layout: the experts' exchanges are tried again", file_in(folder).string());
  }
}

ExchangeFile::ExchangeFile(std::filesystem::path folder, const LocalModel& model)
    : folder_(std::move(folder)), model_(model) {
  if (const ExchangeTuner* tuner = model_.groups().mixture.tuner()) is_final_.resize(tuner->current().size());
}

std::vector<std::string> ExchangeFile::note() {
  std::vector<std::string> notes;
  const SplitTuner* splits = model_.groups().mixture.split_tuner();
  if (splits != nullptr && splits->is_final() && !std::exchange(has_split_, true)) notes.push_back(split_text(*splits));
  const ExchangeTuner* tuner = model_.groups().mixture.tuner();
  for (std::size_t bucket = 0; bucket < is_final_.size(); ++bucket) {
    if (is_final_[bucket] || !tuner->current()[bucket].is_final) continue;
    is_final_[bucket] = true;
    notes.push_back(exchange_text(*tuner, bucket));
  }
  if (!notes.empty()) write();
  return notes;
}

void ExchangeFile::write() const {
  if (tries_exchanges(model_)) write_file_atomically(file_in(folder_), exchange_record(model_));
}

}  // namespace llmtrain
