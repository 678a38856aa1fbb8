// SPDX-License-Identifier: Apache-2.0
// The recipes of recipes/models against the config.json files that their authors published (DeepSeek-V3, gpt-oss,
// Qwen3-Next-80B-A3B, Nemotron-H-8B, Gemma 3 27B): what each part holds, by closed forms of the files' numbers, and
// what each layer is; and against the sizes that papers and model cards state.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/recipe/recipe_io.h"
#include "tests/support/source_folder.h"

namespace llmtrain {
namespace {

// Numbers of parameters by part of a model.
using Parts = std::map<std::string, std::int64_t>;

Graph bundled(const std::string& name, const std::vector<std::string>& overrides = {}) {
  const Recipe recipe = read_recipe(test::source_folder() / "recipes/models" / (name + ".json"), overrides);
  return Graph::build(recipe.model);
}

std::string part_of(const Parameter& parameter) {
  const std::string& name = parameter.local_name;
  const auto starts = [&](const char* start) { return name.starts_with(start); };
  if (starts("token.")) return "embedding";
  if (starts("head.")) return "head";
  if (starts("ffn.experts.")) return "experts";
  if (starts("ffn.shared")) return "shared expert";
  if (starts("ffn.router")) return "router";
  if (starts("ffn.")) return "feed-forward";
  if (starts("attention.")) return "mixer";
  return name == "projection.weight" ? "projection" : "norms";
}

Parts parts_of(const Graph& graph) {
  Parts parts;
  for (const Parameter& parameter : graph.parameters) {
    std::int64_t elements = 1;
    for (const std::int64_t size : parameter.shape) elements *= size;
    parts[part_of(parameter)] += elements;
  }
  return parts;
}

// A letter for each layer, by what it is.
template <class Letter>
std::string layers_of(const Graph& graph, Letter letter) {
  std::string letters;
  for (const Block& block : graph.blocks)
    if (const LayerSettings* layer = block.layer()) letters += letter(*layer);
  return letters;
}

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

char window_letter(const LayerSettings& layer) { return layer.attention.window ? 'l' : 'g'; }

// As figures are printed: 671.03 of 671,026,419,200 parameters, with two digits.
double billions(std::int64_t parameters) { return static_cast<double>(parameters) / 1e9; }

}  // namespace

// q_lora_rank 1536, kv_lora_rank 512, qk_nope_head_dim 128, qk_rope_head_dim 64, v_head_dim 128, 128 heads of 61
// layers, intermediate_size 18432 of the first_k_dense_replace 3, n_routed_experts 256 and n_shared_experts 1 of
// moe_intermediate_size 2048, num_experts_per_tok 8.
TEST_CASE("DeepSeek-V3 has the parts and the layers of its config.json") {
  constexpr std::int64_t hidden = 7168, heads = 128, query = 1536, latent = 512, nope = 128, rope = 64, value = 128;
  constexpr std::int64_t expert = 3 * hidden * 2048, expert_layers = 58, vocabulary = 129280;
  const Parts expected{
      {"embedding", vocabulary * hidden},
      {"head", vocabulary * hidden},
      {"mixer", 61 * (hidden * query + query + query * heads * (nope + rope) + hidden * (latent + rope) + latent +
                      latent * heads * (nope + value) + heads * value * hidden)},
      {"feed-forward", 3 * 3 * hidden * 18432},
      {"experts", expert_layers * 256 * expert},
      {"shared expert", expert_layers * expert},
      {"router", expert_layers * 256 * hidden},
      {"norms", (2 * 61 + 1) * hidden}};
  const Graph graph = bundled("deepseek-v3");
  CHECK(parts_of(graph) == expected);
  CHECK(layers_of(graph, [](const LayerSettings& layer) { return layer.feed_forward.experts ? 'e' : 'd'; }) ==
        "ddd" + repeated("e", 58));
  // README_WEIGHTS.md of its weights: 671B parameters, of which 36.6B are activated for each token, the head's among
  // them and the embedding's not.
  CHECK(billions(graph.parameter_count()) == Approx(671).margin(0.5));
  CHECK(graph.active_parameter_count() == graph.parameter_count() - expert_layers * (256 - 8) * expert);
  CHECK(billions(graph.active_parameter_count() - vocabulary * hidden) == Approx(36.6).margin(0.05));

  // num_nextn_predict_layers 1: a layer of 11.5B (ibid.) with three norms and a projection of twice the hidden size.
  // The model shares its embedding and head.
  Parts more = parts_of(bundled("deepseek-v3", {"model.multi_token_prediction.depth=1"}));
  CHECK(more.at("embedding") + more.at("head") == 2 * vocabulary * hidden);
  CHECK(more.at("projection") == 2 * hidden * hidden);
  CHECK(more.at("norms") == expected.at("norms") + 5 * hidden);
  more.erase("projection");
  std::int64_t further = 0;
  for (const auto& [part, elements] : more) further += elements - expected.at(part);
  CHECK(billions(further) == Approx(11.5).margin(0.05));
}

// 64 heads of 64 with 8 of keys, biases, sinks, experts of intermediate_size 2880 of which num_experts_per_tok 4,
// layer_types sliding_attention (sliding_window 128) and full_attention in turns.
TEST_CASE("gpt-oss has the parts and the layers of its config.json, and the sizes of its model card") {
  struct Size {
    const char* name;
    std::int64_t layers, experts;
    // arXiv 2508.10925, table 1, in billions.
    double feed_forward, attention, active, total;
  };
  constexpr std::int64_t hidden = 2880, query = 64 * 64, key = 8 * 64, vocabulary = 201088;
  constexpr std::int64_t expert = 3 * hidden * hidden + 3 * hidden;
  for (const Size& size : {Size{"gpt-oss-120b", 36, 128, 114.71, 0.96, 5.13, 116.83},
                           Size{"gpt-oss-20b", 24, 32, 19.12, 0.64, 3.61, 20.91}}) {
    INFO(size.name);
    const Parts expected{{"embedding", vocabulary * hidden},
                         {"head", vocabulary * hidden},
                         {"mixer", size.layers * (hidden * (query + 2 * key) + query + 2 * key + query * hidden +
                                                  hidden + /* sinks: */ 64)},
                         {"experts", size.layers * size.experts * expert},
                         {"router", size.layers * (size.experts * hidden + size.experts)},
                         {"norms", (2 * size.layers + 1) * hidden}};
    const Graph graph = bundled(size.name);
    const Parts found = parts_of(graph);
    CHECK(found == expected);
    CHECK(layers_of(graph, window_letter) == repeated("lg", static_cast<int>(size.layers) / 2));
    CHECK(billions(found.at("experts") + found.at("router")) == Approx(size.feed_forward).margin(0.005));
    CHECK(billions(found.at("mixer")) == Approx(size.attention).margin(0.005));
    CHECK(billions(found.at("embedding") + found.at("head")) == Approx(1.16).margin(0.005));
    CHECK(billions(graph.parameter_count()) == Approx(size.total).margin(0.005));
    // The card's active parameters count the head and not the embedding.
    CHECK(billions(graph.active_parameter_count() - found.at("embedding")) == Approx(size.active).margin(0.005));
  }
}

// full_attention_interval 4: linear_num_key_heads 16, linear_num_value_heads 32 of 128, linear_conv_kernel_dim 4;
// otherwise 16 gated heads of 256 with 2 of keys; num_experts 512 and a gated shared one of 512.
TEST_CASE("Qwen3-Next has the parts and the layers of its config.json") {
  constexpr std::int64_t hidden = 2048, linear_layers = 36, full_layers = 12, vocabulary = 151936;
  constexpr std::int64_t keys = 16 * 128, values = 32 * 128, query = 16 * 256, key = 2 * 256;
  constexpr std::int64_t linear = hidden * (2 * keys + 2 * values) + hidden * 2 * 32 + 4 * (2 * keys + values) +
                                  /* dt_bias, A_log: */ 2 * 32 + /* norm: */ 128 + values * hidden;
  constexpr std::int64_t full = hidden * (2 * query + 2 * key) + query * hidden + 2 * 256;
  constexpr std::int64_t expert = 3 * hidden * 512;
  const Parts expected{{"embedding", vocabulary * hidden},
                       {"head", vocabulary * hidden},
                       {"mixer", linear_layers * linear + full_layers * full},
                       {"experts", 48 * 512 * expert},
                       {"shared expert", 48 * (expert + hidden)},
                       {"router", 48 * 512 * hidden},
                       {"norms", (2 * 48 + 1) * hidden}};
  const Graph graph = bundled("qwen3-next-80b-a3b");
  CHECK(parts_of(graph) == expected);
  CHECK(layers_of(graph, [](const LayerSettings& layer) { return layer.linear_attention ? 'M' : '*'; }) ==
        repeated("MMM*", 12));
  // Its model card: 80B in total and 3B activated, 79B without embeddings.
  CHECK(billions(graph.parameter_count()) == Approx(80).margin(0.5));
  CHECK(billions(graph.parameter_count() - graph.embedding_parameter_count()) == Approx(79).margin(0.5));
  CHECK(graph.active_parameter_count() == graph.parameter_count() - 48 * (512 - 10) * expert);
  CHECK(billions(graph.active_parameter_count() - graph.embedding_parameter_count()) == Approx(3).margin(0.5));
}

// hybrid_override_pattern; mamba_num_heads 128 of mamba_head_dim 64, n_groups 8, ssm_state_size 128, conv_kernel 4 with
// a bias; 32 heads of 128 with 8 of keys; intermediate_size 21504 with relu2, which has no gate.
TEST_CASE("Nemotron-H has the parts and the layers of its config.json") {
  const std::string pattern = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-";
  constexpr std::int64_t hidden = 4096, inner = 128 * 64, states = 8 * 128, vocabulary = 131072;
  constexpr std::int64_t convolved = inner + 2 * states;
  constexpr std::int64_t mamba = hidden * (inner + convolved + 128) + (4 + 1) * convolved +
                                 /* A_log, D, dt_bias: */ 3 * 128 + /* norm: */ inner + inner * hidden;
  constexpr std::int64_t attention = hidden * (32 + 2 * 8) * 128 + 32 * 128 * hidden;
  const auto count = [&](char kind) { return static_cast<std::int64_t>(std::ranges::count(pattern, kind)); };
  const Parts expected{{"embedding", vocabulary * hidden},
                       {"head", vocabulary * hidden},
                       {"mixer", count('M') * mamba + count('*') * attention},
                       {"feed-forward", count('-') * 2 * hidden * 21504},
                       {"norms", (52 + 1) * hidden}};
  const Graph graph = bundled("nemotron-h-8b");
  CHECK(parts_of(graph) == expected);
  CHECK(layers_of(graph, [](const LayerSettings& layer) {
          return !layer.has_mixer ? '-' : layer.linear_attention ? 'M' : '*';
        }) == pattern);
  // arXiv 2504.03624, section 2: 8B; its model card: 8.1B.
  CHECK(billions(graph.parameter_count()) == Approx(8.1).margin(0.05));
}

// text_config: 62 layers, 32 heads of 128 with 16 of keys, intermediate_size 21504, query_pre_attn_scalar 168,
// sliding_window 1024 in all but every sixth layer (sliding_window_pattern), of which rope_local_base_freq is 10,000.
TEST_CASE("Gemma 3 has the parts and the layers of its config.json, and the sizes of its report") {
  constexpr std::int64_t hidden = 5376, layers = 62, query = 32 * 128, key = 16 * 128, vocabulary = 262208;
  const Parts expected{{"embedding", vocabulary * hidden},
                       {"mixer", layers * (hidden * (query + 2 * key) + query * hidden + 2 * 128)},
                       {"feed-forward", layers * 3 * hidden * 21504},
                       {"norms", (4 * layers + 1) * hidden}};
  const Graph graph = bundled("gemma3-27b");
  CHECK(parts_of(graph) == expected);
  CHECK(layers_of(graph, window_letter) == repeated("lllllg", 10) + "ll");
  CHECK(layers_of(graph, [](const LayerSettings& layer) { return layer.attention.rope->theta == 1e4 ? 'l' : 'g'; }) ==
        layers_of(graph, window_letter));
  for (const Block& block : graph.blocks)
    if (block.layer() != nullptr) CHECK(block.layer()->attention.scale.value() == Approx(1 / std::sqrt(168.0)));
  // arXiv 2503.19786, table 1, in millions.
  CHECK(billions(graph.embedding_parameter_count()) == Approx(1.416).margin(0.01));
  CHECK(billions(graph.parameter_count() - graph.embedding_parameter_count()) == Approx(25.6).margin(0.05));
}

}  // namespace llmtrain
