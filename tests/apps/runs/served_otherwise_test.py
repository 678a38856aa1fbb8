# SPDX-License-Identifier: Apache-2.0
"""What changes how texts are served, in less memory or by guesses, and none of their tokens but where int8 rounds."""
import json
import os
import unittest

from runs.serve_test import CHOICES, PROMPTS, Served


class ServedOtherwise(Served):
    def test_keys_and_values_in_int8_and_fp8(self):
        self.prepare({"model.layers": 1, "model.heads": 4, "model.kv_heads": 2})
        choice = {"temperature": 0.9, "seed": 5}
        int8, fp8, same = (self.sampled(choice, "--prompt", "The", "--kv-cache-dtype", name)
                           for name in ("int8", "fp8", "fp8_e4m3"))
        self.assertEqual(fp8, same)
        self.start("--batch", "2", "--kv-cache-dtype", "fp8")
        body = {"prompt": "The", "max_tokens": 40, "return_token_ids": True, **choice}
        self.assertEqual(self.post("/v1/completions", body)["choices"][0]["token_ids"], fp8[0]["tokens"])
        self.process.terminate()
        self.process.wait()
        self.start("--batch", "2", "--kv-cache-dtype", "int8")
        self.assertEqual(self.post("/v1/completions", body)["choices"][0]["token_ids"], int8[0]["tokens"])
        # Two texts of 512 tokens, each with keys and values of two heads of eight, and their scales.
        self.assertEqual(self.metric("llmtrain_cache_bytes"), 2 * 512 * 2 * 2 * (8 + 4))

    def test_weights_from_a_file_make_the_same_answers(self):
        self.prepare({"model.layers": 5})
        flags = ("--weight-memory", "0", "--weight-folder", ".")
        choice = {"temperature": 0.9, "seed": 5}
        line, = self.sampled(choice, "--prompt", "The")
        self.assertEqual(self.sampled(choice, "--prompt", "The", *flags), [line])
        self.start("--batch", "2", *flags)
        answer = self.post("/v1/completions", {"prompt": "The", "max_tokens": 40, "return_token_ids": True, **choice})
        self.assertEqual(answer["choices"][0]["token_ids"], line["tokens"])
        losses = [json.loads(self.run_program("eval", "runs/small", "--data", "recipe.json", "--json", *more).stdout)
                  for more in ((), flags)]
        self.assertEqual(losses[0], losses[1])
        self.assertEqual([name for name in os.listdir(self.folder) if "scratch" in name], [])

    def test_weights_that_no_file_takes_are_refused_by_name(self):
        self.prepare()
        sample = ("sample", "runs/small", "--weight-memory")
        self.refused(2, ["--weight-memory 1:", "bytes)"], *sample, "1")
        self.refused(2, ["--pipeline", "--weight-memory"], *sample, "0", "--pipeline", "2")
        self.refused(2, ["/precision/fp8_level", "--weight-memory"], *sample, "0", "--set", "precision.compute=bf16",
                     "--set", "precision.fp8_level=O2")
        self.refused(73, ["--weight-folder", "recipe.json"], *sample, "0", "--weight-folder", "recipe.json")
        self.refused(2, ["--weight-memory"], "sample", "runs/small", "--weight-folder", ".")

    def test_guesses_change_no_text(self):
        """By a smaller model, by the model itself and by what a text had before; sample says how many were right."""
        self.prepare({"model.layers": 2})
        self.write("recipe.json", self.recipe({"model.max_sequence_length": 64, "batch.sequence_length": 16,
                                               "name": "smaller"}))
        self.train("--run-dir", "runs/smaller")
        self.write("prompts.jsonl", "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS))
        drafts = (("--prompt-lookup",), ("--draft", "runs/smaller"), ("--draft", "runs/small", "--draft-tokens", "7"))
        for choice in CHOICES[1:3]:
            plain = self.sampled(choice, "--prompts", "prompts.jsonl")
            for draft in drafts:
                with self.subTest(draft=draft, choice=choice):
                    self.assertEqual(self.sampled(choice, "--prompts", "prompts.jsonl", *draft), plain)
        said = self.run_program("sample", "runs/small", "--prompt", "The", *drafts[2]).stderr
        self.assertRegex(said, r"\d+ of \d+ guessed tokens were right \(\d+ %\)")
        for draft in drafts[1:]:
            self.start("--batch", "2", *draft)
            body = {"prompt": PROMPTS, "max_tokens": 40, "return_token_ids": True, **choice}
            answer = self.post("/v1/completions", body)
            self.assertEqual([one["token_ids"] for one in answer["choices"]], [line["tokens"] for line in plain])
            self.assertGreater(self.metric("llmtrain_draft_tokens_total"), 100)
            accepted = self.metric("llmtrain_accepted_tokens_total")
        self.assertGreater(accepted, 100)

    def test_who_cannot_guess_is_refused(self):
        self.prepare()
        self.write("recipe.json", self.recipe({"model.vocab_size": 300, "batch.sequence_length": 16, "name": "other"}))
        self.train("--run-dir", "runs/other")
        self.refused(2, ["--draft runs/other", "300", "256"], "sample", "runs/small", "--draft", "runs/other")
        self.refused(2, ["--beams"], "sample", "runs/small", "--prompt-lookup", "--beams", "2", "--temperature", "0")
        self.refused(2, ["/precision/fp8_level", "--draft"], "sample", "runs/small", "--draft", "runs/small", "--set",
                     "precision.compute=bf16", "--set", "precision.fp8_level=O0")
        self.refused(2, ["--draft-tokens"], "sample", "runs/small", "--prompt-lookup", "--draft-tokens", "0")


if __name__ == "__main__":
    unittest.main()
