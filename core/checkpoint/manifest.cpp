// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/manifest.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/printable.h"
#include "core/checkpoint/safetensors.h"
#include "core/json/json_file.h"
#include "core/json/json_text.h"

namespace llmtrain {
namespace {

// A rank writes at most three slices of a matrix, so this allows for more ranks than can share one tensor. The limit
// bounds the time of finding overlaps, which compares slices with each other.
constexpr std::size_t slice_limit = 65'536;

[[noreturn]] void refuse_manifest(const std::string& file, const std::string& what) {
  throw Error(ExitCode::bad_data, file + ": " + what + "; this checkpoint cannot be used");
}

// A plain name: one that does not leave the folder, is not hidden in it and does not replace the manifest.
bool is_file_name(const std::string& name) {
  constexpr std::string_view ending = ".safetensors";
  const auto allowed = [](unsigned char character) {
    return std::isalnum(character) != 0 || character == '-' || character == '_' || character == '.';
  };
  // 255 bytes are the longest name of common file systems.
  return name.size() > ending.size() && name.size() <= 255 && name.front() != '.' && name.ends_with(ending) &&
         std::all_of(name.begin(), name.end(), allowed);
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

void check_state(const CheckpointState& state, const std::string& file) {
  if (state.step < 0) refuse_manifest(file, "/step is " + std::to_string(state.step) + ", it must be 0 or more");
  if (state.data_position < 0)
    refuse_manifest(file, "/data_position is " + std::to_string(state.data_position) + ", it must be 0 or more");
  if (state.tokens.value_or(0) < 0)
    refuse_manifest(file, "/tokens is " + std::to_string(*state.tokens) + ", it must be 0 or more");
}

void check_files(const std::vector<ManifestFile>& files, const std::string& file) {
  std::set<std::string> names;
  for (const ManifestFile& entry : files) {
    if (!is_file_name(entry.name))
      refuse_manifest(file, "/files names " + quoted_text(entry.name) +
                                ": it must be the plain name of a .safetensors file in the same folder");
    if (!names.insert(entry.name).second) refuse_manifest(file, "/files names " + quoted_text(entry.name) + " twice");
    if (entry.bytes < 0) refuse_manifest(file, "/files gives " + quoted_text(entry.name) + " a negative size");
    if (!is_sha256(entry.sha256))
      refuse_manifest(file, "/files gives " + quoted_text(entry.name) + " an invalid SHA-256");
  }
}

void check_tensor(const LogicalTensor& tensor, const std::vector<ManifestSlice>& slices, const std::string& file,
                  Coverage coverage) {
  const std::string what = "tensor " + quoted_text(tensor.name) + " ";
  if (tensor.name.empty()) refuse_manifest(file, "a tensor has no name");
  // As in safetensors files: names are shown on terminals.
  if (has_control_character(tensor.name)) refuse_manifest(file, what + "has a control character in its name");
  // An unknown dtype counts as one bit and fails like one of part bytes.
  if (safetensors_bits(tensor.dtype).value_or(1) % 8 != 0)
    refuse_manifest(
        file, what + "has the dtype " + quoted_text(tensor.dtype) + "; it must be a safetensors dtype of whole bytes");
  // Before the slices: their checks may then multiply dimensions without overflow.
  if (!safetensors_bytes(tensor.dtype, tensor.shape)) refuse_manifest(file, what + "has an impossible size");
  if (!std::isfinite(tensor.scale)) refuse_manifest(file, what + "has a scale that is not finite");
  if (slices.size() > slice_limit) refuse_manifest(file, what + "has more than 65536 slices");

  std::vector<SliceBox> boxes;
  for (const ManifestSlice& slice : slices) {
    if (!lies_within(tensor.shape, slice.box)) refuse_manifest(file, what + "has a slice outside of its shape");
    boxes.push_back(slice.box);
  }
  if (coverage == Coverage::whole && !cover_exactly(tensor.shape, std::move(boxes)))
    refuse_manifest(file, what + "has slices that do not cover each of its elements exactly once");
}

constexpr std::string_view format_name = "llmtrain checkpoint";
constexpr std::int64_t format_version = 1;

void append_member(std::string& text, const std::string& key, const Json& value) {
  text.append(text.empty() ? "{\n" : ",\n").append(Json(key).dump()).append(": ").append(value.dump());
}

// One element per line, for human readers.
void append_list(std::string& text, const std::string& key, const std::vector<Json>& elements) {
  text.append(",\n").append(Json(key).dump()).append(": [");
  for (std::size_t i = 0; i < elements.size(); ++i) text.append(i == 0 ? "\n" : ",\n").append(elements[i].dump());
  text.append("\n]");
}

std::vector<Json> tensors_to_json(const Manifest& manifest) {
  std::vector<Json> list;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const LogicalTensor& tensor = manifest.tensors[i];
    Json slices = Json::array();
    for (const ManifestSlice& slice : manifest.slices[i])
      slices.push_back(
          {{"file", manifest.files[slice.file].name}, {"offset", slice.box.offset}, {"shape", slice.box.shape}});
    list.push_back({{"name", tensor.name},
                    {"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"scale", tensor.scale},
                    {"slices", std::move(slices)}});
  }
  return list;
}

// Part of the text and not a file of its own, so that the manifest can be replaced in one rename.
std::string closing(std::string_view text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return ",\n\"sha256\": \"" + hash.hexadecimal() + "\"\n}\n";
}

// Reads members by name and type, and reports those that were never read.
class MemberReader {
 public:
  MemberReader(const Json& object, const std::string& file, std::string where)
      : object_(object), file_(file), where_(std::move(where)) {
    if (!object.is_object()) fail("is not an object");
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ExitCode::bad_data, file_ + ": " + where_ + " " + what + "; this is not a checkpoint's manifest");
  }

  const Json& get(const std::string& key) {
    const auto found = object_.find(key);
    if (found == object_.end()) fail("lacks the key \"" + key + "\"");
    read_.insert(key);
    return *found;
  }

  std::string text(const std::string& key) { return typed(key, &Json::is_string, "a string").get<std::string>(); }

  std::int64_t integer(const std::string& key) { return integer_of(get(key), key); }

  bool boolean(const std::string& key) { return typed(key, &Json::is_boolean, "true or false").get<bool>(); }

  double real(const std::string& key) { return typed(key, &Json::is_number, "a number").get<double>(); }

  const Json& list(const std::string& key) { return typed(key, &Json::is_array, "an array"); }

  std::vector<std::int64_t> integers(const std::string& key) {
    std::vector<std::int64_t> values;
    for (const Json& value : list(key)) values.push_back(integer_of(value, key));
    return values;
  }

  std::vector<double> reals(const std::string& key) {
    std::vector<double> values;
    for (const Json& value : list(key)) {
      if (!value.is_number() || !std::isfinite(value.get<double>()))
        fail("has a \"" + key + "\" with an element that is not a finite number");
      values.push_back(value.get<double>());
    }
    return values;
  }

  bool has(const std::string& key) const { return object_.contains(key); }

  void finish() const {
    // An unknown key may change the meaning of the known ones: a newer program wrote it.
    for (const auto& item : object_.items())
      if (!read_.contains(item.key())) fail("has the unknown key " + quoted_text(item.key()));
  }

 private:
  const Json& typed(const std::string& key, bool (Json::*is_type)() const, const std::string& type) {
    const Json& value = get(key);
    if (!(value.*is_type)()) fail("has a \"" + key + "\" that is not " + type);
    return value;
  }

  std::int64_t integer_of(const Json& value, const std::string& key) const {
    // nlohmann stores every integer from 0 on as unsigned; one above int64 would wrap in the conversion.
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{INT64_MAX});
    if (!fits) fail("has a \"" + key + "\" that is not a 64-bit integer");
    return value.get<std::int64_t>();
  }

