# SPDX-License-Identifier: Apache-2.0
"""`llmtrain sample` writes the targets that generate() of transformers writes, of BART and T5 with random weights: token
by token the most likely ones, and by beams, of sources of several lengths in one batch."""
import json
import os
import re
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

torch.set_num_threads(1)

LETTERS = "abcdefghij"
END, PADDING, BEGIN = len(LETTERS), len(LETTERS) + 1, len(LETTERS) + 2
VOCABULARY = len(LETTERS) + 3
SOURCES = ["abcdefghij", "ca", "b", "jjihhgaab", "ghafcbaadchiajcb", "edcba"]
LONGEST = 20
COMMON = {"vocab_size": VOCABULARY, "pad_token_id": PADDING, "eos_token_id": END, "bos_token_id": BEGIN}
# Sequences reach beyond the 16 distances that buckets of T5 tell apart one by one.
MODELS = {
    "bart": lambda: transformers.BartForConditionalGeneration(transformers.BartConfig(
        **COMMON, d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=24, decoder_start_token_id=END,
        forced_eos_token_id=None)),
    "t5": lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(
        **COMMON, d_model=24, d_kv=5, d_ff=40, num_layers=2, num_decoder_layers=2, num_heads=4,
        decoder_start_token_id=PADDING)),
}
# Flags, and what generate() is told instead.
SEARCHES = {
    "greedy": ((), {}),
    "greedy without repeats": (("--no-repeat-ngram-size", "2", "--repetition-penalty", "1.3"),
                               {"no_repeat_ngram_size": 2, "repetition_penalty": 1.3}),
    "4 beams": (("--beams", "4"), {"num_beams": 4}),
    "2 beams, early": (("--beams", "2", "--early-stopping", "yes", "--length-penalty", "2.0"),
                       {"num_beams": 2, "early_stopping": True, "length_penalty": 2.0}),
    "4 beams to the end": (("--beams", "4", "--early-stopping", "never", "--length-penalty", "0.5"),
                           {"num_beams": 4, "early_stopping": "never", "length_penalty": 0.5}),
    "3 beams without repeats": (("--beams", "3", "--no-repeat-ngram-size", "2", "--length-penalty", "-1"),
                                {"num_beams": 3, "no_repeat_ngram_size": 2, "length_penalty": -1.0}),
}


def write_tokenizer(folder):
    ids = {letter: place for place, letter in enumerate(LETTERS)} | {"</s>": END, "<pad>": PADDING, "<s>": BEGIN}
    (folder / "tokenizer.json").write_text(json.dumps({
        "model": {"type": "BPE", "vocab": ids, "merges": []},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "decoder": {"type": "ByteLevel"},
        "added_tokens": [{"id": id, "content": text, "special": True} for text, id in ids.items() if id >= END],
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"</s>": {"id": "</s>", "ids": [END], "tokens": ["</s>"]}}}}), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"eos_token": "</s>", "pad_token": "<pad>", "bos_token": "<s>"}), encoding="utf-8")


def encoded():
    """The sources side by side, with the mask of what is no padding."""
    ids = torch.full((len(SOURCES), 1 + max(map(len, SOURCES))), PADDING)
    mask = torch.zeros_like(ids)
    for row, source in enumerate(SOURCES):
        ids[row, :len(source) + 1] = torch.tensor([LETTERS.index(letter) for letter in source] + [END])
        mask[row, :len(source) + 1] = 1
    return {"input_ids": ids, "attention_mask": mask}


def ended(row):
    """The tokens after the start, up to the end."""
    tokens = row.tolist()[1:]
    return tokens[:tokens.index(END) + 1] if END in tokens else tokens


