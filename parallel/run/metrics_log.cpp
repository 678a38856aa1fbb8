// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/metrics_log.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/json/json_memory.h"
#include "core/machine/host_name.h"

namespace llmtrain {
namespace {

// Protocol buffers' wire types.
enum class Wire { varint = 0, eight_bytes = 1, bytes = 2, four_bytes = 5 };

// CRC-32C, whose polynomial 0x1EDC6F41 is reversed here because bits are taken from the lowest on.
constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = (table[i] >> 1) ^ ((table[i] & 1) != 0 ? 0x82F63B78u : 0u);
  }
  return table;
}

constexpr auto crc_table = make_crc_table();

// CRCs of data that contain CRCs are weak, so records store them rotated and offset (TensorFlow's masked CRC).
std::uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u; }

void put_little_endian(std::string& out, std::uint64_t bits, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(bits >> (8 * i)));
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_key(std::string& out, std::uint64_t field, Wire wire) {
  put_varint(out, field << 3 | static_cast<std::uint64_t>(wire));
}

void put_integer(std::string& out, std::uint64_t field, std::int64_t value) {
  put_key(out, field, Wire::varint);
  put_varint(out, static_cast<std::uint64_t>(value));
}

void put_bytes(std::string& out, std::uint64_t field, std::string_view bytes) {
  put_key(out, field, Wire::bytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// tensorflow.Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7.
std::string make_event(std::int64_t step, std::uint64_t field, std::string_view content) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  put_key(event, 1, Wire::eight_bytes);
  put_little_endian(event, std::bit_cast<std::uint64_t>(now.count()), 8);
  put_integer(event, 2, step);
  put_bytes(event, field, content);
  return event;
}

// tensorflow.Summary.Value: tag = 1, simple_value = 2.
std::string make_value(const TensorboardScalar& scalar) {
  std::string value;
  put_bytes(value, 1, scalar.tag);
  put_key(value, 2, Wire::four_bytes);
  put_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)), 4);
  return value;
}

std::filesystem::path new_file(const std::filesystem::path& directory) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::string stem =
      fmt::format("events.out.tfevents.{}.{}.{}.", now.time_since_epoch().count(), host_name(), ::getpid());
  // A process may resume within a second: the number keeps names unique.
  int number = 0;
  while (std::filesystem::exists(directory / (stem + std::to_string(number)))) ++number;
  return directory / (stem + std::to_string(number));
}

// The first step whose rows this process writes. A new run starts at 0, the evaluation before its first step.
std::int64_t first_step(std::int64_t steps_done) { return steps_done == 0 ? 0 : steps_done + 1; }

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

// 17 digits identify a double exactly, so that tests can compare losses bit by bit.
std::string exact_number(double value) { return std::isfinite(value) ? fmt::format("{:.17g}", value) : "null"; }

std::optional<std::int64_t> step_of(std::string_view line) {
  if (is_too_large_json(line)) return std::nullopt;
  const auto row = nlohmann::json::parse(line, nullptr, false);
  if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer()) return std::nullopt;
  return row["step"].get<std::int64_t>();
}

// What a run that has done some steps writes again.
struct Repeated {
  std::int64_t first = 0;                  // all rows from this step on
  std::optional<std::int64_t> evaluation;  // of this step, too
};

bool writes_again(const Repeated& repeated, std::int64_t step, std::string_view line) {
  return step >= repeated.first || (step == repeated.evaluation && line.find("validation_loss") != std::string::npos);
}

// The rows that are not written again; `unreadable` counts lines that are not rows, such as an incomplete last line.
std::string rows_that_stay(std::string_view text, const Repeated& repeated, int& unreadable) {
  std::string kept;
  for (std::size_t end = 0; !text.empty(); text.remove_prefix(end)) {
    const std::size_t newline = text.find('\n');
    const bool torn = newline == std::string_view::npos;
    end = torn ? text.size() : newline + 1;
    const auto step = torn ? std::nullopt : step_of(text.substr(0, newline));
    if (!step) ++unreadable;
    if (step && !writes_again(repeated, *step, text.substr(0, end))) kept += text.substr(0, end);
  }
  return kept;
}

// A resumed run repeats the steps after its checkpoint and writes their rows again.
std::filesystem::path cut_to(const std::filesystem::path& file, const Repeated& repeated) {
  if (!std::filesystem::exists(file)) return file;
  const std::string text = read_file(file);
  int unreadable = 0;
  const std::string kept = rows_that_stay(text, repeated, unreadable);
  if (unreadable > 0)
    log().warn("{}: dropped {} that a crash left incomplete", file.string(),
               unreadable == 1 ? "a row" : fmt::format("{} rows", unreadable));
  // Replaced as a whole, so that a crash here cannot lose the rows that are kept.
  if (kept.size() != text.size()) write_file_atomically(file, kept);
  return file;
}

