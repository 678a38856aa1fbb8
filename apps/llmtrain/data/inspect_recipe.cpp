// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/data/inspect_recipe.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/data/samples/describe_sources.h"
#include "core/data/samples/shown_sample.h"
#include "core/json/json_text.h"
#include "core/page/text_layout.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain::app {
namespace {

using Samples = std::vector<ShownSample>;

// Around tokens that count, where they have no colour: U+27E6 and U+27E7.
constexpr const char *counted_begin = "⟦", *counted_end = "⟧";
// Between what the model sees and the token that this hides.
constexpr const char* hides = "←";

std::int64_t tokens_of(const ShownSample& sample) {
  std::int64_t tokens = 0;
  for (const auto& document : sample.documents) tokens += document.tokens;
  return tokens;
}

std::int64_t counted_of(const ShownSample& sample) {
  std::int64_t counted = 0;
  for (const auto& document : sample.documents) counted += document.counted;
  return counted;
}

std::string as_json(const InspectRecipeOptions& options, const Json& sources, const Samples& samples) {
  Json json = {{"recipe", options.file}, {"sources", sources}, {"samples", Json::array()}};
  for (const ShownSample& sample : samples) {
    Json documents = Json::array();
    for (const auto& document : sample.documents) {
      Json parts = Json::array();
      for (const auto& part : document.parts) {
        parts.push_back({{"text", part.text}, {"counts", part.counts}});
        if (!part.hidden.empty()) parts.back()["hidden"] = part.hidden;
      }
      documents.push_back({{"tokens", document.tokens}, {"counted", document.counted}, {"parts", std::move(parts)}});
      if (!document.name.empty()) documents.back()["name"] = document.name;
    }
    json["samples"].push_back({{"documents", std::move(documents)}, {"padding", sample.padding}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string source_text(const std::string& role, std::size_t index, const Json& source, const LeftOut& left_out,
                        std::int64_t sequence_length) {
  const auto number = [&](const char* key) { return source[key].get<std::int64_t>(); };
  std::string text = fmt::format("{}.{}  {}\n  {}, {}, {} tokens", role, index, source["path"].get<std::string>(),
                                 format_number_of(number("files"), "file"),
                                 format_number_of(number("samples"), "sample"), number("tokens"));
  if (source.contains("documents")) text += ", " + format_number_of(number("documents"), "conversation");
  text += "\n";
  for (const std::string& sentence : sentences_of(left_out, sequence_length)) text += "  " + sentence + "\n";
  return text;
}

// Without labels, as of texts and token files, all tokens count, and nothing is marked.
std::string document_text(const ShownSample::Document& document, bool has_labels, const TextStyle& style) {
  const Paint paint{style.colour};
  std::string text;
  for (const auto& part : document.parts) {
    const std::string shown = printable(part.hidden.empty() ? part.text : part.text + hides + part.hidden);
    if (!part.counts || !has_labels) {
      text += shown;
    } else if (style.colour == TextColour::on) {
      text += paint(Ink::good, shown);
    } else {
      text += counted_begin + shown + counted_end;
    }
  }
  return text.ends_with('\n') ? text : text + "\n";
}

// `marked` says of which tokens' text is marked; empty: of none.
std::string sample_text(const ShownSample& sample, std::size_t number, const std::string& marked,
                        const TextStyle& style) {
  const Paint paint{style.colour};
  const std::string counted = marked.empty() ? "" : fmt::format(", {} {}", counted_of(sample), marked);
  const std::string padding = sample.padding > 0 ? fmt::format(", {} of padding", sample.padding) : "";
  std::string text = "\n" +
                     paint(Ink::strong, fmt::format("sample {}: {}, {} tokens{}{}", number,
                                                    format_number_of(std::ssize(sample.documents), "document"),
                                                    tokens_of(sample), counted, padding)) +
                     "\n";
  for (std::size_t i = 0; i < sample.documents.size(); ++i) {
    const ShownSample::Document& document = sample.documents[i];
    const std::string name = document.name.empty() ? fmt::format("document {}", i + 1) : document.name;
    if (sample.documents.size() > 1)
      text += paint(Ink::memory, fmt::format("- {}, {} tokens", name, document.tokens)) + "\n";
    text += document_text(sample.documents[i], !marked.empty(), style);
  }
  return text;
}

std::string marked_tokens(const DataRecipe& data) {
  if (data.spans) return "stand in the answer";
  return data.fine_tuning || data.masking || data.pairs || data.denoising ? "count in the loss" : "";
}

// The class of a sample of images, whose pixels are not read for it.
std::string class_of(const Dataset& dataset, std::int64_t number, const ImagesRecipe& images) {
  std::array<std::int64_t, 1> label{};
  FieldMemory memory;
  memory.set(BatchField::label, std::span<std::int64_t>(label));
  dataset.read(number, memory);
  return images.classes.at(static_cast<std::size_t>(label.front()));
}

void inspect_images_of(const InspectRecipeOptions& options, const Recipe& recipe, const Dataset& dataset,
                       const std::vector<DataSource>& sources, const char* role) {
  const Json described = describe_sources(dataset, sources);
  Json samples = Json::array();
  for (std::int64_t number = 0; number < std::min(options.samples.value_or(3), dataset.samples()); ++number)
    samples.push_back({{"class", class_of(dataset, number, *recipe.data.images)}});
  if (options.json)
    return write_json(Json{{"recipe", options.file}, {"sources", described}, {"samples", samples}}.dump(2) + "\n");
  std::string text;
  for (std::size_t i = 0; i < sources.size(); ++i)
    text += fmt::format("{}.{}  {}\n  {}\n", role, i, described[i]["path"].get<std::string>(),
                        format_number_of(described[i]["samples"].get<std::int64_t>(), "image"));
  for (std::size_t i = 0; i < samples.size(); ++i)
    text += fmt::format("sample {}: {}\n", i, printable(samples[i]["class"].get<std::string>()));
  write_result(text);
}

}  // namespace

bool is_recipe(const std::string& file) {
  constexpr std::uintmax_t largest = 16 << 20;
  std::error_code unknown;
  const auto bytes = std::filesystem::file_size(file, unknown);
  if (!file.ends_with(".json") || unknown || bytes > largest) return false;
  const Json json = Json::parse(read_file(file), nullptr, false);
  const auto has_section = [&](const char* key) { return json.contains(key) && json[key].is_object(); };
  return json.is_object() && (has_section("data") || has_section("model"));
}

void inspect_recipe(const InspectRecipeOptions& options) {
  const Recipe recipe = read_recipe(options.file, options.overrides);
  if (!options.is_validation) require_training_data(recipe, options.file);
  if (options.is_validation && recipe.data.validation.empty())
    throw Error(ExitCode::bad_recipe, options.file + ": /data/validation: names no data; leave --validation out");
  const std::vector<DataSource>& sources = options.is_validation ? recipe.data.validation : recipe.data.train;
  const std::string role = options.is_validation ? "/data/validation" : "/data/train";
  TextFormat format = text_format(recipe);
  if (options.is_validation) format.draws = SampleDraws::fixed;
  const Dataset dataset(sources, format, recipe.batch.sequence_length, recipe.model.vocab_size,
                        !options.is_validation && recipe.data.shuffle, recipe.seed, role);
  if (recipe.data.images)
    return inspect_images_of(options, recipe, dataset, sources,
                             options.is_validation ? "data.validation" : "data.train");
  const auto tokenizer = open_tokenizer(recipe.data.tokenizer, recipe.model.vocab_size);
  Samples samples;
  for (std::int64_t number = 0; number < std::min(options.samples.value_or(3), dataset.samples()); ++number)
    samples.push_back(shown_sample(dataset, number, *tokenizer));
  const Json described = describe_sources(dataset, sources);
  if (options.json) return write_json(as_json(options, described, samples));
  const TextStyle style = style_of_output();
  const std::vector<LeftOut> left_out = dataset.left_out();
  const std::string marked = marked_tokens(recipe.data);
  std::string text;
  for (std::size_t i = 0; i < sources.size(); ++i)
    text += source_text(options.is_validation ? "data.validation" : "data.train", i, described[i], left_out[i],
                        recipe.batch.sequence_length);
  if (!marked.empty() && !samples.empty())
    text +=
        fmt::format("tokens that {}: {}\n", marked,
                    style.colour == TextColour::on ? Paint{style.colour}(Ink::good, "in this colour")
                                                   : fmt::format("{}in these brackets{}", counted_begin, counted_end));
  for (std::size_t i = 0; i < samples.size(); ++i) text += sample_text(samples[i], i, marked, style);
  write_result(text);
}

}  // namespace llmtrain::app
