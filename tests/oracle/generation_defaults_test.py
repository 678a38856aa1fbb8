# SPDX-License-Identifier: Apache-2.0
"""What a model's folder says of padding and of how texts are generated, compared with transformers: `sample` without
flags writes what generate() writes, and exports give both back."""
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import fine_tuning_test as fine_tuning  # skips where a package is missing
import torch
import transformers

import program
from variants import write_recipe

PROMPT = "the sky is"
PADDING = "<|end_header_id|>"
# Each decides on every token, though some draw: what flags are given, and what generate() is told in their place.
SETTLED = {
    "greedy": ({"do_sample": False, "max_new_tokens": 7}, (), {}),
    "greedy, as it does not say": ({"temperature": 3.5, "max_new_tokens": 7}, (), {}),
    "one token to draw from": ({"do_sample": True, "top_k": 1, "max_new_tokens": 5}, (), {}),
    "hardly any probability": ({"do_sample": True, "top_p": 1e-4, "max_new_tokens": 6}, (), {}),
    "cold": ({"do_sample": True, "temperature": 1e-6, "max_new_tokens": 6}, (), {}),
    "flags": ({"do_sample": True, "temperature": 2.0, "top_k": 9, "max_new_tokens": 6},
              ("--temperature", 0, "--tokens", 4), {"do_sample": False, "max_new_tokens": 4}),
    "a penalty of repetition": ({"repetition_penalty": 1.8, "max_new_tokens": 24}, (), {}),
    "of a flag": ({"do_sample": False, "max_new_tokens": 24}, ("--repetition-penalty", 1.3), {"repetition_penalty": 1.3}),
    "which rewards": ({"do_sample": False, "max_new_tokens": 24, "repetition_penalty": 0.7}, (), {}),
    "no repeats": ({"no_repeat_ngram_size": 2, "max_new_tokens": 24}, (), {}),
    "beams": ({"num_beams": 3, "length_penalty": 0.5, "max_new_tokens": 9}, (), {}),
    "beams of flags": ({"max_new_tokens": 9}, ("--beams", 4, "--early-stopping", "yes"),
                       {"num_beams": 4, "early_stopping": True}),
    "a flag of one": ({"do_sample": True, "temperature": 2.0, "max_new_tokens": 6}, ("--top-k", 1), {"top_k": 1}),
}
# The keys of transformers' GenerationConfig that are read here, and those that change no text unless beams, assistants or
# several texts at once are asked for.
READ = {"do_sample", "temperature", "top_k", "top_p", "repetition_penalty", "no_repeat_ngram_size", "max_new_tokens",
        "forced_eos_token_id",
        "eos_token_id", "bos_token_id", "pad_token_id"}
HARMLESS = {"max_length", "early_stopping", "max_time", "use_mtp", "use_cache", "prefill_chunk_size", "cache_implementation", "cache_config",
            "max_cache_len", "length_penalty", "diversity_penalty", "renormalize_logits", "remove_invalid_values",
            "num_return_sequences", "output_attentions", "output_hidden_states", "output_scores", "output_logits",
            "return_dict_in_generate", "decoder_start_token_id", "is_assistant", "num_assistant_tokens",
            "num_assistant_tokens_schedule", "assistant_confidence_threshold", "prompt_lookup_num_tokens",
            "max_matching_ngram_size", "assistant_early_exit", "assistant_lookbehind", "target_lookbehind",
            "assistant_ensemble_weight", "speculation_type", "compile_config", "disable_compile",
            "continuous_batching_config", "low_memory", "_from_model_config", "transformers_version"}


def said(config):
    """What a generation_config.json says, without who wrote it and how transformers computes."""
    return {key: value for key, value in config.to_dict().items()
            if key not in ("transformers_version", "_from_model_config", "use_cache")}


