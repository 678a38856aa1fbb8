// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/generation_defaults.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/base/file.h"
#include "core/tokenizer/pieces/json_fields.h"

namespace llmtrain {
namespace {

// What generate() takes for "top_k" where a file that samples does not name it.
constexpr std::int64_t transformers_top_k = 50;

struct OtherKey {
  const char* name;
  double neutral = 0;    // a value that changes nothing, as null, false, "" and an empty list
  bool samples = false;  // has an effect on drawn tokens alone
};

// All keys of transformers' GenerationConfig (5.23) and of those before it that change which tokens are generated,
// beside those that are read here.
constexpr std::array other_keys = {
    OtherKey{"num_beam_groups", 1},
    OtherKey{"penalty_alpha"},
    OtherKey{"dola_layers"},
    OtherKey{"constraints"},
    OtherKey{"force_words_ids"},
    OtherKey{"min_p", 0, true},
    OtherKey{"top_h", 1, true},
    OtherKey{"typical_p", 1, true},
    OtherKey{"epsilon_cutoff", 0, true},
    OtherKey{"eta_cutoff", 0, true},
    OtherKey{"encoder_repetition_penalty", 1},
    OtherKey{"encoder_no_repeat_ngram_size"},
    OtherKey{"bad_words_ids"},
    OtherKey{"sequence_bias"},
    OtherKey{"suppress_tokens"},
    OtherKey{"begin_suppress_tokens"},
    OtherKey{"exponential_decay_length_penalty"},
    OtherKey{"min_length"},
    OtherKey{"min_new_tokens"},
    OtherKey{"stop_strings"},
    OtherKey{"guidance_scale", 1},
    OtherKey{"watermarking_config"},
    OtherKey{"token_healing"},
};

bool is_neutral(const nlohmann::json& value, double neutral) {
  if (value.is_number()) return value.get<double>() == neutral;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.empty();  // null, too
}

std::optional<double> number_of(const JsonFields& fields, const char* key, double most) {
  if (!fields.has(key)) return std::nullopt;
  const nlohmann::json& value = fields.value().at(key);
  if (!value.is_number() || value.get<double>() < 0 || value.get<double>() > most)
    fields.section(key).fail(most == 1 ? "is not a number from 0 to 1" : "is not a number from 0");
  return value.get<double>();
}

std::optional<std::int64_t> count_of(const JsonFields& fields, const char* key) {
  if (!fields.has(key)) return std::nullopt;
  const std::int64_t count = fields.whole_number(key);
  if (count < 0) fields.section(key).fail("is not a whole number from 0");
  return count;
}

std::optional<std::int64_t> id_of(const JsonFields& fields, const char* key) {
  if (!fields.has(key) || fields.value().at(key).is_null()) return std::nullopt;
  const nlohmann::json& value = fields.value().at(key);
  // A list stands for whichever of its ids; one alone is what it says.
  if (value.is_array() && value.size() == 1 && value.front().is_number_integer())
    return value.front().get<std::int64_t>();
  return count_of(fields, key);
}

std::optional<std::string> early_stopping_of(const JsonFields& fields) {
  if (!fields.has("early_stopping")) return std::nullopt;
  const nlohmann::json& value = fields.value().at("early_stopping");
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_null() && value != "never") fields.section("early_stopping").fail("is not true, false or \"never\"");
  return value.is_null() ? "no" : "never";
}

void read_beams(const JsonFields& fields, bool samples, GenerationDefaults& defaults) {
  const std::optional<std::int64_t> beams = count_of(fields, "num_beams");
  if (beams == 0) fields.section("num_beams").fail("is not a whole number from 1");
  if (beams && *beams > 1 && samples) defaults.unsupported.push_back("num_beams " + std::to_string(*beams));
  if (!beams || *beams == 1 || samples) return;
  defaults.beams = beams;
  if (fields.has("length_penalty")) {
    const nlohmann::json& penalty = fields.value().at("length_penalty");
    if (!penalty.is_number()) fields.section("length_penalty").fail("is not a number");
    defaults.length_penalty = penalty.get<double>();
  }
  defaults.early_stopping = early_stopping_of(fields);
}

}  // namespace

GenerationDefaults read_generation_defaults(const std::filesystem::path& file) {
  GenerationDefaults defaults;
  if (!path_exists(file)) return defaults;
  const nlohmann::json config = read_json_file(file);
  const JsonFields fields(file, config, "");
  defaults.temperature = number_of(fields, "temperature", 1e9);
  defaults.top_k = count_of(fields, "top_k");
  defaults.top_p = number_of(fields, "top_p", 1);
  defaults.repetition_penalty = number_of(fields, "repetition_penalty", 1e9);
  if (defaults.repetition_penalty == 0) fields.section("repetition_penalty").fail("is not a number above 0");
  defaults.max_length = count_of(fields, "max_length");
  defaults.max_new_tokens = count_of(fields, "max_new_tokens");
  defaults.no_repeat_ngram_size = count_of(fields, "no_repeat_ngram_size");
  defaults.forced_first = id_of(fields, "forced_bos_token_id");
  defaults.forced_last = id_of(fields, "forced_eos_token_id");
  defaults.decoder_start = id_of(fields, "decoder_start_token_id");
  const bool samples = fields.flag("do_sample", false);
  read_beams(fields, samples, defaults);
  if (samples) {
    defaults.temperature = defaults.temperature.value_or(1);
    defaults.top_k = defaults.top_k.value_or(transformers_top_k);
  } else if (fields.has("do_sample") || defaults.temperature || defaults.top_k || defaults.top_p ||
             defaults.repetition_penalty.value_or(1) != 1 || defaults.no_repeat_ngram_size.value_or(0) > 0 ||
             defaults.beams) {
    defaults.temperature = 0;
  }
  for (const OtherKey& key : other_keys)
    if (fields.has(key.name) && !is_neutral(config.at(key.name), key.neutral) && (samples || !key.samples))
      defaults.unsupported.push_back(std::string(key.name) + " " + config.at(key.name).dump());
  return defaults;
}

}  // namespace llmtrain
