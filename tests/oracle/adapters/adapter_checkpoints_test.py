# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of adapters without their base do all that whole ones do, and are refused over another base."""
import hashlib
import json
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import safetensors.torch
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import checkpoint_folder
import program
from variants import write_recipe

LENGTH = 32
MODEL = transformers.LlamaConfig(
    vocab_size=256, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=LENGTH, initializer_range=0.1, tie_word_embeddings=False)
LORA = {"rank": 4, "targets": ["q_proj", "down_proj"], "modules_to_save": ["norm"]}
TRAINED = r"^(layers\.\d\.(attention\.query|ffn\.down)\.lora_[ab]|final_norm\.weight)(\.master|\.m|\.v)?$"


def save_model(folder, seed, dtype=torch.float32):
    torch.manual_seed(seed)
    transformers.AutoModelForCausalLM.from_config(MODEL).to(dtype).save_pretrained(folder)


def tensors_of(checkpoint):
    """All that a checkpoint holds, whichever file it is in."""
    return {name: value for file in sorted(checkpoint.glob("*.safetensors"))
            for name, value in safetensors.torch.load_file(file).items()}


def files_of(folder):
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


class AdapterCheckpoints(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        save_model(self.folder / "model", 7)
        (self.folder / "text.txt").write_text("".join(f"line {i * i} of the text;\n" for i in range(400)))
        self.recipe = write_recipe(self.folder / "recipe.json", {
            "model": {"from": "hf:model", "lora": LORA}, "batch": {"global": 4, "micro": 2},
            "data": {"train": [{"path": "text.txt"}]}, "precision": {"compute": "bf16"},
            "training": {"steps": 8, "learning_rate": {"peak": 1e-2}},
            "checkpoint": {"every": 4, "keep": 0}, "log": {"tensorboard": False}})

    def train(self, name, **changes):
        return program.train(self.recipe, self.folder / name, changes)

    def checkpoint(self, name, step=8):
        return self.folder / name / "checkpoints" / f"step-{step:08}"

    def require_refused(self, words, *command):
        with self.assertRaisesRegex(AssertionError, words):
            program.run(*command)

    def test_they_do_what_whole_ones_do(self):
        small = self.train("small")
        whole = self.train("whole", **{"checkpoint.save_base": "true"})
        self.assertEqual([row["loss"] for row in small], [row["loss"] for row in whole])
        ours, theirs = (tensors_of(self.checkpoint(name)) for name in ("small", "whole"))
        self.assertEqual(set(ours), {name for name in theirs if re.match(TRAINED, name)})
        self.assertLess(len(ours), len(theirs))
        for name, value in ours.items():
            self.assertTrue(torch.equal(value, theirs[name]), name)
        shown = json.loads(program.run("checkpoint", "inspect", self.folder / "small", "--json"))
        self.assertEqual(shown["base"]["source"], f"hf:{self.folder / 'model'}")
        self.assertIsNone(json.loads(program.run("checkpoint", "inspect", self.folder / "whole", "--json"))["base"])
        for form in ("hf", "peft"):
            for name in ("small", "whole"):
                program.run("checkpoint", "export", self.folder / name, self.folder / f"{name}-{form}", "--to", form)
            self.assertEqual(files_of(self.folder / f"small-{form}"), files_of(self.folder / f"whole-{form}"))
        for command, *words in (("sample", "--prompt", "line 16", "--json"),
                                ("eval", "--data", self.folder / "text.txt", "--json")):
            small, whole = (json.loads(program.run(command, self.folder / name, *words)) for name in ("small", "whole"))
            self.assertEqual({**small, "checkpoint": None}, {**whole, "checkpoint": None})

    def test_runs_go_on(self):
        """From the checkpoint in the middle, bitwise: on the same layout, where a pipeline is cut, and sharded, where two
        ranks' gradients are added that one rank adds; also from and to whole checkpoints."""
        whole = self.train("whole")
        expected = checkpoint_folder.read(self.checkpoint("whole"))
        self.train("with-base", **{"checkpoint.save_base": "true"})
        for name, source, changes in (("same", "whole", {}),
                                      ("cut", "whole", {"launch.ranks": 2, "parallel.pipeline": 2}),
                                      ("sharded", "whole", {"launch.ranks": 2, "parallel.zero_stage": 3}),
                                      ("grows", "whole", {"checkpoint.save_base": "true"}), ("kept", "with-base", {})):
            with self.subTest(name):
                rows = self.train(name, **{"checkpoint.resume": self.checkpoint(source, 4), **changes})
                self.assertEqual([(row["step"], row["loss"]) for row in rows],
                                 [(row["step"], row["loss"]) for row in whole[4:]])
                ours = checkpoint_folder.read(self.checkpoint(name))
                for key, value in expected.items():
                    self.assertTrue(torch.equal(ours[key], value), key)
                # What one checkpoint holds of the base the next one does.
                self.assertEqual("embedding.token.weight" in ours, name in ("grows", "kept"))

    def test_runs_go_on_by_other_sums(self):
        """Tensor ranks add parts of products: in fp32 rounding moves what four steps change by a millionth."""
        exact = {"precision.compute": "fp32"}
        whole = self.train("whole", **exact)
        before, expected = (checkpoint_folder.read(self.checkpoint("whole", step)) for step in (4, 8))
        rows = self.train("split", **{"checkpoint.resume": self.checkpoint("whole", 4), "launch.ranks": 2,
                                      "parallel.tensor": 2, **exact})
        self.assertLess(program.worst(rows, whole[4:], "loss")[0], 1e-6)
        ours = checkpoint_folder.read(self.checkpoint("split"))
        self.assertEqual(ours.keys(), expected.keys())
        for key, value in expected.items():
            self.assertLess((ours[key] - value).norm() / (value - before[key]).norm(), 1e-5, key)

    def test_the_base_is_the_same_or_refused(self):
        self.train("run")
        program.run("checkpoint", "export", self.folder / "run", self.folder / "before", "--to", "hf")
        shutil.move(self.folder / "model", self.folder / "moved")
        self.require_refused("holds adapters without their base, which is read from .*model", "checkpoint", "export",
                             self.folder / "run", self.folder / "out", "--to", "hf")
        # Another model of the same shapes, then the same one in files of another type.
        save_model(self.folder / "model", 8)
        words = "trained over .*hf:.*model. with the fingerprint [0-9a-f]{16}, and .*model. now has [0-9a-f]{16}"
        self.require_refused(words, "checkpoint", "export", self.folder / "run", self.folder / "out", "--to", "hf")
        self.require_refused(words, "sample", self.folder / "run", "--prompt", "a")
        self.require_refused(words, "run", self.recipe, "--run-dir", self.folder / "run", "--set", "training.steps=9")
        self.assertFalse((self.folder / "out").exists())
        model = transformers.AutoModelForCausalLM.from_pretrained(self.folder / "moved")
        shutil.rmtree(self.folder / "model")
        model.save_pretrained(self.folder / "model", max_shard_size="20KB")
        program.run("checkpoint", "export", self.folder / "run", self.folder / "after", "--to", "hf")
        self.assertEqual(files_of(self.folder / "before"), files_of(self.folder / "after"))
        shutil.rmtree(self.folder / "model")
        program.run("run", self.recipe, "--run-dir", self.folder / "run", "--set", "training.steps=9", "--set",
                    f"model.from=hf:{self.folder / 'moved'}")
        shown = json.loads(program.run("checkpoint", "inspect", self.folder / "run", "--json"))
        self.assertEqual(shown["base"]["source"], f"hf:{self.folder / 'moved'}")


if __name__ == "__main__":
    unittest.main()
