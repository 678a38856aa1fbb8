#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests export and import with the real transformers and safetensors packages: huggingface_roundtrip_test.py TOOL."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import safetensors.torch
import torch
import transformers
from exported_models import MODELS, SHAPE

TOOL = ""


def gpt2_tensors(ours, tied):
    """The state_dict of a GPT2LMHeadModel from our weights, derived from the documentation of both sides."""
    state = {
        "transformer.wte.weight": ours["embedding.token.weight"],
        "transformer.wpe.weight": ours["embedding.position.weight"],
        "transformer.ln_f.weight": ours["final_norm.weight"],
        "transformer.ln_f.bias": ours["final_norm.bias"],
        "lm_head.weight": ours["embedding.token.weight" if tied else "head.weight"],
    }
    for layer in range(SHAPE["layers"]):
        mine, theirs = f"layers.{layer}.", f"transformer.h.{layer}."
        for kind in ("weight", "bias"):
            parts = [ours[f"{mine}attention.{part}.{kind}"] for part in ("query", "key", "value")]
            state[f"{theirs}attn.c_attn.{kind}"] = torch.cat(parts).t() if kind == "weight" else torch.cat(parts)
            state[f"{theirs}ln_1.{kind}"] = ours[f"{mine}attention_norm.{kind}"]
            state[f"{theirs}ln_2.{kind}"] = ours[f"{mine}ffn_norm.{kind}"]
            for linear, name in (("attn.c_proj", "attention.output"), ("mlp.c_fc", "ffn.up"), ("mlp.c_proj", "ffn.down")):
                tensor = ours[f"{mine}{name}.{kind}"]
                state[f"{theirs}{linear}.{kind}"] = tensor.t() if kind == "weight" else tensor
    return state


def llama_tensors(ours, tied):
    """The state_dict of a Llama family model from our weights."""
    parts = {
        "attention_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
        "attention.query": "self_attn.q_proj",
        "attention.key": "self_attn.k_proj",
        "attention.value": "self_attn.v_proj",
        "attention.output": "self_attn.o_proj",
        "attention.query_norm": "self_attn.q_norm",
        "attention.key_norm": "self_attn.k_norm",
        "ffn.router": "mlp.gate",
        "ffn.gate": "mlp.gate_proj",
        "ffn.up": "mlp.up_proj",
        "ffn.down": "mlp.down_proj",
        "ffn.shared.gate": "mlp.shared_expert.gate_proj",
        "ffn.shared.up": "mlp.shared_expert.up_proj",
        "ffn.shared.down": "mlp.shared_expert.down_proj",
        "ffn.shared_gate": "mlp.shared_expert_gate",
    }
    state = {
        "model.embed_tokens.weight": ours["embedding.token.weight"],
        "model.norm.weight": ours["final_norm.weight"],
        "lm_head.weight": ours["embedding.token.weight" if tied else "head.weight"],
    }
    for name, tensor in ours.items():
        if name.startswith("layers."):
            _, layer, rest = name.split(".", 2)
            part, kind = rest.rsplit(".", 1)
            if not part.startswith("ffn.experts."):
                state[f"model.layers.{layer}.{parts[part]}.{kind}"] = tensor
    for layer in range(SHAPE["layers"]):
        mine, theirs = f"layers.{layer}.ffn.experts.", f"model.layers.{layer}.mlp.experts."
        if f"{mine}up.weight" in ours:
            state[f"{theirs}gate_up_proj"] = torch.cat((ours[f"{mine}gate.weight"], ours[f"{mine}up.weight"]), 1)
            state[f"{theirs}down_proj"] = ours[f"{mine}down.weight"]
    return state


