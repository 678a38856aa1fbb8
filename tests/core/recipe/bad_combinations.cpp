// SPDX-License-Identifier: Apache-2.0
#include "tests/core/recipe/bad_combinations.h"

namespace llmtrain::test {

std::vector<Combination> curriculum_combinations() {
  return {
      {R"({"model": {"max_sequence_length": 300000},
         "data": {"curriculum": {"sequence_length": {"start": 1, "steps": 10, "multiple": 1}}}})",
       "/data/curriculum/sequence_length/multiple",
       {"1 makes 299999 lengths", "at most 100000"}},
      {R"({"model": {"max_sequence_length": 300000},
         "training": {"token_dropping": {"start": 2, "steps": 10, "multiple": 2}}})",
       "/training/token_dropping/multiple",
       {"2 makes 149999 lengths", "at most 100000"}},
      {R"({"data": {"curriculum": {"sequence_length": {"start": 136, "steps": 10}}}})",
       "/data/curriculum/sequence_length/start",
       {"136 is too long", "batch.sequence_length (128)", "did you mean 128?"}},
      {R"({"data": {"curriculum": {"sequence_length": {"start": 60, "steps": 10}}}})",
       "/data/curriculum/sequence_length/start",
       {"60 is not a multiple of 8", "did you mean 64?"}},
      {R"({"data": {"curriculum": {"sequence_length": {"start": 60, "steps": 10, "multiple": 4}}}})", "", {}},
      {R"({"parallel": {"context": 4}, "data": {"curriculum": {"sequence_length":
         {"start": 60, "steps": 10, "multiple": 6}}}})",
       "/data/curriculum/sequence_length/multiple",
       {"6 is not a multiple of 4", "parallel.context", "did you mean 8?"}},
      {R"({"training": {"token_dropping": {"start": 64, "steps": 10, "first_layers": 3}}})",
       "/training/token_dropping",
       {"3 first and 1 last layers are all of the model's 4", "leave a layer"}},
      {R"({"training": {"token_dropping": {"start": 72, "steps": 10}}})",
       "/training/token_dropping/start",
       {"72 is not a multiple of 16", "did you mean 80?"}},
      {R"({"training": {"token_dropping": {"start": 63, "steps": 10, "multiple": 3}}, "model": {"moe": {"experts": 2}},
         "parallel": {"tensor": 2, "sequence": false}})",
       "/training/token_dropping/multiple",
       {"3 is not a multiple of 2", "parallel.tensor", "did you mean 4?"}},
  };
}

std::vector<Combination> masking_combinations() {
  return {
      {R"({"data": {"masking": {"token": 0}}})", "/data/masking", {"needs an encoder", "did you mean null?"}},
      {R"({"data": {"masking": {"token": 0, "replaced": 0.8, "random": 0.3}}})",
       "/data/masking/random",
       {"0.3 and replaced (0.8)", "at most 1"}},
      {R"({"data": {"masking": {"token": 100000000}}})", "/data/masking/token", {"100000000 is no id of the model"}},
      {R"({"data": {"masking": {}}})", "/data/masking/token", {"bytes have none"}},
      {R"({"data": {"masking": {"token": 0, "whole_words": true}, "train": [{"path": "a.bin"}]}})",
       "/data/masking/whole_words",
       {"a.bin", "data.tokenizer", "did you mean false?"}},
      {R"({"data": {"masking": {"token": 0, "single_texts": true}, "train": [{"path": "a.bin"}]}})",
       "/data/masking/single_texts",
       {"a.bin is a token file", "did you mean false?"}},
      {R"({"data": {"masking": {"token": 0, "single_texts": true}, "document_mask": {"end_of_text": 0}}})",
       "/data/masking/single_texts",
       {"each sequence has one document", "did you mean false?"}},
  };
}

