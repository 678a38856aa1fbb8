# SPDX-License-Identifier: Apache-2.0
"""Models that get tokens beside those of the folder that they begin with: what transformers' resize_token_embeddings()
makes of them, trained as such a folder is, in any layout, with adapters as PEFT has them, and exported."""
import json
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import peft
    import safetensors.torch
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import byte_level_bpe
import program
from variants import write_recipe

LENGTH, TOKENS, MARKS = 48, 300, ["<|im_start|>", "<|im_end|>"]
# Two marks and padding, up to a multiple of 8.
RESIZED = 304
SHAPE = {"vocab_size": TOKENS, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": LENGTH,
         "initializer_range": 0.1, "bos_token_id": None, "eos_token_id": 0}
MODELS = {"llama": transformers.LlamaConfig(**SHAPE, tie_word_embeddings=False),
          "qwen2": transformers.Qwen2Config(**SHAPE, tie_word_embeddings=True)}
ROWS = {"llama": ["model.embed_tokens.weight", "lm_head.weight"], "qwen2": ["model.embed_tokens.weight"]}
HALF = {"training.steps": 3}
LORA = {"rank": 4, "targets": ["q_proj"]}
PARTS = {"tensor": {"launch.ranks": 2, "parallel.tensor": 2}, "sharded": {"launch.ranks": 2, "parallel.zero_stage": 3},
         "pipeline": {"launch.ranks": 2, "parallel.pipeline": 2}}
TEXTS = [f"The square of {i} is {i * i}, and of {i + 1} it is {(i + 1) ** 2}." for i in range(200)]


def tensors_of(folder):
    return safetensors.torch.load_file(folder / "model.safetensors")