def small(name, **changes):
    """A tiny random transformers model, created by the package's own classes, with changes to its configuration."""
    torch.manual_seed(3)
    common = {"vocab_size": 29, "bos_token_id": None, "eos_token_id": None}
    llama = common | {
        "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 16,
    }  # fmt: skip
    configs = {
        "gpt2": lambda: transformers.GPT2Config(n_embd=24, n_layer=2, n_head=4, n_positions=16, **common),
        "gpt2_untied": lambda: transformers.GPT2Config(
            n_embd=24, n_layer=2, n_head=4, n_positions=16, n_inner=40, activation_function="gelu",
            tie_word_embeddings=False, **common
        ),
        "llama": lambda: transformers.LlamaConfig(rope_parameters={"rope_theta": 5e5, "rope_type": "default"}, **llama),
        "llama_biases": lambda: transformers.LlamaConfig(
            attention_bias=True, mlp_bias=True, tie_word_embeddings=True, head_dim=10, **llama
        ),
        "llama_attention_biases": lambda: transformers.LlamaConfig(attention_bias=True, **llama),
        "llama_network_biases": lambda: transformers.LlamaConfig(mlp_bias=True, **llama),
        "qwen3_attention_biases": lambda: transformers.Qwen3Config(head_dim=12, attention_bias=True, **llama),
        "mistral": lambda: transformers.MistralConfig(sliding_window=5, head_dim=8, **llama),
        "qwen2": lambda: transformers.Qwen2Config(tie_word_embeddings=True, **llama),
        "qwen3": lambda: transformers.Qwen3Config(head_dim=12, **llama),
        "mixtral": lambda: transformers.MixtralConfig(num_local_experts=4, sliding_window=None, **llama),
        "qwen3_moe": lambda: transformers.Qwen3MoeConfig(
            num_experts=4, num_experts_per_tok=2, moe_intermediate_size=20, decoder_sparse_step=2, norm_topk_prob=True,
            head_dim=12, **llama
        ),
        "qwen2_moe": lambda: transformers.Qwen2MoeConfig(
            num_experts=4, num_experts_per_tok=2, moe_intermediate_size=20, shared_expert_intermediate_size=40,
            norm_topk_prob=True, **llama
        ),
        # The second of every two layers has experts, said in the other way.
        "qwen2_moe_dense_first": lambda: transformers.Qwen2MoeConfig(
            num_experts=4, num_experts_per_tok=2, moe_intermediate_size=20, shared_expert_intermediate_size=20,
            mlp_only_layers=[0], qkv_bias=False, **llama
        ),
    }  # fmt: skip
    config = configs[name]()
    for key, value in changes.items():
        setattr(config, key, value)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1, 1)  # also biases and norms, so that mixing them up is detected
    return model