class SourceGeneration(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        (self.folder / "sources.txt").write_text("\n".join(SOURCES) + "\n", encoding="utf-8")

    def program(self, *words):
        done = subprocess.run([os.environ["LLMTRAIN_PROGRAM"], *map(str, words)], cwd=self.folder, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def model(self, name):
        torch.manual_seed(3)
        model = MODELS[name]().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.uniform_(-0.5, 0.5)
        model.save_pretrained(self.folder / name)
        write_tokenizer(self.folder / name)
        self.program("checkpoint", "import", name, f"{name}-own", "--from", "hf")
        return model

    def written(self, name, *flags):
        lines = self.program("sample", f"{name}-own", "--prompts", "sources.txt", "--json", "--tokens", LONGEST, *flags)
        return [json.loads(line) for line in lines.splitlines()]

    def test_targets_are_those_of_generate(self):
        endings = set()
        for name in MODELS:
            model = self.model(name)
            for search, (flags, settings) in SEARCHES.items():
                with self.subTest(f"{name}, {search}"):
                    with torch.no_grad():
                        expected = model.generate(**encoded(), max_new_tokens=LONGEST, do_sample=False, **settings)
                    got = self.written(name, *flags)
                    self.assertEqual([line["tokens"] for line in got], [ended(row) for row in expected])
                    endings |= {line["ended"] for line in got}
        self.assertEqual(endings, {"end of text", "length"})

    def test_batches_ranks_and_samples_change_nothing(self):
        for name in MODELS:
            self.model(name)
            for flags in ((), ("--beams", "3")):
                with self.subTest(f"{name} {flags}"):
                    one = self.written(name, *flags)
                    for others in (("--batch", "1"), ("--batch", "7"), ("--pipeline", "2")):
                        self.assertEqual(self.written(name, *flags, *others), one, others)
            best = self.written(name, "--beams", "3", "--samples", "3")
            self.assertEqual(best[::3], self.written(name, "--beams", "3"))
            self.assertEqual(len({tuple(line["tokens"]) for line in best[:3]}), 3)
            drawn = self.written(name, "--samples", "4", "--temperature", "1")
            self.assertEqual(self.written(name, "--samples", "4", "--temperature", "1", "--batch", "3"), drawn)
            self.assertGreater(len({tuple(line["tokens"]) for line in drawn[:4]}), 1)

    def test_a_models_own_settings_are_those_of_generate(self):
        for name in MODELS:
            model = self.model(name)
            own = {"num_beams": 3, "length_penalty": 1.5, "early_stopping": True, "no_repeat_ngram_size": 3,
                   "forced_bos_token_id": 4, "forced_eos_token_id": END, "max_new_tokens": LONGEST}
            file = self.folder / f"{name}-own/huggingface/generation_config.json"
            file.write_text(json.dumps({**json.loads(file.read_text(encoding="utf-8")), **own}), encoding="utf-8")
            with torch.no_grad():
                expected = [ended(row) for row in model.generate(**encoded(), do_sample=False, **own)]
            got = self.written(name)
            self.assertEqual([line["tokens"] for line in got], expected)
            self.assertTrue(all(tokens[0] == 4 and tokens[-1] == END for tokens in expected))
            # Such a model may well write marks within its texts.
            got = [re.sub("<.*?>", "", line["text"]) for line in got]
            self.assertEqual(got, ["".join(LETTERS[id] for id in tokens if id < END) for tokens in expected])

    def test_eval_compares_what_generate_writes(self):
        starts = {"bart": END, "t5": PADDING}
        for name in MODELS:
            model = self.model(name)
            texts = {}
            for beams in (1, 3):
                with torch.no_grad():
                    rows = model.generate(**encoded(), max_new_tokens=LONGEST, do_sample=False, num_beams=beams)
                texts[beams] = ["".join(LETTERS[id] for id in ended(row) if id < END) for row in rows]
            # Targets that both searches, one of them or none of them writes.
            targets = [texts[1][0], texts[1][1], texts[1][2], texts[3][3], texts[3][4], "abc"]
            rows = [{"source": source, "target": target}
                    for source, target in zip(SOURCES, targets, strict=True) if target]
            (self.folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            pairs = {"target_length": LONGEST + 1, "decoder_start": starts[name]}
            for beams, found in texts.items():
                shown = self.program("eval", f"{name}-own", "--data", "pairs.jsonl", "--json", "--set",
                                     f"data.pairs={json.dumps(pairs)}", "--set", f"training.generation.beams={beams}")
                equal = [text == target for text, target in zip(found, targets, strict=True) if target]
                self.assertTrue(any(equal) and not all(equal))
                self.assertEqual(json.loads(shown)["figures"]["exact_match"], sum(equal) / len(equal))


if __name__ == "__main__":
    unittest.main()