// Columns that follow the others of a row.
std::string optional_column(std::string_view name, const std::optional<double>& value) {
  return value ? fmt::format(R"(,"{}":{})", name, number(*value)) : "";
}

std::string fp8_kinds(const std::vector<Fp8Row>& kinds) {
  std::string objects;
  for (const Fp8Row& kind : kinds) {
    objects += fmt::format(R"({}"{}":{{"amax":{},"smallest_scale":{},"largest_scale":{},"saturated_share":{},)"
                           R"("underflowed_share":{},"snr_db":{}}})",
                           objects.empty() ? "" : ",", kind.kind, number(kind.amax), number(kind.smallest_scale),
                           number(kind.largest_scale), number(kind.saturated_share), number(kind.underflowed_share),
                           number(kind.signal_to_noise));
  }
  return objects.empty() ? "" : fmt::format(R"(,"fp8":{{{}}})", objects);
}

// Names are those of a model, or of figures, so that they need no escapes.
std::string named_numbers(const char* member, const std::vector<LossTermRow>& numbers) {
  std::string columns;
  for (const LossTermRow& one : numbers)
    columns += fmt::format(R"({}"{}":{})", columns.empty() ? "" : ",", one.name, exact_number(one.value));
  return columns.empty() ? "" : fmt::format(R"(,"{}":{{{}}})", member, columns);
}

std::string loss_terms(const std::vector<LossTermRow>& terms) { return named_numbers("loss_terms", terms); }

// Names are the recipe's.
std::string set_losses(const std::vector<LossTermRow>& sets) {
  std::string columns;
  for (const LossTermRow& set : sets)
    columns +=
        fmt::format("{}{}:{}", columns.empty() ? "" : ",", nlohmann::json(set.name).dump(), exact_number(set.value));
  return columns.empty() ? "" : fmt::format(R"(,"validation_losses":{{{}}})", columns);
}

std::string routing_columns(const std::optional<RoutingRow>& routing) {
  if (!routing) return "";
  return fmt::format(R"(,"balance_loss":{},"z_loss":{},"dropped_share":{},"expert_load":{},"router_entropy":{})",
                     number(routing->balance_loss), number(routing->z_loss), number(routing->dropped_share),
                     number(routing->expert_load), number(routing->router_entropy));
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) noexcept {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const char byte : bytes) crc = (crc >> 8) ^ crc_table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

TensorboardWriter::TensorboardWriter(const std::filesystem::path& directory, std::int64_t first_step)
    : file_(new_file(directory)) {
  // TensorBoard expects this version record at the start of a file.
  write_record(make_event(0, 3, "brain.Event:2"));
  std::string session;
  put_integer(session, 1, 1);  // tensorflow.SessionLog: status = START, which discards older points from this step on
  write_record(make_event(first_step, 7, session));
}

void TensorboardWriter::write(std::int64_t step, std::initializer_list<TensorboardScalar> scalars) {
  std::string summary;
  for (const TensorboardScalar& scalar : scalars) put_bytes(summary, 1, make_value(scalar));
  write_record(make_event(step, 5, summary));
}

// TFRecord: length, masked CRC of the length, data, masked CRC of the data.
void TensorboardWriter::write_record(std::string_view data) {
  std::string record;
  put_little_endian(record, data.size(), 8);
  put_little_endian(record, masked_crc(record), 4);
  record += data;
  put_little_endian(record, masked_crc(data), 4);
  file_.append(record);
}

MetricsLog::MetricsLog(const std::filesystem::path& run_directory, const LogRecipe& recipe, std::int64_t steps_done,
                       bool repeats_evaluation)
    : file_(cut_to(run_directory / "metrics.jsonl",
                   {first_step(steps_done), repeats_evaluation ? std::optional(steps_done) : std::nullopt})) {
  if (recipe.routing) routing_.emplace(cut_to(run_directory / "routing.jsonl", {first_step(steps_done), {}}));
  if (recipe.tensorboard) tensorboard_.emplace(run_directory, first_step(steps_done));
}