std::vector<Combination> label_combinations() {
  return {
      {R"({"data": {"labels": {"classes": ["a", "b"]}}})", "/data/labels", {"needs an encoder", "did you mean null?"}},
      {R"({"data": {"labels": {}}})", "/data/labels/classes", {"missing"}},
      {R"({"data": {"labels": {"classes": ["a"]}}})", "/data/labels/classes", {"one class", "at least two"}},
      {R"({"data": {"labels": {"classes": ["a", "b", "a"]}}})", "/data/labels/classes", {"has a twice"}},
      {R"({"data": {"labels": {"classes": ["a", "b"], "of": "words", "text_pair": "c"}}})",
       "/data/labels/text_pair",
       {"c is a second text", "did you mean null?"}},
      {R"({"model": {"classifier": {"classes": ["a", "b"]}}})", "/model/classifier", {"needs an encoder", "null"}},
      {R"({"model": {"architecture": "bert", "dropout": 0, "classifier": {"classes": ["a"]}}})",
       "/model/classifier/classes",
       {"one class", "at least two"}},
      {R"({"model": {"architecture": "bert", "dropout": 0, "classifier": {"classes": ["a", "a"]}}})",
       "/model/classifier/classes",
       {"has a twice"}},
      {R"({"model": {"architecture": "bert", "dropout": 0, "classifier": {"classes": ["a", "b"]}}})", "", {}},
      {R"({"model": {"architecture": "bert", "dropout": 0, "classifier": {"classes": ["a", "b"]}},
           "data": {"train": [{"path": "a.jsonl"}]}})",
       "/model/classifier",
       {"these data have none", "needs data.labels"}},
      {R"({"model": {"architecture": "bert", "dropout": 0, "classifier": {"classes": ["a", "b"]}},
           "data": {"masking": {"token": 0}}})",
       "/model/classifier",
       {"not the tokens that data.masking hides", "did you mean null?"}},
      {R"({"model": {"architecture": "bert", "dropout": 0, "classifier": {"classes": ["b", "a"]}},
           "data": {"labels": {"classes": ["a", "b"]}}})",
       "/model/classifier",
       {"another order", "the same order"}},
      {R"({"model": {"architecture": "bert", "dropout": 0, "classifier": {"classes": ["a", "b"]}},
           "data": {"labels": {"classes": ["a", "b"], "of": "words"}}})",
       "/model/classifier",
       {"classes of sequences", "must be of \"token\""}},
      {R"({"model": {"architecture": "bert", "dropout": 0}, "data": {"labels": {"classes": ["a", "b"]}}})", "", {}},
      {R"({"model": {"architecture": "bert", "dropout": 0}, "data": {"labels": {"classes": ["a"]}}})",
       "/data/labels/classes",
       {"one class"}},
  };
}

std::vector<Combination> pair_combinations() {
  return {
      {R"({"data": {"pairs": {}}})", "/data/pairs", {"bytes have no mark", "did you mean null?"}},
      {R"({"model": {"architecture": "bert", "dropout": 0}, "data": {"pairs": {}}})",
       "/data/pairs",
       {"an encoder alone", "did you mean null?"}},
      {R"({"data": {"tokenizer": {"huggingface": "t.json"}, "pairs": {}}})", "", {}},
      {R"({"data": {"tokenizer": {"huggingface": "t.json"}, "pairs": {}, "fine_tuning": {}}})",
       "/data/pairs",
       {"must be null with data.fine_tuning"}},
      {R"({"data": {"tokenizer": {"huggingface": "t.json"}, "pairs": {},
         "curriculum": {"vocabulary_rarity": {"start": 10, "steps": 10}}}})",
       "/data/pairs",
       {"must be null with data.curriculum.vocabulary_rarity"}},
      {R"({"data": {"tokenizer": {"huggingface": "t.json"}, "pairs": {"decoder_start": 100000000}}})",
       "/data/pairs/decoder_start",
       {"100000000 is no id of the model"}},
      {R"({"data": {"tokenizer": {"huggingface": "t.json"}, "pairs": {}}, "model": {"dropout": 0.1}})",
       "/model/dropout",
       {"must be 0 where data.pairs is given"}},
      {R"({"data": {"tokenizer": {"huggingface": "t.json"}, "pairs": {},
         "train": [{"path": "a.jsonl", "text_key": "body"}]}})",
       "/data/train",
       {"must be left out with data.pairs"}},
      {R"({"data": {"tokenizer": {"huggingface": "t.json"}, "pairs": {}}, "parallel": {"context": 2}})",
       "/parallel/context",
       {"must be 1 with data.pairs"}},
  };
}

