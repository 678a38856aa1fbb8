// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/keys/key_visitor.h"

#include <charconv>
#include <limits>

#include "core/recipe/keys/layer_choice.h"
#include "core/recipe/recipe_reader.h"

namespace llmtrain {
namespace {

constexpr std::array<std::string_view, 1> tokenizer_words = {"bytes"};
constexpr std::array<std::string_view, 2> tokenizer_file_keys = {"sentencepiece", "huggingface"};
constexpr std::array<std::string_view, 3> template_words = {"auto", "chatml", "llama3"};
constexpr std::array<std::string_view, 1> template_file_keys = {"file"};

std::string quoted(std::string_view word) { return '"' + std::string(word) + '"'; }

std::string range_words(IntegerRange range) {
  const bool is_unlimited = range.maximum == std::numeric_limits<std::int64_t>::max();
  return "a whole number from " + std::to_string(range.minimum) + " to " +
         (is_unlimited ? "2^63 - 1" : std::to_string(range.maximum));
}

std::string range_words(NumberRange range) {
  const auto minimum = number_words(range.minimum);
  const auto maximum = number_words(range.maximum);
  switch (range.ends) {
    case RangeEnds::open_minimum:
      return "a number above " + minimum + ", at most " + maximum;
    case RangeEnds::open_maximum:
      return "a number from " + minimum + " to below " + maximum;
    case RangeEnds::closed:
      break;
  }
  return "a number from " + minimum + " to " + maximum;
}

std::string text_words(const TextRule& rule) {
  std::string words;
  for (const auto word : rule.words) words += quoted(word) + ", ";
  const auto either = words.empty() ? words : words.substr(0, words.size() - 2) + " or ";
  switch (rule.kind) {
    case TextKind::name:
      return "a text of 1 to 200 characters without slash or control characters";
    case TextKind::path:
    case TextKind::working_path:
      return either + "a path";
    case TextKind::path_or_name:
      return words + "a name or a path";
    case TextKind::checkpoint_source:
      return "null, a path, or \"hf:\" and a path";
    case TextKind::plain:
      break;
  }
  return "a text";
}

Json schema_of(IntegerRange range) {
  return {{"type", "integer"}, {"minimum", range.minimum}, {"maximum", range.maximum}};
}

Json schema_of(const NumberRange& range) {
  const auto lower = range.ends == RangeEnds::open_minimum ? "exclusiveMinimum" : "minimum";
  const auto upper = range.ends == RangeEnds::open_maximum ? "exclusiveMaximum" : "maximum";
  return {{"type", "number"}, {lower, range.minimum}, {upper, range.maximum}};
}

Json schema_of(const TextRule& rule) {
  Json schema = {{"type", "string"}};
  // The schema is for editors: it covers what JSON Schema can express, the reader checks the rest.
  if (rule.kind == TextKind::name) schema["pattern"] = "^[^/]{1,200}$";
  if (rule.kind != TextKind::plain) schema["minLength"] = 1;
  return schema;
}

Json one_of(Json::array_t schemas) { return Json::object({{"oneOf", std::move(schemas)}}); }

// One of `words`, or an object that names a file by one of `file_keys`.
Json schema_of(Words words, Words file_keys) {
  Json::array_t kinds;
  for (const auto word : words) kinds.push_back(Json::object({{"const", word}}));
  for (const auto name : file_keys)
    kinds.push_back({{"type", "object"},
                     {"additionalProperties", false},
                     {"properties", Json::object({{std::string(name), schema_of(TextRule{TextKind::path})}})},
                     {"required", Json::array({name})}});
  return one_of(std::move(kinds));
}

// Such a value: calls `take` with the place of its word, or of its key behind the words, and the file.
template <class Take>
void read_word_or_file(const WrittenValue& written, Words words, Words file_keys, std::string_view several, Take take) {
  const Json& json = written.json();
  if (!json.is_object()) {
    if (const auto word = written.word(words)) take(*word, "");
    return;
  }
  // An object must have exactly one of the keys.
  std::size_t given = 0;
  for (std::size_t i = 0; i < file_keys.size(); ++i) {
    const std::string name(file_keys[i]);
    const auto file = json.find(name);
    if (file == json.end()) continue;
    ++given;
    const TextRule path{TextKind::path};
    take(words.size() + i, written.child(name, *file, text_words(path)).text(path).value_or(""));
  }
  written.refuse_unknown_keys(file_keys);
  // An unknown key has been reported already.
  const bool only_unknown = given == 0 && !json.empty();
  if (given == 1 || only_unknown) return;
  written.refuse(given == 0 ? "is an empty object" : std::string(several));
}

void read_balance(const WrittenValue& written, BalanceRecipe& field, IntegerRange range) {
  const Json& json = written.json();
  if (!json.is_array()) {
    if (const auto kind = written.word(balance_words)) field = {static_cast<BalanceKind>(*kind), {}};
    return;
  }
  field = {BalanceKind::list, {}};
  for (std::size_t i = 0; i < json.size(); ++i) {
    const auto entry = written.child(std::to_string(i), json[i], range_words(range)).whole_number(range);
    // Kept at its index even where it is invalid, so that later entries are reported at theirs.
    field.layers_per_stage.push_back(entry.value_or(0));
  }
}

}  // namespace

std::span<const std::string_view> stand_ins(Presence presence) {
  static constexpr std::array<std::string_view, 2> model_keys{"from", "image"}, transformer_keys{"from", "resnet"};
  static constexpr std::array<std::string_view, 1> epochs{"epochs"};
  switch (presence) {
    case Presence::optional:
    case Presence::required:
      break;
    case Presence::required_without_from:
      return std::span(model_keys).first(1);
    case Presence::required_of_tokens:
      return model_keys;
    case Presence::required_of_transformers:
      return transformer_keys;
    case Presence::required_without_epochs:
      return epochs;
  }
  return {};
}

std::string choice_words(Words words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += quoted(words[i]);
  }
  return text;
}

