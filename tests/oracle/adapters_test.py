# SPDX-License-Identifier: Apache-2.0
"""Low-rank adapters compared with PEFT: it loads ours, trains them on the same batches, and merges them."""
import json
import math
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy
    import peft
    import safetensors.torch
    import torch
    import transformers
    from torch.nn import functional
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

import program
from oracle_train import batch, in_order, learning_rate, read_tokens
from philox import philox, site_key
from variants import write_recipe, write_tokens

torch.set_num_threads(1)  # the models are tiny, so that threads would mostly wait for each other

LENGTH, STEPS, GLOBAL, VOCABULARY, SEED = 32, 20, 4, 96, 3
LOSS, CHANGE, LOGITS = 1e-4, 1e-3, 1e-4
# A learning rate of 0 leaves weights as they begin.
UNCHANGED = {"steps": 1, "learning_rate": {"peak": 0}}
MODELS = {
    "llama": transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=LENGTH, initializer_range=0.1, tie_word_embeddings=False),
    "gpt2": transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=48, n_layer=2, n_head=4, n_positions=LENGTH, initializer_range=0.1, bos_token_id=0,
        eos_token_id=0, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0),
}
MODELS["tied"] = transformers.LlamaConfig(**{**MODELS["llama"].to_dict(), "tie_word_embeddings": True})
EVERY = ["*.attention.*.weight", "*.ffn.*.weight"]
# GPT-2 keeps query, key and value in one matrix, to which PEFT has one adapter: it trains them otherwise.
APART = ["*.attention.output.weight", "*.ffn.*.weight"]


MATRICES = {"q_proj": "attention.query", "k_proj": "attention.key", "v_proj": "attention.value",
            "o_proj": "attention.output", "gate_proj": "ffn.gate", "up_proj": "ffn.up", "down_proj": "ffn.down"}