std::vector<Combination> document_combinations() {
  return {
      {R"({"model": {"dropout": 0.1}, "data": {"fine_tuning": {}}})",
       "/model/dropout",
       {"0.1 cannot be used with attention within documents", "data.fine_tuning.packing", "did you mean 0?"}},
      {R"({"model": {"dropout": 0.1}, "data": {"fine_tuning": {"packing": false}}})", "", {}},
      {R"({"model": {"dropout": 0.1}, "data": {"document_mask": {"end_of_text": 0}}})",
       "/model/dropout",
       {"within documents", "must be 0 where data.document_mask is given", "did you mean 0?"}},
      {R"({"data": {"fine_tuning": {}, "document_mask": {"end_of_text": 0}}})",
       "/data/document_mask",
       {"is for text and token files", "data.fine_tuning", "did you mean null?"}},
      {R"({"data": {"fine_tuning": {}, "train": [{"path": "a.jsonl", "text_key": "body"}]}})",
       "/data/train",
       {"body is the text_key", "data.fine_tuning"}},
      {R"({"data": {"validation": [{"path": "a.txt"}, {"path": "a.bin", "text_key": "body"}]}})",
       "/data/validation",
       {"body is the text_key", "a.bin", "token file"}},
      {R"({"data": {"fine_tuning": {"routing_replay": true}}})",
       "/data/fine_tuning/routing_replay",
       {"the model has none", "must be false without model.moe"}},
      {R"({"model": {"moe": {"experts": 2, "routing_zipf": 1}}, "data": {"fine_tuning": {"routing_replay": true}}})",
       "/data/fine_tuning/routing_replay",
       {"second source", "model.moe.routing_zipf", "did you mean false?"}},
      {R"({"data": {"fine_tuning": {"date": "today"}}})", "/data/fine_tuning/date", {"is no date", "2024-07-26"}},
      {R"({"data": {"document_mask": {}}})",
       "/data/document_mask/end_of_text",
       {"bytes have none", "the id that ends documents"}},
      {R"({"data": {"document_mask": {"end_of_text": 512}}})",
       "/data/document_mask/end_of_text",
       {"512 is no id of the model", "below model.vocab_size (512)"}},
      {R"({"data": {"document_mask": {}, "tokenizer": {"huggingface": "t.json"}}})", "", {}},
  };
}

std::vector<Combination> model_combinations() {
  return {
      {R"({"model": {"kv_heads": 3}})", "/model/kv_heads", {"3 does not divide 8", "model.heads", "did you mean 2?"}},
      {R"({"model": {"kv_heads": 16}})", "/model/kv_heads", {"did you mean 8?"}},
      {R"({"model": {"heads": 6}})", "/model/hidden_size", {"64 is not a multiple of 6", "head_dim", "mean 66?"}},
      {R"({"model": {"heads": 6, "head_dim": 10}})", "", {}},
      {R"({"model": {"heads": 128}})", "/model/hidden_size", {"did you mean 128?"}},
      {R"({"model": {"architecture": "llama", "head_dim": 5}})", "/model/head_dim", {"5", "multiple of 2", "mean 6?"}},
      {R"({"model": {"head_dim": 5}})", "", {}},
      {R"({"model": {"rope_scaling": {"type": "linear", "factor": 2}}})",
       "/model/rope_scaling",
       {"scales no positions", "model.position \"rope\"", "did you mean null?"}},
      {R"({"model": {"position": "rope", "rope_scaling": {"type": "linear", "factor": 2}}})", "", {}},
      {R"({"model": {"position": "rope", "rope_scaling": {"type": "llama3", "factor": 2, "low_frequency_factor": 4}}})",
       "/model/rope_scaling/high_frequency_factor",
       {"4 is too low", "must be above model.rope_scaling.low_frequency_factor (4)"}},
      {R"({"model": {"architecture": "gpt-rope", "heads": 64}})", "/model/head_dim", {"1 is not", "position is rope"}},
      {R"({"batch": {"sequence_length": 129}})", "/batch/sequence_length", {"129", "(128)", "did you mean 128?"}},
      {R"({"model": {"position": "rope"}, "batch": {"sequence_length": 129}})", "/batch/sequence_length", {"too long"}},
      {R"({"model": {"vocab_size": 255}, "data": {"train": [{"path": "a.txt"}]}})",
       "/model/vocab_size",
       {"255 is too small", "bytes", "did you mean 256?"}},
      {R"({"model": {"vocab_size": 255}, "data": {"train": [{"path": "a.bin"}]}})", "", {}},
      {R"({"model": {"vocab_size": 255}, "data": {"tokenizer": {"huggingface": "t.json"},
         "train": [{"path": "a.txt"}]}})",
       "",
       {}},
      {R"({"model": {"moe": {"experts": 2, "top_k": 3}}})", "/model/moe/top_k", {"at most model.moe.experts (2)"}},
      {R"({"model": {"moe": {"experts": 2, "shared_gate": true}}})",
       "/model/moe/shared_gate",
       {"no output to gate", "model.moe.shared_experts", "did you mean false?"}},
      {R"({"model": {"moe": {"experts": 2, "balance_loss": "load_importance", "gate_noise": 0}}})",
       "/model/moe/gate_noise",
       {"probability", "above 0", "did you mean 1?"}},
      {R"({"model": {"moe": {"experts": 2, "routing_zipf": 1, "routing_trace": "a.jsonl"}}})",
       "/model/moe/routing_trace",
       {"second source", "model.moe.routing_zipf", "did you mean null?"}},
      {R"({"log": {"routing": true}})", "/log/routing", {"no routing to write", "needs model.moe"}},
      {R"({"model": {"moe": {"experts": 2, "every": 5}}})", "/model/moe/every", {"no layer with experts"}},
      {R"({"model": {"dropout": 0.1}, "kernels": {"attention": "flash"}})",
       "/kernels/attention",
       {"flash", "dropout 0.1", "math path", "did you mean \"auto\"?"}},
      {R"({"log": {"fp8_statistics": true}, "precision": {"gradient_scaling": "pre"}})", "", {}},
      {R"({"precision": {"high_precision": {"first_layers": 1, "last_layers": 3}}})",
       "/precision/high_precision",
       {"1 first and 3 last layers are all of the model's 4", "leave a layer to FP8"}},
      {R"({"precision": {"high_precision": {"first_layers": 1, "last_layers": 2}}})", "", {}},
      {R"({"model": {"dropout": 0.1}})", "", {}},
      {R"({"kernels": {"attention": "flash"}})", "", {}},
  };
}