# Keys of config.json that say how positions turn, beside those of PLAIN; None removes a key.
PLAIN = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 40, "num_hidden_layers": 1, "vocab_size": 29,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64}
ORIGINAL = "original_max_position_embeddings"
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 4.0}
ROPE = {
    "llama3, the original length above": {"rope_scaling": LLAMA3, ORIGINAL: 24},
    "llama3, the original length inside": {"rope_scaling": LLAMA3 | {ORIGINAL: 24}},
    "llama3, two original lengths": {"rope_scaling": LLAMA3 | {ORIGINAL: 48}, ORIGINAL: 24},
    "llama3, no original length": {"rope_scaling": LLAMA3},
    "llama3 of version 5": {"rope_parameters": LLAMA3 | {"rope_theta": 5e5, ORIGINAL: 48}, ORIGINAL: 24},
    "yarn, the original length above": {"rope_parameters": YARN, ORIGINAL: 24},
    "yarn, two original lengths": {"rope_parameters": YARN | {ORIGINAL: 48}, ORIGINAL: 24},
    "yarn, the factor of the length above": {"rope_scaling": YARN | {"factor": None, ORIGINAL: 48}, ORIGINAL: 16},
    "yarn, zeros": {"rope_scaling": YARN | {"beta_fast": 0, "beta_slow": 0, ORIGINAL: 24}},
    "yarn, truncate null": {"rope_scaling": YARN | {"truncate": None, ORIGINAL: 24}},
    "yarn, mscale": {"rope_scaling": YARN | {"mscale": 1.0, "mscale_all_dim": 0.5, ORIGINAL: 24}},
    "linear, an original length": {"rope_scaling": {"type": "linear", "factor": 2.0}, ORIGINAL: 24},
    "two scalings": {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_theta": 1234.0,
                     "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
    "two thetas": {"rope_theta": 1234.0, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
    "the theta of mistral": {"model_type": "mistral"},
    "the theta of mixtral": {"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 1},
    "llama3 without its bounds": {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
    "llama3 without its factor": {"rope_scaling": {**LLAMA3, "factor": None}},
    "linear without its factor": {"rope_scaling": {"type": "linear"}},
    "yarn without its factor": {"rope_scaling": {"rope_type": "yarn", ORIGINAL: 24}},
    "a type that nobody knows": {"rope_scaling": {"type": "su", "factor": 2.0}},
}


class RoundTrip(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def tool(self, *words):
        done = subprocess.run([TOOL, *map(str, words)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def write_recipe(self, model):
        recipe = {"model": model, "batch": {"global": 1, "micro": 1}, "training": {"steps": 1}}
        (self.folder / "recipe.json").write_text(json.dumps(recipe))
        return self.folder / "recipe.json"

    def assert_same(self, actual, expected):
        self.assertEqual(sorted(actual), sorted(expected))
        for name, tensor in expected.items():
            self.assertEqual(actual[name].dtype, tensor.dtype, name)
            self.assertTrue(torch.equal(actual[name], tensor), name)

    def load(self, folder):
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            folder, output_loading_info=True, dtype="auto", local_files_only=True
        )
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
            self.assertFalse(report[kind], f"{kind}: {report[kind]}")
        return model

    def check_export(self, keys, class_name, dtype, shard_bytes=None):
        recipe = self.write_recipe(SHAPE | keys)
        most = [shard_bytes] if shard_bytes else []
        self.tool("export", recipe, self.folder / "hf", self.folder / "ours.safetensors", dtype, *most)
        model = self.load(self.folder / "hf")
        self.assertEqual(type(model).__name__, class_name)
        ours = safetensors.torch.load_file(self.folder / "ours.safetensors")
        tensors = gpt2_tensors if class_name == "GPT2LMHeadModel" else llama_tensors
        self.assert_same(model.state_dict(), tensors(ours, "head.weight" not in ours))
        for path in (self.folder / "hf").glob("*.safetensors"):
            with safetensors.safe_open(path, "pt") as file:
                self.assertEqual(file.metadata(), {"format": "pt"})
        # Through transformers' own writer and back to us.
        model.save_pretrained(self.folder / "again", max_shard_size=shard_bytes or "5GB")
        self.tool("import", self.folder / "again", recipe, self.folder / "back.safetensors")
        self.assert_same(safetensors.torch.load_file(self.folder / "back.safetensors"), ours)
        return model

    def check_import(self, model, folder):
        recipe = self.write_recipe(json.loads(self.tool("model", folder)))
        self.tool("import", folder, recipe, self.folder / "ours.safetensors")
        ours = safetensors.torch.load_file(self.folder / "ours.safetensors")
        tensors = gpt2_tensors if model.config.model_type == "gpt2" else llama_tensors
        self.assert_same(tensors(ours, "head.weight" not in ours), model.state_dict())

    def test_transformers_loads_every_export(self):
        for name, (keys, class_name) in MODELS.items():
            with self.subTest(name):
                self.check_export(keys, class_name, "fp32")

    def test_transformers_loads_exported_shards(self):
        """In files of at most 6 kB; of Mixtral each expert is a tensor."""
        for name in ("gpt2", "mixtral"):
            with self.subTest(name):
                self.check_export(*MODELS[name], "fp32", 6000)
                theirs = json.loads((self.folder / "again" / "model.safetensors.index.json").read_text())
                ours = json.loads((self.folder / "hf" / "model.safetensors.index.json").read_text())
                self.assertEqual(ours["metadata"], theirs["metadata"])
                self.assertEqual(list(ours["weight_map"]), list(theirs["weight_map"]))
                shutil.rmtree(self.folder / "hf")
                shutil.rmtree(self.folder / "again")

    def test_bf16_is_exported_as_such(self):
        model = self.check_export({"architecture": "llama"}, "LlamaForCausalLM", "bf16")
        self.assertEqual(model.dtype, torch.bfloat16)

    def test_exported_configuration_says_what_the_recipe_said(self):
        keys = {"architecture": "llama", "rope_theta": 500000, "norm_eps": 3e-6, "kv_heads": 2, "head_dim": 10}
        config = self.check_export(keys, "LlamaForCausalLM", "fp32").config
        self.assertEqual(config.rope_parameters, {"rope_theta": 500000, "rope_type": "default"})
        self.assertEqual((config.rms_norm_eps, config.num_key_value_heads, config.head_dim), (3e-6, 2, 10))
        self.assertEqual((config.max_position_embeddings, config.tie_word_embeddings), (16, False))
        self.assertIsNone(config.eos_token_id)
        keys = {"architecture": "gpt2", "norm_eps": 3e-6, "ffn_hidden_size": 40}
        config = self.check_export(keys, "GPT2LMHeadModel", "fp32").config
        self.assertEqual((config.activation_function, config.layer_norm_epsilon, config.n_inner), ("gelu_new", 3e-6, 40))
        self.assertIsNone(config.bos_token_id)

    def test_models_of_transformers_are_imported(self):
        for name in ("gpt2", "gpt2_untied", "llama", "llama_biases", "llama_attention_biases", "llama_network_biases",
                     "mistral", "qwen2", "qwen3", "qwen3_attention_biases", "mixtral", "qwen3_moe", "qwen2_moe",
                     "qwen2_moe_dense_first"):
            with self.subTest(name):
                model = small(name)
                model.save_pretrained(self.folder / name)
                self.check_import(model, self.folder / name)

    def test_shards_are_imported(self):
        model = small("llama")
        model.save_pretrained(self.folder / "shards", max_shard_size="8KB")
        self.assertTrue((self.folder / "shards" / "model.safetensors.index.json").exists())
        self.check_import(model, self.folder / "shards")

    def test_tied_heads_are_imported(self):
        """Which of the two names a tied matrix has in the file does not matter to transformers."""
        for name in ("gpt2", "llama", "mistral", "qwen2", "qwen3", "mixtral", "qwen3_moe", "qwen2_moe"):
            with self.subTest(name):
                embedding = "transformer.wte.weight" if name == "gpt2" else "model.embed_tokens.weight"
                folder = self.folder / name
                small(name, tie_word_embeddings=True).save_pretrained(folder)
                state = safetensors.torch.load_file(folder / "model.safetensors")
                state["lm_head.weight"] = state.pop(embedding)
                safetensors.torch.save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
                self.check_import(self.load(folder), folder)

    def test_heads_that_are_not_tied_are_imported_as_transformers_loads_them(self):
        """It leaves two matrices untied that differ, whatever config.json says. Here config.json must say so, too."""
        folder = self.folder / "both"
        small("llama", tie_word_embeddings=True).save_pretrained(folder)
        state = safetensors.torch.load_file(folder / "model.safetensors")
        state["lm_head.weight"] = state["model.embed_tokens.weight"] + 1
        safetensors.torch.save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        model = self.load(folder)
        with self.assertRaisesRegex(AssertionError, "tie_word_embeddings to false"):
            self.check_import(model, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}))
        self.check_import(model, folder)

    def test_half_precision_is_imported(self):
        for dtype in (torch.float16, torch.bfloat16):
            with self.subTest(dtype):
                model = small("qwen2").to(dtype)
                model.save_pretrained(self.folder / str(dtype))
                self.check_import(model, self.folder / str(dtype))

    def test_older_names_and_buffers_are_imported(self):
        model = small("gpt2")
        model.save_pretrained(self.folder / "old")
        state = {name.removeprefix("transformer."): tensor.clone() for name, tensor in model.state_dict().items()}
        for layer in range(2):
            state[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 16, 16).tril()
            state[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
        safetensors.torch.save_file(state, self.folder / "old" / "model.safetensors")
        self.check_import(model, self.folder / "old")

    def test_version_4_configurations_are_imported(self):
        model = small("llama")
        model.save_pretrained(self.folder / "v4")
        file = self.folder / "v4" / "config.json"
        config = json.loads(file.read_text())
        config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
        config |= {"rope_scaling": None, "torch_dtype": config.pop("dtype"), "pretraining_tp": 1}
        file.write_text(json.dumps(config))
        self.check_import(model, self.folder / "v4")

    def rope_of(self, folder):
        """What transformers makes of a config.json: the amplitude, and the angles; None where it refuses."""
        try:
            config = transformers.AutoConfig.from_pretrained(folder)
            rope = transformers.AutoModelForCausalLM.from_config(config).model.rotary_emb
        except (KeyError, TypeError):
            return None
        return [rope.attention_scaling, *rope.inv_freq.tolist()]

    def test_positions_turn_as_transformers_says(self):
        for index, (name, keys) in enumerate(ROPE.items()):
            with self.subTest(name):
                folder = self.folder / str(index)
                folder.mkdir()
                (folder / "config.json").write_text(json.dumps(PLAIN | keys))
                expected = self.rope_of(folder)
                if expected is None:
                    done = subprocess.run([TOOL, "frequencies", folder], capture_output=True, text=True)
                    self.assertEqual(done.returncode, 65, done.stderr)
                    self.assertIn("/rope_scaling/", done.stderr)
                    continue
                actual = [float(line) for line in self.tool("frequencies", folder).split()]
                self.assertEqual(len(actual), len(expected))
                for ours, theirs in zip(actual, expected):
                    self.assertAlmostEqual(ours / theirs, 1, delta=2e-6)

    def test_safetensors_files_are_the_reference_writers_byte_for_byte(self):
        torch.manual_seed(5)
        dtypes = (
            torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
            torch.int8, torch.uint8, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64,
        )  # fmt: skip
        state = {}
        for index, dtype in enumerate(dtypes):
            for shape in ((), (3,), (2, 0), (2, 3, 5)):
                state[f"t{index}.{len(shape)}ü\"{shape}"] = (torch.rand(shape) * 100).to(dtype)
        safetensors.torch.save_file(state, self.folder / "theirs.safetensors", metadata={"format": "pt"})
        self.tool("copy", self.folder / "theirs.safetensors", self.folder / "ours.safetensors")
        self.assertEqual(
            (self.folder / "ours.safetensors").read_bytes(), (self.folder / "theirs.safetensors").read_bytes()
        )


if __name__ == "__main__":
    TOOL = sys.argv.pop(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    unittest.main()