class ResizedVocabulary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        bpe = byte_level_bpe.train(TEXTS, None, TOKENS)
        self.tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|endoftext|>")
        self.assertEqual(len(self.tokenizer), TOKENS)
        with (self.folder / "chats.jsonl").open("w", encoding="utf-8") as file:
            for question, answer in zip(TEXTS[0::2], TEXTS[1::2], strict=True):
                record = {"messages": [{"role": "user", "content": question[:20]},
                                       {"role": "assistant", "content": answer[:20]}]}
                file.write(json.dumps(record) + "\n")

    def write_model(self, name):
        """The model with its own tokenizer, and beside it the tokenizer with more tokens."""
        torch.manual_seed(5)
        transformers.AutoModelForCausalLM.from_config(MODELS[name]).save_pretrained(self.folder / "model")
        self.tokenizer.save_pretrained(self.folder / "model")
        more = transformers.AutoTokenizer.from_pretrained(self.folder / "model")
        more.add_special_tokens({"pad_token": "<|pad|>", "additional_special_tokens": MARKS})
        more.save_pretrained(self.folder / "tokenizer")
        self.assertEqual(len(more), TOKENS + 3)

    def write(self, **model):
        return write_recipe(self.folder / "recipe.json", {
            "model": {"from": "hf:model", "vocab_size": RESIZED, **model}, "batch": {"global": 4, "micro": 2},
            "data": {"train": [{"path": "chats.jsonl"}], "fine_tuning": {"template": "chatml"},
                     "tokenizer": {"huggingface": "tokenizer/tokenizer.json"}},
            "training": {"steps": 6, "learning_rate": {"peak": 1e-2, "decay_steps": 6}}, "log": {"tensorboard": False}})

    def export(self, run, form="hf"):
        out = self.folder / f"{run}-{form}"
        program.run("checkpoint", "export", self.folder / run, out, "--to", form)
        return out

    def unchanged(self, name, recipe, **changes):
        """What a run begins with, which a learning rate of 0 leaves alone."""
        program.train(recipe, self.folder / name,
                      {"training.steps": 1, "training.learning_rate.peak": 0, "training.learning_rate.minimum": 0,
                       **changes})
        return tensors_of(self.export(name))

    def test_rows_begin_as_those_of_transformers(self):
        """It draws them about the mean of the others, with 1e-9 of their covariance."""
        for name in MODELS:
            with self.subTest(name):
                self.write_model(name)
                ours = self.unchanged(f"{name}-first", self.write())
                model = transformers.AutoModelForCausalLM.from_pretrained(self.folder / "model")
                before = {key: value.clone() for key, value in model.state_dict().items()}
                model.resize_token_embeddings(RESIZED)
                theirs = model.state_dict()
                for key, value in ours.items():
                    if key not in ROWS[name]:
                        self.assertTrue(torch.equal(value, before[key]), key)
                        continue
                    self.assertEqual(value.shape, theirs[key].shape)
                    self.assertTrue(torch.equal(value[:TOKENS], before[key]), key)
                    self.assertTrue(torch.equal(value[TOKENS:], before[key].double().mean(0).float().expand(4, -1)))
                    # 6 standard deviations of what is drawn.
                    bound = 6 * 1e-9 ** 0.5 * before[key].std(0).max()
                    self.assertLess((value - theirs[key]).abs().max(), bound, key)

    def test_the_run_is_that_of_a_folder_with_these_rows(self):
        """Bitwise; in other layouts it begins with the same bits and goes on to rounding."""
        self.write_model("llama")
        first = self.unchanged("first", self.write())
        rows = program.train(self.write(), self.folder / "ours")
        whole = {"model.from": f"hf:{self.folder / 'first-hf'}"}
        self.assertEqual([row["loss"] for row in program.train(self.write(), self.folder / "theirs", whole)],
                         [row["loss"] for row in rows])
        for name, changes in PARTS.items():
            with self.subTest(name):
                for key, value in self.unchanged(f"first-{name}", self.write(), **changes).items():
                    self.assertTrue(torch.equal(value, first[key]), key)
                difference, _ = program.worst(program.train(self.write(), self.folder / name, changes), rows, "loss")
                self.assertLess(difference, 1e-5)
        # It goes on from a checkpoint as a run of any model does, and a run may begin with its weights and more tokens.
        program.train(self.write(), self.folder / "resumed", HALF)
        resumed = program.train(self.write(), self.folder / "resumed")
        self.assertEqual([row["loss"] for row in resumed], [row["loss"] for row in rows])
        larger = self.unchanged("larger", self.write(), **{"model.from": self.folder / "ours", "model.vocab_size": 320})
        for key, value in tensors_of(self.export("ours")).items():
            self.assertTrue(torch.equal(larger[key][:len(value)], value), key)
            if key in ROWS["llama"]:
                self.assertEqual(len(larger[key]), 320)
                self.assertTrue(torch.equal(larger[key][RESIZED:], value.double().mean(0).float().expand(16, -1)), key)

    def test_transformers_reads_what_is_exported(self):
        for name in MODELS:
            with self.subTest(name):
                self.write_model(name)
                program.train(self.write(), self.folder / f"{name}-run")
                out = self.export(f"{name}-run")
                tokenizer = transformers.AutoTokenizer.from_pretrained(out)
                given = transformers.AutoTokenizer.from_pretrained(self.folder / "tokenizer")
                for text in [*TEXTS[:20], "<|im_start|>user\nHello<|im_end|>\n<|pad|>"]:
                    self.assertEqual(tokenizer(text).input_ids, given(text).input_ids)
                self.assertEqual(tokenizer.pad_token_id, given.pad_token_id)
                model = transformers.AutoModelForCausalLM.from_pretrained(out).eval()
                self.assertEqual(model.config.vocab_size, RESIZED)
                prompt = "<|im_start|>user\nThe square of 7 is<|im_end|>\n<|im_start|>assistant\n"
                ids = tokenizer(prompt, return_tensors="pt").input_ids
                self.assertTrue({TOKENS + 1, TOKENS + 2} <= set(ids[0].tolist()))
                with torch.no_grad():
                    expected = model.generate(ids, do_sample=False, max_new_tokens=12, pad_token_id=0)[0, ids.shape[1]:]
                line = json.loads(program.run("sample", self.folder / f"{name}-run", "--prompt", prompt, "--plain",
                                              "--temperature", 0, "--tokens", 12, "--json"))
                self.assertEqual(line["tokens"], expected.tolist())

    def test_adapters_train_the_new_rows_or_are_refused(self):
        self.write_model("llama")
        words = 'ended with 2:[^$]*the 4 new rows of embedding.token.weight would stay as they begin, .*"embed_tokens"'
        with self.assertRaisesRegex(AssertionError, words):
            program.train(self.write(lora=LORA), self.folder / "refused")
        self.assertFalse((self.folder / "refused").exists())
        plan = json.loads(program.run("plan", self.write(lora=LORA), "--json"))
        self.assertTrue(any("the 4 new rows of embedding.token.weight would stay" in line for line in plan["warnings"]))
        with self.assertRaisesRegex(AssertionError, words):
            program.run("slurm", self.write(lora=LORA), "--set", "cluster.profile=cpu")
        recipe = self.write(lora={**LORA, "modules_to_save": ["embed_tokens", "lm_head"]})
        rows = program.train(recipe, self.folder / "run")
        # The checkpoint is of adapters and saved modules alone, and goes on.
        program.train(recipe, self.folder / "half", HALF)
        shown = json.loads(program.run("checkpoint", "inspect", self.folder / "half", "--json"))
        self.assertEqual(shown["base"]["source"], f"hf:{self.folder / 'model'}")
        resumed = program.train(recipe, self.folder / "half")
        self.assertEqual([row["loss"] for row in resumed], [row["loss"] for row in rows])
        # PEFT loads them over the folder's model, resized.
        base = transformers.AutoModelForCausalLM.from_pretrained(self.folder / "model")
        base.resize_token_embeddings(RESIZED)
        theirs = peft.PeftModel.from_pretrained(base, self.export("run", "peft")).eval()
        merged = transformers.AutoModelForCausalLM.from_pretrained(self.export("run")).eval()
        ids = torch.arange(RESIZED - LENGTH, RESIZED)[None]
        with torch.no_grad():
            expected = merged(ids).logits
            self.assertEqual(expected.shape[-1], RESIZED)
            self.assertLess((theirs(ids).logits - expected).abs().max() / expected.abs().max(), 1e-5)


if __name__ == "__main__":
    unittest.main()