  const Json& object_;
  const std::string& file_;
  std::string where_;
  std::set<std::string> read_;
};

void check_version(MemberReader& reader) {
  if (reader.text("format") != format_name) reader.fail("has a \"format\" other than \"llmtrain checkpoint\"");
  const std::int64_t version = reader.integer("version");
  if (version != format_version)
    reader.fail("has version " + std::to_string(version) + ", this program reads version 1: use the newer program");
}

SkippedUpdates read_skipped(const Json& object, const std::string& file) {
  MemberReader reader(object, file, "/skipped");
  const SkippedUpdates skipped{reader.integer("total"), reader.integer("in_a_row"), reader.integer("rollbacks")};
  if (std::min({skipped.total, skipped.in_a_row, skipped.rollbacks}) < 0) reader.fail("has a negative count");
  reader.finish();
  return skipped;
}

RecentUpdates read_recent(const Json& object, const std::string& file) {
  MemberReader reader(object, file, "/recent");
  const RecentUpdates recent{reader.reals("losses"), reader.reals("gradient_norms")};
  if (recent.losses.size() != recent.gradient_norms.size()) reader.fail("has lists of two lengths");
  reader.finish();
  return recent;
}

Json evaluations_json(const EvaluationHistory& history) {
  Json json = {{"step", history.step},
               {"loss", history.loss},
               {"best_step", history.best_step},
               {"best_loss", history.best_loss},
               {"without_progress", history.without_progress}};
  for (const auto& [name, loss] : history.sets) json["sets"][name] = loss;
  return json;
}

EvaluationHistory read_evaluations(const Json& object, const std::string& file) {
  MemberReader reader(object, file, "/evaluations");
  EvaluationHistory history{reader.integer("step"), reader.real("loss"), reader.integer("best_step"),
                            reader.real("best_loss"), reader.integer("without_progress")};
  if (reader.has("sets")) {
    MemberReader sets(reader.get("sets"), file, "/evaluations/sets");
    for (const auto& [name, loss] : reader.get("sets").items()) history.sets.emplace_back(name, sets.real(name));
    sets.finish();
  }
  if (std::min({history.step, history.best_step, history.without_progress}) < 0) reader.fail("has a negative count");
  reader.finish();
  return history;
}

BaseModel read_base(const Json& object, const std::string& file) {
  MemberReader reader(object, file, "/base");
  BaseModel base{reader.text("source"), reader.text("fingerprint")};
  if (has_control_character(base.source)) reader.fail("has a control character in its \"source\"");
  if (!is_sha256(base.fingerprint)) reader.fail("has a \"fingerprint\" that is no SHA-256");
  reader.finish();
  return base;
}

CheckpointState read_state(MemberReader& reader, const std::string& file) {
  CheckpointState state;
  state.step = reader.integer("step");
  state.data_position = reader.integer("data_position");
  state.seed = reader.integer("seed");
  state.recipe = reader.get("recipe");
  if (reader.has("skipped")) state.skipped = read_skipped(reader.get("skipped"), file);
  if (reader.has("recent")) state.recent = read_recent(reader.get("recent"), file);
  if (reader.has("tokens")) state.tokens = reader.integer("tokens");
  if (reader.has("began_from")) state.began_from = reader.text("began_from");
  if (reader.has("evaluation_is_due")) state.evaluation_is_due = reader.boolean("evaluation_is_due");
  if (reader.has("evaluations")) state.evaluations = read_evaluations(reader.get("evaluations"), file);
  if (reader.has("base")) state.base = read_base(reader.get("base"), file);
  if (reader.has("samples")) state.samples = reader.integers("samples");
  return state;
}

std::vector<ManifestFile> read_files(const Json& list, const std::string& file) {
  std::vector<ManifestFile> files;
  for (const Json& element : list) {
    MemberReader reader(element, file, "/files/" + std::to_string(files.size()));
    files.push_back({reader.text("name"), reader.integer("bytes"), reader.text("sha256")});
    reader.finish();
  }
  return files;
}

using FileIndex = std::unordered_map<std::string, std::size_t>;

std::vector<ManifestSlice> read_slices(const Json& list, const FileIndex& files, const std::string& file,
                                       const std::string& where) {
  std::vector<ManifestSlice> slices;
  for (const Json& element : list) {
    MemberReader reader(element, file, where + "/slices/" + std::to_string(slices.size()));
    const auto found = files.find(reader.text("file"));
    if (found == files.end()) reader.fail("has a \"file\" that /files does not list");
    slices.push_back({found->second, {reader.integers("offset"), reader.integers("shape")}});
    reader.finish();
  }
  return slices;
}

void read_tensors(const Json& list, const std::string& file, Manifest& manifest) {
  FileIndex files;
  for (std::size_t i = 0; i < manifest.files.size(); ++i) files.emplace(manifest.files[i].name, i);
  for (const Json& element : list) {
    const std::string where = "/tensors/" + std::to_string(manifest.tensors.size());
    MemberReader reader(element, file, where);
    manifest.tensors.push_back(
        {reader.text("name"), reader.text("dtype"), reader.integers("shape"), reader.real("scale")});
    manifest.slices.push_back(read_slices(reader.list("slices"), files, file, where));
    reader.finish();
  }
}

void check_own_hash(std::string_view text, const std::string& file) {
  // The closing text always has this length, because a digest does.
  const std::size_t length = closing("").size();
  const std::string_view body = text.substr(0, text.size() - std::min(length, text.size()));
  if (text.substr(body.size()) != closing(body))
    throw Error(ExitCode::bad_data, file +
                                        ": is not a checkpoint's manifest, is cut off, or was changed after it was "
                                        "written: the SHA-256 at its end is not that of its text");
}

}  // namespace

