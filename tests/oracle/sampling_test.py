# SPDX-License-Identifier: Apache-2.0
"""`llmtrain sample` and `eval` compared with transformers, on exports of the same checkpoints."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

import checkpoint_folder
from model_settings import resolve
from reference_model import ReferenceModel

torch.set_num_threads(1)  # the models are tiny, so that threads would mostly wait for each other

SHAPE = {"layers": 2, "hidden_size": 64, "heads": 4, "vocab_size": 256, "max_sequence_length": 80}
MODELS = {
    "gpt2": {"architecture": "gpt2"},
    "llama, grouped queries": {"architecture": "llama", "kv_heads": 2},
    "llama, one key head, qk_norm (Qwen3)": {"architecture": "llama", "kv_heads": 1, "head_dim": 20, "qk_norm": True},
    "llama, 4 experts (Mixtral)": {"architecture": "llama", "kv_heads": 2, "moe": {
        "experts": 4, "top_k": 2, "capacity_factor": 0, "ffn_hidden_size": 48}},
    "llama, qkv_bias, 5 experts and gated shared ones (Qwen2-MoE)": {
        "architecture": "llama", "kv_heads": 2, "qkv_bias": True, "ffn_hidden_size": 80, "moe": {
            "experts": 5, "top_k": 2, "every": 2, "capacity_factor": 0, "ffn_hidden_size": 48, "normalize_gates": False,
            "shared_experts": 2, "shared_gate": True}},
}
PROMPTS = ["The quick", "x", "jumps over the lazy dog and ünder"]
QUESTIONS = [
    {"context": "The colour of the sky is", "choices": ["blue", "grün", "a dark red"], "answer": 0},
    {"context": "Two and two are ", "choices": ["three", "four", "fünf", "€ 4"], "answer": 1},
    {"prompt": "long " * 15, "choices": ["short", "of a length beyond"], "answer": 1},
]


class Export:
    """A checkpoint with random weights, and transformers' model of it. `tensors` are stored beside the weights."""

    def __init__(self, folder, keys, precision=None, tensors=None):
        self.folder = folder
        model = {**SHAPE, **keys}
        reference = ReferenceModel(model)
        reference.randomize(seed=3)
        recipe = {"model": vars(resolve(model)), "batch": {"global": 1, "micro": 1}, "training": {"steps": 1},
                  "cluster": {"device": "cpu"}, "precision": precision or {}}
        weights = {key: value.detach().clone() for key, value in reference.state_dict().items()}
        checkpoint_folder.write(folder / "checkpoint", {**weights, **(tensors or {})}, recipe)
        self.run("checkpoint", "export", folder / "checkpoint", folder / "hf", "--to", "hf")
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder / "hf").eval()

    def run(self, *arguments):
        command = [os.environ["LLMTRAIN_PROGRAM"], *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise AssertionError(f"{command} ended with {result.returncode}:\n{result.stderr}")
        return result.stdout

    def sample(self, *arguments):
        lines = self.run("sample", self.folder / "checkpoint", "--json", *arguments).splitlines()
        return [json.loads(line) for line in lines]

    def logits(self, tokens):
        with torch.no_grad():
            return self.model(torch.tensor([tokens])).logits[0].double()


class Sampling(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        (self.folder / "prompts.txt").write_text("\n".join(PROMPTS), encoding="utf-8")
        (self.folder / "questions.jsonl").write_text("\n".join(map(json.dumps, QUESTIONS)), encoding="utf-8")

    def test_models(self):
        for name, keys in MODELS.items():
            with self.subTest(name):
                export = Export(self.folder / name.split(",")[0] / str(len(name)), keys)
                self.check_greedy(export)
                self.check_choices(export)
                if "moe" in keys:
                    self.check_import(export)
        # What does not depend on the model, with the last one.
        self.check_top(export)
        self.check_loss(export)

    def test_layers_that_have_left_fp8_are_evaluated_without_it(self):
        """All of them, so that the losses are those of fp32."""
        precision = {"fp8_level": "O0", "fp8_scaling": {"method": "delayed"}, "high_precision": {"fallback_steps": 4}}
        left = {f"layers.{layer}.{product}.weight.overflow": torch.tensor([4.0, 1.0]) for layer in range(SHAPE["layers"])
                for product in ("attention.query", "attention.output", "ffn.gate", "ffn.down")}
        keys = MODELS["llama, grouped queries"]
        self.check_loss(Export(self.folder / "left", keys, precision, left))
        with self.assertRaisesRegex(AssertionError, "within .* delta"):
            self.check_loss(Export(self.folder / "fp8", keys, precision))

    def check_greedy(self, export):
        """Prompts of unequal lengths together give the tokens that generate() gives each of them."""
        arguments = ("--prompts", self.folder / "prompts.txt", "--tokens", 40, "--temperature", 0)
        found = export.sample(*arguments)
        for line, prompt in zip(found, PROMPTS, strict=True):
            self.assertEqual((line["prompt"], line["sample"], line["ended"]), (prompt, 0, "length"))
            tokens = torch.tensor([list(prompt.encode())])
            expected = export.model.generate(tokens, attention_mask=torch.ones_like(tokens), do_sample=False,
                                             max_new_tokens=40, eos_token_id=None, pad_token_id=0)
            self.assertEqual(line["tokens"], expected[0, tokens.shape[1]:].tolist())
        self.assertEqual(export.sample(*arguments, "--tensor", 2, "--pipeline", 2), found)

    def check_import(self, export):
        """What transformers has written computes the same here."""
        again = export.folder / "again"
        export.model.save_pretrained(again / "hf")
        export.run("checkpoint", "import", again / "hf", again / "checkpoint", "--from", "hf")
        self.check_choices(export, again / "checkpoint")

    def check_top(self, export):
        """What top-k and top-p of transformers remove is never drawn; of what they leave most is."""
        prompt = list(PROMPTS[0].encode())
        logits = export.logits(prompt)[-1:].float() / 1.5
        logits = transformers.TopKLogitsWarper(12)(None, logits)
        logits = transformers.TopPLogitsWarper(0.9)(None, logits)
        allowed = set(torch.nonzero(logits[0] > -float("inf")).flatten().tolist())
        drawn = [line["tokens"][0] for line in export.sample(
            "--prompt", PROMPTS[0], "--tokens", 1, "--samples", 200, "--temperature", 1.5, "--top-k", 12, "--top-p", 0.9)]
        self.assertLessEqual(set(drawn), allowed)
        # The likeliest is drawn about as often as its probability says: five standard deviations of 200 draws.
        most = torch.softmax(logits, 1).max()
        share = drawn.count(int(logits.argmax())) / 200
        self.assertLess(abs(share - most), 5 * (most * (1 - most) / 200) ** 0.5)

    def check_choices(self, export, checkpoint=None):
        found = json.loads(export.run("eval", checkpoint or export.folder / "checkpoint", "--json",
                                      "--choices", self.folder / "questions.jsonl"))
        right = {"acc": 0, "acc_norm": 0, "acc_bytes": 0}
        for question, log_probabilities in zip(QUESTIONS, found["log_probabilities"], strict=True):
            context = question.get("context", question.get("prompt"))
            expected = [self.log_probability(export, context, " " + choice) for choice in question["choices"]]
            for mine, theirs in zip(log_probabilities, expected, strict=True):
                # Sums of up to 20 numbers, each of logits that differ in the last digits of fp32.
                self.assertAlmostEqual(mine, theirs, delta=1e-4)
            lengths = {"acc": lambda text: 1, "acc_norm": len, "acc_bytes": lambda text: len(text.encode())}
            for name, length in lengths.items():
                scores = [value / length(choice) for value, choice in zip(expected, question["choices"], strict=True)]
                right[name] += scores.index(max(scores)) == question["answer"]
        for name, count in right.items():
            self.assertEqual(found[name], count / len(QUESTIONS), name)

    def log_probability(self, export, context, continuation):
        """As lm-evaluation-harness counts: white space at the context's end is the continuation's, and the model sees
        the last max_sequence_length tokens."""
        stripped = context.rstrip()
        tokens = list((context + continuation).encode())
        count = len(tokens) - len(stripped.encode())
        tokens = tokens[-(SHAPE["max_sequence_length"] + 1):]
        log_softmax = torch.log_softmax(export.logits(tokens[:-1]), 1)
        return sum(log_softmax[len(tokens) - 1 - i, tokens[len(tokens) - i]].item() for i in range(1, count + 1))

    def check_loss(self, export):
        text = ("Perplexity is the exponential of the loss. " * 6).encode()
        (self.folder / "text.txt").write_bytes(text)
        found = json.loads(export.run("eval", export.folder / "checkpoint", "--json", "--data", self.folder / "text.txt",
                                      "--packed", "--tensor", 2))
        length, losses = SHAPE["max_sequence_length"], []
        for begin in range(0, (len(text) - 1) // length * length, length):
            logits = export.logits(list(text[begin:begin + length]))
            targets = torch.tensor(list(text[begin + 1:begin + length + 1]))
            losses += torch.nn.functional.cross_entropy(logits, targets, reduction="none").tolist()
        loss = sum(losses) / len(losses)
        self.assertEqual(found["tokens"], len(losses))
        self.assertAlmostEqual(found["loss"], loss, delta=1e-5 * loss)
        self.assertAlmostEqual(found["bits_per_byte"], loss / torch.log(torch.tensor(2.0)).item(), delta=1e-5 * loss)
        self.assertAlmostEqual(found["perplexity"], torch.tensor(loss).exp().item(), delta=1e-4 * found["perplexity"])


if __name__ == "__main__":
    unittest.main()