std::vector<Combination> attention_combinations() {
  return {
      {R"({"kernels": {"attention": "cudnn"}, "cluster": {"device": "cpu"}, "precision": {"compute": "bf16"}})",
       "/kernels/attention",
       {"GPUs alone", "cluster.device", "did you mean \"auto\"?"}},
      {R"({"kernels": {"attention": "cudnn"}})", "/kernels/attention", {"no fp32", "precision.compute"}},
      {R"({"kernels": {"attention": "cudnn"}, "precision": {"compute": "bf16"}, "model": {"dropout": 0.1}})",
       "/kernels/attention",
       {"without dropout", "model.dropout 0"}},
      {R"({"kernels": {"attention": "cudnn"}, "precision": {"compute": "bf16"}, "model": {"hidden_size": 1088}})",
       "/kernels/attention",
       {"heads of 136", "at most 128"}},
      {R"({"kernels": {"attention": "cudnn"}, "precision": {"compute": "bf16"}, "parallel": {"context": 2}})",
       "/kernels/attention",
       {"whole sequences", "parallel.context 1"}},
      {R"({"kernels": {"attention": "cudnn"}, "precision": {"compute": "bf16"},
           "data": {"document_mask": {"end_of_text": 10}}})",
       "/kernels/attention",
       {"whole sequences", "document_mask"}},
      {R"({"kernels": {"attention": "cudnn"}, "precision": {"compute": "fp16"}})", "", {}},
  };
}

std::vector<Combination> optimizer_combinations() {
  return {
      {R"({"training": {"optimizer": {"name": "muon"}}, "model": {"lora": {}}})",
       "/training/optimizer/name",
       {"no matrix to train with model.lora", "use \"adamw\""}},
      {R"({"precision": {"high_precision": {"fallback_steps": 8}}})", "", {}},
      {R"({"precision": {"high_precision": {"fallback_steps": 8}, "fp8_level": "O0"}})",
       "/precision/high_precision/fallback_steps",
       {"no operand overflows with its current scale", "\"delayed\"", "\"O1\"", "did you mean 0?"}},
      {R"({"precision": {"high_precision": {"fallback_steps": 8}, "fp8_level": "O1"}})", "", {}},
      {R"({"precision": {"high_precision": {"fallback_steps": 8}, "fp8_level": "O0",
           "fp8_scaling": {"method": "delayed"}}})",
       "",
       {}},
      {R"({"training": {"optimizer": {"name": "muon"}}, "precision": {"fp8_level": "O1"}})",
       "/training/optimizer/name",
       {"with FP8 gradients or states", "\"off\" or \"O0\""}},
      {R"({"training": {"optimizer": {"name": "muon"}}, "precision": {"fp8_level": "O0"}})", "", {}},
      {R"({"training": {"optimizer": {"name": "muon"}}, "memory": {"offload": {"optimizer": "disk"}}})", "", {}},
      {R"({"training": {"optimizer": {"name": "muon"}}, "memory": {"offload": {"activations": true}}})", "", {}},
  };
}