void check_manifest(Manifest& manifest, const std::string& file, Coverage coverage) {
  check_state(manifest.state, file);
  check_files(manifest.files, file);
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    check_tensor(manifest.tensors[i], manifest.slices[i], file, coverage);
    if (!manifest.index.emplace(manifest.tensors[i].name, i).second)
      refuse_manifest(file, "tensor " + quoted_text(manifest.tensors[i].name) + " appears twice");
  }
}

std::string manifest_text(const Manifest& manifest) {
  std::string text;
  append_member(text, "format", format_name);
  append_member(text, "version", format_version);
  append_member(text, "step", manifest.state.step);
  append_member(text, "data_position", manifest.state.data_position);
  append_member(text, "seed", manifest.state.seed);
  append_member(text, "recipe", manifest.state.recipe);
  // Nearly no run has skipped any, and what is not there any program reads.
  if (const SkippedUpdates& skipped = manifest.state.skipped; skipped != SkippedUpdates{})
    append_member(text, "skipped",
                  {{"total", skipped.total}, {"in_a_row", skipped.in_a_row}, {"rollbacks", skipped.rollbacks}});
  if (const RecentUpdates& recent = manifest.state.recent; recent != RecentUpdates{})
    append_member(text, "recent", {{"losses", recent.losses}, {"gradient_norms", recent.gradient_norms}});
  if (manifest.state.tokens) append_member(text, "tokens", *manifest.state.tokens);
  if (!manifest.state.began_from.empty()) append_member(text, "began_from", manifest.state.began_from);
  if (manifest.state.evaluation_is_due) append_member(text, "evaluation_is_due", true);
  if (const auto& history = manifest.state.evaluations) append_member(text, "evaluations", evaluations_json(*history));
  if (!manifest.state.samples.empty()) append_member(text, "samples", manifest.state.samples);
  if (const auto& base = manifest.state.base)
    append_member(text, "base", {{"source", base->source}, {"fingerprint", base->fingerprint}});
  append_list(text, "tensors", tensors_to_json(manifest));
  std::vector<Json> files;
  for (const ManifestFile& file : manifest.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  append_list(text, "files", files);
  return text + closing(text);
}

Manifest parse_manifest(std::string_view text, const std::string& file, Coverage coverage) {
  // Before the text is parsed: everything after this may assume that it is as it was written.
  check_own_hash(text, file);
  const Json json = parse_json<Json>(text, file);
  MemberReader reader(json, file, "the manifest");
  check_version(reader);
  Manifest manifest;
  manifest.state = read_state(reader, file);
  // Files before tensors: slices refer to them by name.
  manifest.files = read_files(reader.list("files"), file);
  read_tensors(reader.list("tensors"), file, manifest);
  reader.text("sha256");
  reader.finish();
  check_manifest(manifest, file, coverage);
  return manifest;
}

}  // namespace llmtrain