class GenerationDefaults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        fine_tuning.write_tokenizer(cls.folder)
        cls.tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_file=str(cls.folder / "tokenizer.json"), bos_token="<|begin_of_text|>",
            eos_token="<|endoftext|>", pad_token=PADDING)
        fine_tuning.write_model(cls.folder / "model", len(cls.tokenizer))
        cls.tokenizer.save_pretrained(cls.folder / "model")
        (cls.folder / "model" / "generation_config.json").write_text("{}", encoding="utf-8")
        program.run("checkpoint", "import", cls.folder / "model", cls.folder / "checkpoint", "--from", "hf")

    def write(self, name, value):
        (self.folder / name).write_text(json.dumps(value), encoding="utf-8")

    def change(self, name, **changes):
        config = json.loads((self.folder / name).read_text(encoding="utf-8"))
        self.write(name, {**config, **changes})

    def sample(self, *arguments):
        command = [os.environ["LLMTRAIN_PROGRAM"], "sample", self.folder / "checkpoint", "--prompt", PROMPT, "--json",
                   *arguments]
        made = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        return [json.loads(line)["tokens"] for line in made.stdout.splitlines()], made.stderr

    def set_defaults(self, generation):
        ends = {"eos_token_id": self.tokenizer.eos_token_id, "pad_token_id": self.tokenizer.pad_token_id}
        self.write("checkpoint/huggingface/generation_config.json", {**generation, **ends})
        self.write("model/generation_config.json", {**generation, **ends})

    def test_texts_without_flags_are_those_of_generate(self):
        ids = self.tokenizer(PROMPT, return_tensors="pt").input_ids
        for name, (generation, flags, instead) in SETTLED.items():
            with self.subTest(name):
                self.set_defaults(generation)
                model = transformers.AutoModelForCausalLM.from_pretrained(self.folder / "model")
                with torch.no_grad():
                    expected = model.generate(ids, **instead)[0, ids.shape[1]:].tolist()
                texts, messages = self.sample(*flags)
                self.assertEqual(texts, [expected])
                self.assertEqual("generation_config.json: " in messages, "--temperature" not in flags, messages)

    def test_tokens_are_drawn_from_as_many_as_generate_draws_from(self):
        """A file that draws and does not say from how many means 50."""
        ids = self.tokenizer(PROMPT, return_tensors="pt").input_ids
        self.set_defaults({"do_sample": True, "temperature": 4.0})
        model = transformers.AutoModelForCausalLM.from_pretrained(self.folder / "model")
        with torch.no_grad():
            made = model.generate(ids, max_new_tokens=1, output_scores=True, return_dict_in_generate=True)
        allowed = set(torch.nonzero(made.scores[0][0] > -float("inf")).flatten().tolist())
        self.assertEqual(len(allowed), 50)
        drawn = {tokens[0] for tokens in self.sample("--tokens", 1, "--samples", 300)[0]}
        self.assertLessEqual(drawn, allowed)
        self.assertGreater(len(drawn), 25)
        self.assertGreater(len({tokens[0] for tokens in self.sample("--tokens", 1, "--samples", 300, "--top-k", 0)[0]}), 50)

    def test_what_is_not_supported_is_said_once(self):
        others = set(vars(transformers.GenerationConfig())) - READ - HARMLESS
        self.set_defaults({"do_sample": True, **{key: 3 for key in sorted(others)}})
        warnings = [line for line in self.sample("--tokens", 1)[1].splitlines() if "not supported" in line]
        self.assertEqual(len(warnings), 1)
        for key in others:
            self.assertIn(f" {key} 3", warnings[0])
        # As transformers before version 5 writes all that it has.
        neutral = {"num_beams": 1, "typical_p": 1.0, "repetition_penalty": 1.0, "no_repeat_ngram_size": 0,
                   "bad_words_ids": None, "suppress_tokens": [], "forced_bos_token_id": None, "min_length": 0}
        self.set_defaults({"do_sample": True, **neutral})
        self.assertNotIn("not supported", self.sample("--tokens", 1)[1])
        # A text of the most likely tokens has nothing of what changes drawn ones alone.
        self.set_defaults({"typical_p": 0.5})
        self.assertNotIn("not supported", self.sample("--tokens", 1)[1])

    def test_values_out_of_range_are_refused(self):
        for key, value in (("temperature", -1), ("top_p", 1.5), ("top_k", 2.5), ("max_new_tokens", "9"),
                           ("do_sample", 1), ("repetition_penalty", 0)):
            with self.subTest(key):
                self.set_defaults({key: value})
                with self.assertRaisesRegex(AssertionError, f"generation_config.json: /{key}: is n"):
                    self.sample()

    def test_a_length_with_the_prompt_is_not_taken(self):
        self.set_defaults({"do_sample": False, "max_length": 20})
        texts, messages = self.sample()
        self.assertIn("max_length 20 counts prompts, too, and is not taken: 200 tokens at most", messages)
        self.assertGreater(len(texts[0]), 20)
        self.assertNotIn("max_length", self.sample("--tokens", 2)[1])

    def check_export(self, source, original, out):
        program.run("checkpoint", "export", source, out, "--to", "hf")
        tokenizers = [transformers.AutoTokenizer.from_pretrained(folder) for folder in (original, out)]
        self.assertEqual(*(tokenizer.special_tokens_map for tokenizer in tokenizers))
        self.assertEqual(*(tokenizer.pad_token_id for tokenizer in tokenizers))
        self.assertEqual(*(said(transformers.AutoModelForCausalLM.from_pretrained(folder).generation_config)
                           for folder in (original, out)))

    def test_exports_give_back_what_a_folder_says(self):
        padding, end = self.tokenizer.pad_token_id, self.tokenizer.eos_token_id
        everything = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.05,
                      "max_new_tokens": 30, "bos_token_id": 1, "pad_token_id": padding, "eos_token_id": [end, 3]}
        map_alone = {"pad_token": PADDING, "eos_token": "<|endoftext|>"}
        for name, generation, changes, special_tokens in (
                ("all files", everything, {}, None),
                ("no generation_config.json", None, {"pad_token_id": padding, "eos_token_id": end}, None),
                ("no tokenizer_config.json", {"eos_token_id": end}, {}, map_alone)):
            with self.subTest(name), tempfile.TemporaryDirectory(dir=self.folder) as folder:
                original, checkpoint = Path(folder) / "model", Path(folder) / "checkpoint"
                transformers.AutoModelForCausalLM.from_pretrained(self.folder / "model").save_pretrained(original)
                self.tokenizer.save_pretrained(original)
                (original / "generation_config.json").unlink()
                if generation:
                    self.write(original / "generation_config.json", generation)
                self.change(original / "config.json", **changes)
                if special_tokens:
                    (original / "tokenizer_config.json").unlink()
                    self.write(original / "special_tokens_map.json", special_tokens)
                program.run("checkpoint", "import", original, checkpoint, "--from", "hf")
                self.check_export(checkpoint, original, Path(folder) / "out")

    def test_a_model_that_began_here_names_its_tokenizers_padding(self):
        (self.folder / "text.txt").write_text("the sky is not red " * 40, encoding="utf-8")
        shape = {"architecture": "llama", "layers": 1, "hidden_size": 16, "heads": 2, "max_sequence_length": 16,
                 "vocab_size": len(self.tokenizer)}
        write_recipe(self.folder / "recipe.json", {
            "model": shape, "batch": {"global": 1, "micro": 1}, "training": {"steps": 1}, "log": {"tensorboard": False},
            "data": {"train": [{"path": "text.txt"}], "tokenizer": {"huggingface": "model/tokenizer.json"}}})
        program.train(self.folder / "recipe.json", self.folder / "run")
        program.run("checkpoint", "export", self.folder / "run", self.folder / "out", "--to", "hf")
        model = transformers.AutoModelForCausalLM.from_pretrained(self.folder / "out")
        self.assertEqual((model.generation_config.pad_token_id, model.config.pad_token_id),
                         (self.tokenizer.pad_token_id,) * 2)
        self.assertEqual(transformers.AutoTokenizer.from_pretrained(self.folder / "out").pad_token, PADDING)


if __name__ == "__main__":
    unittest.main()