std::vector<Combination> update_combinations() {
  const auto refused = [](const std::string& training, const std::string& with, std::vector<std::string> texts) {
    texts.emplace_back("did you mean false?");
    return Combination{R"({"training": {"update_in_backward": true)" + training + "}" + with + "}",
                       "/training/update_in_backward", std::move(texts)};
  };
  const std::string unclipped = R"(, "clip_norm": 0)";
  return {
      refused("", "", {"clipping", "needs training.clip_norm 0"}),
      refused(unclipped + R"(, "spikes": {"loss": 6})", "", {"for a spike", "training.spikes.loss"}),
      refused(unclipped + R"(, "spikes": {"gradient_norm": 6})", "", {"for a spike", "gradient_norm 0"}),
      refused(unclipped + R"(, "skip_limit": 2)", "", {"not finite", "training.skip_limit 1"}),
      refused(unclipped, R"(, "precision": {"compute": "fp16"})", {"overflows", "\"bf16\" or \"fp32\""}),
      refused(unclipped, R"(, "precision": {"compute": "bf16", "fp8_level": "O1"})", {"scales", "\"off\" or \"O0\""}),
      refused(unclipped, R"(, "kernels": {"cuda_graphs": true}, "cluster": {"device": "cuda"})",
              {"captured passes", "kernels.cuda_graphs false"}),
      {R"({"training": {"update_in_backward": true, "clip_norm": 0}, "memory": {"offload": {"optimizer": "disk"}}})",
       "",
       {}},
      {R"({"training": {"update_in_backward": true, "clip_norm": 0, "optimizer": {"name": "muon"}},
           "precision": {"compute": "bf16", "fp8_level": "O0"}})",
       "",
       {}},
  };
}

std::vector<Combination> training_combinations() {
  return {
      {R"({"batch": {"global": 7}})", "/batch/global", {"7 is not a multiple of 2", "batch.micro", "did you mean 8?"}},
      {R"({"batch": {"global": 1}})", "/batch/global", {"did you mean 2?"}},
      {R"({"parallel": {"data": 3}})",
       "/batch/global",
       {"8", "multiple of 6", "batch.micro × parallel.data", "mean 6?"}},
      {R"({"parallel": {"data": 4}})", "", {}},
      {R"({"batch": {"global": 4194304}, "parallel": {"data": 1}})",
       "/batch/global",
       {"4194304 makes 2097152 micro-batches on 1 stage", "at most 262144", "raise batch.micro"}},
      {R"({"batch": {"global": 524288}, "parallel": {"data": 1}})", "", {}},
      {R"({"batch": {"global": 524288}, "parallel": {"data": 1, "pipeline": 2}})",
       "/batch/global",
       {"262144 micro-batches on 2 stages"}},
      {R"({"training": {"adapters_from": "saved"}})",
       "/training/adapters_from",
       {"names a folder, but model.lora is null", "did you mean null?"}},
      {R"({"model": {"lora": {}}, "training": {"adapters_from": "saved"}})", "", {}},
      {R"({"model": {"lora": {"dora": true}}, "training": {"adapters_from": "saved"}})",
       "/training/adapters_from",
       {"names a folder of DoRA", "training.init_from or model.from"}},
      {R"({"training": {"learning_rate": {"minimum": 0.001}}})",
       "/training/learning_rate/minimum",
       {"0.001", "at most training.learning_rate.peak"}},
      {R"({"launch": {"network_interfaces": ["ib0"]}, "cluster": {"nodes": 2}})", "", {}},
      {R"({"launch": {"network_interfaces": ["ib0"]}})",
       "/launch/network_interfaces",
       {"one node", "cluster.nodes", "did you mean []?"}},
      {R"({"launch": {"network_interfaces": ["ib0"], "backend": "local"}, "cluster": {"nodes": 2}})",
       "/launch/network_interfaces",
       {"local", "must be empty"}},
      {R"({"launch": {"network_interfaces": ["ib0,ib1"]}, "cluster": {"nodes": 2}})",
       "/launch/network_interfaces",
       {"ib0,ib1", "15 characters"}},
  };
}

std::vector<Combination> size_combinations() {
  return {
      {R"({"model": {"layers": 10000, "hidden_size": 1048576}})", "/model", {"parameters", "at most 1e15"}},
      {R"({"model": {"max_sequence_length": 16777216, "heads": 64},
           "batch": {"micro": 1048576, "global": 1048576}})",
       "/batch/micro",
       {"too large"}},
      {R"({"training": {"steps": 1000000000000}, "batch": {"global": 8388608}})", "/training/steps", {"at most 1e18"}},
  };
}

}  // namespace llmtrain::test