std::string number_words(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

void KeyVisitor::integer(const Key& key, std::int64_t& field, IntegerRange range) {
  const auto schema = [&] { return schema_of(range); };
  const auto read = [&](const WrittenValue& written) { field = written.whole_number(range).value_or(field); };
  value(key, {range_words(range), field, schema, read});
}

void KeyVisitor::automatic_integer(const Key& key, std::optional<std::int64_t>& field, IntegerRange range) {
  const auto schema = [&] { return one_of({Json::object({{"const", "auto"}}), schema_of(range)}); };
  const auto read = [&](const WrittenValue& written) {
    field = written.json() == "auto" ? std::nullopt : written.whole_number(range);
  };
  value(key, {"\"auto\" or " + range_words(range), field ? Json(*field) : Json("auto"), schema, read});
}

void KeyVisitor::nullable_number(const Key& key, std::optional<double>& field, NumberRange range) {
  const auto schema = [&] {
    auto number = schema_of(range);
    number["type"] = {"number", "null"};
    return number;
  };
  const auto read = [&](const WrittenValue& written) {
    field = written.json().is_null() ? std::nullopt : written.number(range);
  };
  value(key, {"null or " + range_words(range), field ? Json(*field) : Json(), schema, read});
}

void KeyVisitor::number(const Key& key, double& field, NumberRange range) {
  const auto schema = [&] { return schema_of(range); };
  const auto read = [&](const WrittenValue& written) { field = written.number(range).value_or(field); };
  value(key, {range_words(range), field, schema, read});
}

void KeyVisitor::boolean(const Key& key, bool& field) {
  const auto schema = [] { return Json::object({{"type", "boolean"}}); };
  const auto read = [&](const WrittenValue& written) { field = written.boolean().value_or(field); };
  value(key, {"true or false", field, schema, read});
}

void KeyVisitor::text(const Key& key, std::string& field, const TextRule& rule) {
  const auto schema = [&] { return schema_of(rule); };
  const auto read = [&](const WrittenValue& written) { field = written.text(rule).value_or(field); };
  value(key, {text_words(rule), field, schema, read});
}

void KeyVisitor::nullable_text(const Key& key, std::optional<std::string>& field, const TextRule& rule) {
  const auto schema = [&] {
    auto text = schema_of(rule);
    text["type"] = {"string", "null"};
    return text;
  };
  const auto read = [&](const WrittenValue& written) {
    field = written.json().is_null() ? std::nullopt : written.text(rule);
  };
  const auto words = text_words(rule);
  value(key, {words.starts_with("null") ? words : "null or " + words, field ? Json(*field) : Json(), schema, read});
}

void KeyVisitor::texts(const Key& key, std::vector<std::string>& field, std::string_view words) {
  const Json entry = {{"type", "string"}, {"minLength", 1}};
  const auto schema = [&] { return Json::object({{"type", "array"}, {"items", entry}}); };
  const auto read = [&](const WrittenValue& written) {
    if (!written.json().is_array()) return written.refuse_type();
    field.clear();
    for (std::size_t i = 0; i < written.json().size(); ++i) {
      const WrittenValue text = written.child(std::to_string(i), written.json()[i], "a text that is not empty");
      if (const auto entered = text.text({}); entered && entered->empty()) text.refuse("\"\" is empty");
      field.push_back(written.json()[i].is_string() ? written.json()[i].get<std::string>() : "");
    }
  };
  value(key, {std::string(words), field, schema, read});
}

void KeyVisitor::tokenizer(const Key& key, TokenizerRecipe& field) {
  Json json = tokenizer_words.front();
  if (field.kind != TokenizerKind::bytes) {
    const auto name = tokenizer_file_keys[field.kind == TokenizerKind::sentencepiece ? 0 : 1];
    json = Json::object({{std::string(name), field.file}});
  }
  const auto schema = [] { return schema_of(tokenizer_words, tokenizer_file_keys); };
  const auto read = [&](const WrittenValue& written) {
    read_word_or_file(written, tokenizer_words, tokenizer_file_keys, "names two tokenizers",
                      [&](std::size_t kind, std::string file) {
                        field = {static_cast<TokenizerKind>(kind), std::move(file)};
                      });
  };
  value(key, {R"("bytes", {"sentencepiece": FILE} or {"huggingface": FILE})", std::move(json), schema, read,
              tokenizer_file_keys, "The tokenizer's file."});
}

void KeyVisitor::chat_template(const Key& key, ChatTemplateRecipe& field) {
  Json json;
  if (field.kind == ChatTemplate::file) {
    json = Json::object({{std::string(template_file_keys.front()), field.file}});
  } else {
    json = template_words[static_cast<std::size_t>(field.kind)];
  }
  const auto schema = [] { return schema_of(template_words, template_file_keys); };
  const auto read = [&](const WrittenValue& written) {
    read_word_or_file(written, template_words, template_file_keys, "", [&](std::size_t kind, std::string file) {
      field = {static_cast<ChatTemplate>(kind), std::move(file)};
    });
  };
  value(key, {R"("auto", "chatml", "llama3" or {"file": FILE})", std::move(json), schema, read, template_file_keys,
              "A template of Jinja, or a tokenizer_config.json that has one."});
}

void KeyVisitor::balance(const Key& key, BalanceRecipe& field, IntegerRange range) {
  Json json = field.layers_per_stage;
  if (field.kind != BalanceKind::list) json = balance_words[static_cast<std::size_t>(field.kind)];
  const auto schema = [&] {
    return one_of(
        {Json::object({{"enum", balance_words}}), Json::object({{"type", "array"}, {"items", schema_of(range)}})});
  };
  const auto read = [&](const WrittenValue& written) { read_balance(written, field, range); };
  value(key, {R"("layers", "blocks" or a list of layers per stage)", std::move(json), schema, read});
}

void KeyVisitor::recompute(const Key& key, MemoryRecipe& memory, Words words, IntegerRange layers) {
  Json json = words[static_cast<std::size_t>(memory.recompute)];
  if (!memory.recompute_of_layers.empty()) json = layer_choice_json(memory.recompute_of_layers, words);
  const auto schema = [&] {
    const Json entries =
        one_of({schema_of(layers), Json::object({{"type", "string"}, {"pattern", layer_range_pattern}})});
    const Json lists = {{"type", "array"}, {"items", entries}, {"minItems", 1}};
    return one_of({Json::object({{"enum", words}}), Json::object({{"type", "object"},
                                                                  {"propertyNames", Json::object({{"enum", words}})},
                                                                  {"additionalProperties", lists},
                                                                  {"minProperties", 1}})});
  };
  const auto read = [&](const WrittenValue& written) {
    memory.recompute_of_layers.clear();
    if (!written.json().is_object()) {
      memory.recompute = static_cast<Recompute>(written.word(words).value_or(0));
      return;
    }
    memory.recompute = Recompute::none;
    memory.recompute_of_layers = read_layer_choice(written, words, layers, layer_range_words(layers));
  };
  value(key, {choice_words(words) + R"(, or an object of lists of layers by word: {"full": ["0-7", 12]})",
              std::move(json), schema, read});
}

void KeyVisitor::word(const Key& key, std::size_t& index, Words words) {
  const auto schema = [&] { return Json::object({{"enum", words}}); };
  const auto read = [&](const WrittenValue& written) { index = written.word(words).value_or(index); };
  value(key, {choice_words(words), words[index], schema, read});
}

void KeyVisitor::boolean_or_word(const Key& key, std::size_t& index, Words words) {
  const auto schema = [&] {
    Json::array_t values{false, true};
    for (const auto word : words) values.emplace_back(word);
    return Json::object({{"enum", std::move(values)}});
  };
  const auto read = [&](const WrittenValue& written) {
    if (written.json().is_boolean()) {
      index = written.json().get<bool>() ? 1 : 0;
    } else if (const auto word = written.word(words)) {
      index = 2 + *word;
    }
  };
  std::string text = "false, true";
  for (std::size_t i = 0; i < words.size(); ++i) text += (i + 1 < words.size() ? ", " : " or ") + quoted(words[i]);
  value(key, {text, index < 2 ? Json(index == 1) : Json(words[index - 2]), schema, read});
}

}  // namespace llmtrain
