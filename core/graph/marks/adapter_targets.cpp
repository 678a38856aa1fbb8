// SPDX-License-Identifier: Apache-2.0
#include "core/graph/marks/adapter_targets.h"

#include <map>
#include <string_view>

namespace llmtrain {

std::vector<std::string> adapter_patterns(const std::string& target) {
  const std::string query = "*.attention.query.weight", key = "*.attention.key.weight";
  const std::string value = "*.attention.value.weight", output = "*.attention.output.weight";
  const std::string gate = "*.ffn.gate.weight", up = "*.ffn.up.weight", down = "*.ffn.down.weight";
  const std::map<std::string, std::vector<std::string>> modules{
      {"q_proj", {query}},
      {"k_proj", {key}},
      {"v_proj", {value}},
      {"o_proj", {output}},
      {"gate_proj", {gate}},
      {"up_proj", {up}},
      {"down_proj", {down}},
      {"c_attn", {query, key, value}},
      {"c_fc", {up}},
      {"c_proj", {output, down}},
      {"all-linear", {"*"}},
      {"q_a_proj", {"*.attention.query_down.weight"}},
      {"q_b_proj", {"*.attention.query_up.weight"}},
      {"kv_a_proj_with_mqa", {"*.attention.key_value_down.weight"}},
      {"kv_b_proj", {"*.attention.key_value_up.weight"}},
  };
  const auto found = modules.find(target);
  return found == modules.end() ? std::vector<std::string>{target} : found->second;
}

std::vector<std::string> module_patterns(const std::string& module) {
  const std::map<std::string, std::vector<std::string>> modules{
      {"embed_tokens", {"embedding.token"}},
      {"wte", {"embedding.token"}},
      {"wpe", {"embedding.position"}},
      {"lm_head", {"head"}},
      {"norm", {"final_norm"}},
      {"ln_f", {"final_norm"}},
      {"input_layernorm", {"*.attention_norm"}},
      {"ln_1", {"*.attention_norm"}},
      {"post_attention_layernorm", {"*.ffn_norm"}},
      {"ln_2", {"*.ffn_norm"}},
      {"q_norm", {"*.attention.query_norm"}},
      {"k_norm", {"*.attention.key_norm"}},
  };
  if (const auto found = modules.find(module); found != modules.end()) return found->second;
  // Those of matrices have the same names as targets.
  std::vector<std::string> patterns = adapter_patterns(module);
  constexpr std::string_view suffix = ".weight";
  if (patterns != std::vector<std::string>{module})
    for (std::string& pattern : patterns)
      if (pattern.ends_with(suffix)) pattern.resize(pattern.size() - suffix.size());
  return patterns;
}

}  // namespace llmtrain