class Dropout(torch.nn.Module):
    """Drops what llmtrain drops of the input of the adapter to a module of Llama, in place of PEFT's own."""
    step = 0  # from 0

    def __init__(self, module, probability):
        super().__init__()
        layer, _, matrix = module.rsplit("layers.", 1)[1].split(".")
        self.site, self.probability = f"layers.{layer}.{MATRICES[matrix]}.lora_a.input", probability

    def forward(self, x):
        words = philox(site_key(SEED, Dropout.step, self.site), numpy.arange(-(-x.numel() // 4))).T.reshape(-1)
        kept = torch.from_numpy(words[:x.numel()] >= math.ceil(self.probability * 2**32)).view(x.shape)
        return x * kept / (1 - self.probability)


def drop_as_llmtrain(model):
    """Replaces the dropout of all adapters of a model of PEFT."""
    for name, module in model.named_modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            probability = module.lora_dropout["default"].p
            module.lora_dropout["default"] = Dropout(name, probability)


class Case:
    """A model of transformers, and runs from it with adapters."""

    def __init__(self, folder, name, **lora):
        self.folder = folder
        torch.manual_seed(7)
        transformers.AutoModelForCausalLM.from_config(MODELS[name]).save_pretrained(folder / "model")
        shape = {"model": {"vocab_size": VOCABULARY}, "batch": {"sequence_length": LENGTH}}
        write_tokens(folder / "tokens.bin", shape)
        self.recipe = {"seed": SEED, "model": {"from": "hf:model", "lora": lora},
                       "batch": {"global": GLOBAL, "micro": 2},
                       "data": {"train": [{"path": "tokens.bin"}], "shuffle": False},
                       "training": {"steps": STEPS, "learning_rate": {"peak": 1e-2, "warmup_steps": 4}},
                       "log": {"tensorboard": False}}

    def run(self, name, **training):
        """Trains, and exports the adapters; returns the rows of metrics."""
        recipe = {**self.recipe, "training": {**self.recipe["training"], **training}}
        rows = program.train(write_recipe(self.folder / f"{name}.json", recipe), self.folder / name)
        program.run("checkpoint", "export", self.folder / name, self.folder / f"{name}-peft", "--to", "peft")
        return rows

    def load(self, name, **options):
        model = transformers.AutoModelForCausalLM.from_pretrained(self.folder / "model")
        return peft.PeftModel.from_pretrained(model, self.folder / f"{name}-peft", **options)

    def learned_by_peft(self, **settings):
        """The model with adapters of PEFT's that are no longer those that a run begins with."""
        torch.manual_seed(11)
        base = transformers.AutoModelForCausalLM.from_pretrained(self.folder / "model")
        return peft.get_peft_model(base, peft.LoraConfig(init_lora_weights=False, **settings))

    def train(self, model):
        """The losses and norms of PEFT's model. Matrices are decayed; norms, magnitudes and positions are not."""
        named = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
        trained = [each for _, each in named]
        groups = [{"params": [each for name, each in named if (each.dim() > 1 and ".wpe." not in name) == decays],
                   "weight_decay": 0.1 if decays else 0.0} for decays in (True, False)]
        optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)
        tokens, rows = read_tokens(self.folder / "tokens.bin"), []
        model.train()  # with DoRA PEFT asks for it before it drops
        for step in range(STEPS):
            Dropout.step = step
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(self.recipe, step)
            inputs, targets = batch(tokens, in_order(step, GLOBAL, (len(tokens) - 1) // LENGTH), LENGTH)
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(inputs).logits.flatten(0, 1), targets.flatten())
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            rows.append({"loss": loss.item(), "grad_norm": norm.item()})
        model.eval()
        return rows


class Adapters(unittest.TestCase):
    def check(self, name, **lora):
        with tempfile.TemporaryDirectory() as folder:
            case = Case(Path(folder), name, **lora)
            case.run("first", **UNCHANGED)
            theirs = case.load("first", is_trainable=True)
            before = {key: value.detach().clone() for key, value in theirs.named_parameters()}
            dropout = lora.get("dropout", 0)
            self.assertEqual(theirs.peft_config["default"].lora_dropout, dropout)
            if dropout > 0:
                drop_as_llmtrain(theirs)
            rows, expected = case.run("ours"), case.train(theirs)
            for key in ("loss", "grad_norm"):
                difference, index = program.worst(rows, expected, key)
                self.assertLessEqual(difference, LOSS, f"{key} of row {index}")
            self.check_change(dict(case.load("ours").named_parameters()), theirs, before)
            self.check_merged(case, theirs)

    def check_change(self, ours, theirs, before):
        for key, value in theirs.named_parameters():
            if not value.requires_grad:
                self.assertTrue(torch.equal(ours[key], before[key]), key)
                continue
            self.assertRegex(key, r"\.(lora_|modules_to_save\.)")
            change = (value - before[key]).norm()
            self.assertGreater(change, 0, key)
            self.assertLessEqual((ours[key] - value).norm() / change, CHANGE, key)

    def check_merged(self, case, theirs):
        program.run("checkpoint", "export", case.folder / "ours", case.folder / "merged", "--to", "hf")
        merged = transformers.AutoModelForCausalLM.from_pretrained(case.folder / "merged")
        tokens = torch.arange(LENGTH)[None] * 7 % VOCABULARY
        with torch.no_grad():
            expected = theirs.merge_and_unload()(tokens).logits
            self.assertLessEqual((merged(tokens).logits - expected).abs().max() / expected.abs().max(), LOGITS)
        config = json.loads((case.folder / "merged" / "config.json").read_text(encoding="utf-8"))
        self.assertEqual(config["vocab_size"], VOCABULARY)

    def test_every_matrix_of_llama(self):
        self.check("llama", rank=4, alpha=8, targets=EVERY)

    def test_dropout(self):
        """Masks are those of the seed, the step and the adapter; exported adapters say how often they dropped."""
        self.check("llama", rank=4, alpha=8, dropout=0.25, targets=EVERY)

    def test_magnitudes(self):
        """DoRA, also of GPT-2's matrices, to whose products a bias is added, and with dropout."""
        self.check("gpt2", rank=3, alpha=6, dora=True, targets=APART)
        self.check("llama", rank=4, alpha=8, dora=True, dropout=0.25, targets=EVERY)

    def test_magnitudes_of_peft_go_on(self):
        """From adapters that have learned: magnitudes are no longer the lengths of rows."""
        with tempfile.TemporaryDirectory() as folder:
            case = Case(Path(folder), "llama", rank=4, alpha=8, dora=True, targets=["all-linear"])
            theirs = case.learned_by_peft(
                r=4, lora_alpha=8, target_modules="all-linear", use_dora=True, task_type="CAUSAL_LM")
            for name, parameter in theirs.named_parameters():
                if "magnitude" in name:
                    parameter.data *= 1 + 0.1 * torch.randn_like(parameter)
            theirs.save_pretrained(case.folder / "saved")
            before = {key: value.detach().clone() for key, value in theirs.named_parameters()}
            rows, expected = case.run("ours", adapters_from="saved"), case.train(theirs)
            for key in ("loss", "grad_norm"):
                difference, index = program.worst(rows, expected, key)
                self.assertLessEqual(difference, LOSS, f"{key} of row {index}")
            self.check_change(dict(case.load("ours").named_parameters()), theirs, before)
            self.check_merged(case, theirs)
            case.recipe["model"]["lora"]["dora"] = False
            with self.assertRaisesRegex(AssertionError, "/model/lora/dora: is false, but not use_dora"):
                case.run("refused", adapters_from="saved")

    def test_modules_beside_adapters(self):
        """Embedding, final norm and head are trained as a whole, and written with the adapters."""
        self.check("llama", rank=4, alpha=8, targets=["q_proj", "down_proj"],
                   modules_to_save=["embed_tokens", "norm", "lm_head"])

    def test_modules_of_peft_go_on(self):
        """GPT-2's matrices lie the other way round there; of a tied model the embedding and the head are one."""
        for name, target, modules in (("gpt2", "c_proj", ["c_fc", "wpe", "ln_f"]), ("tied", "q_proj", ["embed_tokens"])):
            with self.subTest(name):
                self.check_modules(name, target, modules)

    def check_modules(self, name, target, modules):
        with tempfile.TemporaryDirectory() as folder:
            case = Case(Path(folder), name, rank=4, alpha=8, targets=[target], modules_to_save=modules)
            theirs = case.learned_by_peft(
                r=4, lora_alpha=8, target_modules=[target], modules_to_save=list(modules),
                ensure_weight_tying=name == "tied", fan_in_fan_out=name == "gpt2")
            theirs.save_pretrained(case.folder / "saved")
            before = {key: value.detach().clone() for key, value in theirs.named_parameters()}
            rows, expected = case.run("ours", adapters_from="saved"), case.train(theirs)
            for key in ("loss", "grad_norm"):
                difference, index = program.worst(rows, expected, key)
                self.assertLessEqual(difference, LOSS, f"{key} of row {index}")
            self.check_change(dict(case.load("ours").named_parameters()), theirs, before)
            self.check_merged(case, theirs)
            case.recipe["model"]["lora"]["modules_to_save"] = modules[:-1]
            with self.assertRaisesRegex(AssertionError, '(ln_f.bias|lm_head.weight)" belongs to no adapter'):
                case.run("refused", adapters_from="saved")

    def test_adapters_of_peft_go_on(self):
        with tempfile.TemporaryDirectory() as folder:
            case = Case(Path(folder), "llama", rank=4, alpha=8, targets=["q_proj", "down_proj"])
            theirs = case.learned_by_peft(
                r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"])
            theirs.save_pretrained(case.folder / "saved")
            rows, expected = case.run("ours", adapters_from="saved"), case.train(theirs)
            difference, index = program.worst(rows, expected, "loss")
            self.assertLessEqual(difference, LOSS, f"loss of row {index}")
            for change, words in ({"rank": 8}, "/model/lora/rank"), ({"targets": ["*.query.weight"]}, "belongs to no"):
                case.recipe["model"]["lora"] = {"rank": 4, "alpha": 8, "targets": ["*.query.weight", "*.down.weight"],
                                                **change}
                with self.assertRaisesRegex(AssertionError, words):
                    case.run(f"refused-{words[:5].strip('/')}", adapters_from="saved")
            case.recipe["model"]["lora"] = {"rank": 4, "alpha": 8, "targets": ["*.query.weight", "*.down.weight"]}
            file = case.folder / "saved" / "adapter_model.safetensors"
            state = safetensors.torch.load_file(file)
            name = sorted(state)[-1]
            state[name][0, 0] = float("inf")
            safetensors.torch.save_file(state, file)
            with self.assertRaisesRegex(AssertionError, f'ended with 65:[^$]*"{name}" has values that are NaN or infinite'):
                case.run("infinite", adapters_from="saved")

    def test_rank_stabilized_adapters_of_all_linear_layers(self):
        """PEFT's words for targets and scale, and what they make of the model."""
        with tempfile.TemporaryDirectory() as folder:
            case = Case(Path(folder), "llama", rank=4, alpha=2, rank_stabilized=True, targets=["all-linear"])
            theirs = case.learned_by_peft(
                r=4, lora_alpha=2, target_modules="all-linear", use_rslora=True, task_type="CAUSAL_LM")
            theirs.save_pretrained(case.folder / "saved")
            before = {key: value.detach().clone() for key, value in theirs.named_parameters()}
            rows, expected = case.run("ours", adapters_from="saved"), case.train(theirs)
            difference, index = program.worst(rows, expected, "loss")
            self.assertLessEqual(difference, LOSS, f"loss of row {index}")
            self.check_change(dict(case.load("ours").named_parameters()), theirs, before)
            self.check_merged(case, theirs)
            case.recipe["model"]["lora"]["rank_stabilized"] = False
            with self.assertRaisesRegex(AssertionError, "/model/lora/rank_stabilized: is false, but not use_rslora"):
                case.run("refused", adapters_from="saved")

    def test_gpt2(self):
        self.check("gpt2", rank=3, alpha=6, targets=APART)

    def test_gpt2s_fused_matrix(self):
        """Query, key and value have adapters of their own, which PEFT gets as one of two or three times the rank."""
        for settings in ({"targets": ["c_attn", "c_proj"]}, {"targets": ["c_attn"], "dora": True},
                         {"targets": ["*.query.weight", "*.value.weight"], "rank_stabilized": True}):
            with self.subTest(**settings), tempfile.TemporaryDirectory() as folder:
                case = Case(Path(folder), "gpt2", rank=3, alpha=6, **settings)
                case.run("ours")
                self.check_merged(case, case.load("ours"))
                case.run("again", adapters_from="ours-peft", **UNCHANGED)
                ours, again = (safetensors.torch.load_file(case.folder / f"{name}-peft" / "adapter_model.safetensors")
                               for name in ("ours", "again"))
                self.assertEqual(ours.keys(), again.keys())
                for key, value in ours.items():
                    # The lengths of rows are taken from magnitudes and added again.
                    self.assertLessEqual((again[key] - value).abs().max(), 1e-6 if "magnitude" in key else 0, key)

    def test_adapters_of_peft_to_gpt2s_fused_matrix_go_on(self):
        """Its one A becomes that of each of the three."""
        for dora in (False, True):
            with self.subTest(dora=dora), tempfile.TemporaryDirectory() as folder:
                case = Case(Path(folder), "gpt2", rank=3, alpha=6, dora=dora, targets=["c_attn"])
                theirs = case.learned_by_peft(
                    r=3, lora_alpha=6, target_modules=["c_attn"], use_dora=dora, fan_in_fan_out=True)
                theirs.save_pretrained(case.folder / "saved")
                case.run("ours", adapters_from="saved", **UNCHANGED)
                self.check_merged(case, theirs)
                case.recipe["model"]["lora"]["targets"] = ["*.query.weight"]
                with self.assertRaisesRegex(AssertionError, "ended with 65:[^$]*c_attn.lora_B.weight. changes rows"):
                    case.run("refused", adapters_from="saved")


if __name__ == "__main__":
    unittest.main()