void MetricsLog::write(const TrainingRow& row) {
  file_.append(fmt::format(
      R"({{"step":{},"loss":{},"learning_rate":{},"grad_norm":{},"tokens":{},"step_seconds":{},)"
      R"("tokens_per_second":{},"mfu":{},"memory_bytes":{},"tensor_bytes":{},"skipped":{}{}{}{}{}{}{}{}{}{}{}{}{}}})"
      "\n",
      row.step, exact_number(row.loss), number(row.learning_rate), number(row.gradient_norm), row.tokens,
      number(row.step_seconds), number(row.tokens_per_second), number(row.mfu), row.memory_bytes, row.tensor_bytes,
      row.skipped, loss_terms(row.terms), optional_column("sequence_length", row.sequence_length),
      optional_column("global_batch", row.global_batch), optional_column("easiest_percent", row.easiest_percent),
      optional_column("kept_tokens", row.kept_tokens), optional_column("loss_scale", row.loss_scale),
      optional_column("saturated_share", row.saturated_share), optional_column("arena_bytes", row.arena_bytes),
      optional_column("arena_share", row.arena_share), fp8_kinds(row.fp8), routing_columns(row.routing),
      row.resumed_after ? fmt::format(R"(,"resumed_after":{})", *row.resumed_after) : ""));
  if (!tensorboard_) return;
  tensorboard_->write(row.step, {{"train/loss", row.loss},
                                 {"train/learning_rate", row.learning_rate},
                                 {"train/grad_norm", row.gradient_norm},
                                 {"train/tokens_per_second", row.tokens_per_second},
                                 {"train/mfu", row.mfu},
                                 {"train/memory_bytes", static_cast<double>(row.memory_bytes)},
                                 {"train/tensor_bytes", static_cast<double>(row.tensor_bytes)}});
  write_terms("train/", row.step, row.terms);
  if (row.loss_scale) tensorboard_->write(row.step, {{"train/loss_scale", *row.loss_scale}});
  if (row.sequence_length) tensorboard_->write(row.step, {{"train/sequence_length", *row.sequence_length}});
  if (row.global_batch) tensorboard_->write(row.step, {{"train/global_batch", *row.global_batch}});
  if (row.easiest_percent) tensorboard_->write(row.step, {{"train/easiest_percent", *row.easiest_percent}});
  if (row.kept_tokens) tensorboard_->write(row.step, {{"train/kept_tokens", *row.kept_tokens}});
  if (row.saturated_share) tensorboard_->write(row.step, {{"fp8/saturated_share", *row.saturated_share}});
  for (const Fp8Row& kind : row.fp8)
    tensorboard_->write(row.step, {{"fp8/" + kind.kind + "/amax", kind.amax},
                                   {"fp8/" + kind.kind + "/underflowed_share", kind.underflowed_share},
                                   {"fp8/" + kind.kind + "/snr_db", kind.signal_to_noise}});
  if (!row.routing) return;
  tensorboard_->write(row.step, {{"routing/balance_loss", row.routing->balance_loss},
                                 {"routing/z_loss", row.routing->z_loss},
                                 {"routing/dropped_share", row.routing->dropped_share},
                                 {"routing/expert_load", row.routing->expert_load},
                                 {"routing/router_entropy", row.routing->router_entropy}});
}

void MetricsLog::write_terms(const std::string& prefix, std::int64_t step, const std::vector<LossTermRow>& terms) {
  for (const LossTermRow& term : terms) tensorboard_->write(step, {{prefix + "loss_terms/" + term.name, term.value}});
}

void MetricsLog::write_routing(std::int64_t step, const std::vector<std::vector<double>>& chosen) {
  std::string rows;
  for (std::size_t layer = 0; layer < chosen.size(); ++layer) {
    if (chosen[layer].empty()) continue;
    rows +=
        fmt::format("{{\"step\":{},\"layer\":{},\"chosen\":[{:.0f}]}}\n", step, layer, fmt::join(chosen[layer], ","));
  }
  routing_->append(rows);
}

void MetricsLog::write(const EvaluationRow& row) {
  file_.append(fmt::format("{{\"step\":{},\"validation_loss\":{}{}{}{}}}\n", row.step,
                           exact_number(row.validation_loss), loss_terms(row.terms),
                           named_numbers("figures", row.figures), set_losses(row.sets)));
  if (!tensorboard_) return;
  tensorboard_->write(row.step, {{"validation/loss", row.validation_loss}});
  write_terms("validation/", row.step, row.terms);
  for (const LossTermRow& figure : row.figures)
    tensorboard_->write(row.step, {{"validation/" + figure.name, figure.value}});
  for (const LossTermRow& set : row.sets) tensorboard_->write(row.step, {{"validation/loss/" + set.name, set.value}});
}

}  // namespace llmtrain
