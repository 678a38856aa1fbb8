# SPDX-License-Identifier: Apache-2.0
"""Encoder-decoders that learn a ciphered translation of phrases: what runs and `eval` say of the
translations that they write."""
import json
import os
import unittest

import ciphered
from program import TrainingTest

SANITIZED = bool(os.environ.get("LLMTRAIN_SANITIZE"))  # to which long runs show nothing that short ones do not


class WrittenTargets(TrainingTest):
    def setUp(self):
        super().setUp()
        self.write("tokenizer.json", ciphered.tokenizer())
        self.write("tokenizer_config.json", ciphered.MARKS)
        sources = ciphered.phrases(1024, 1)
        self.write("train.jsonl", ciphered.lines(sources))
        self.write("shuffled.jsonl", ciphered.lines(sources, sources[1:] + sources[:1]))
        self.held_out = ciphered.phrases(64, 2)
        self.write("held-out.jsonl", ciphered.lines(self.held_out))
        self.write("recipe.json", self.recipe({**ciphered.SECTIONS, "training.steps": 600,
                                               "training.evaluate_every": 600, "training.generation": {},
                                               "training.learning_rate.peak": 0.01}))

    def learn(self, folder, **settings):
        self.train("--run-dir", folder,
                   *[part for key, value in settings.items() for part in ("--set", f"{key.replace('__', '.')}={value}")])
        return self.figures(folder)

    def figures(self, folder):
        return [row["figures"] for row in self.rows(folder) if "figures" in row][-1]

    def evaluated(self, *arguments):
        result = self.run_program("eval", *arguments, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def written(self, folder, *flags):
        """What `sample` writes of the sources that are held out."""
        self.write("sources.txt", "".join(" ".join(source) + "\n" for source in self.held_out))
        result = self.run_program("sample", folder, "--prompts", "sources.txt", "--json", "--tokens", "6", *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line)["text"] for line in result.stdout.splitlines()]

    def check_figures(self, figures, texts):
        references = [" ".join(map(ciphered.ciphered, source)) for source in self.held_out]
        equal = sum(text == reference for text, reference in zip(texts, references, strict=True))
        self.assertAlmostEqual(figures["exact_match"], equal / len(texts), places=12)
        self.assertAlmostEqual(figures["bleu"], ciphered.bleu(texts, references), places=9)

    @unittest.skipIf(SANITIZED, "learns long")
    def test_a_cipher_is_learned_and_translations_of_other_phrases_are_not(self):
        sources = json.dumps([{"path": "shuffled.jsonl"}])
        # BART's weights begin by a deviation that is meant for wide layers, of which these would learn too slowly.
        bart = {"model__architecture": "bart", "model__init_std": 0.1, "training__learning_rate__peak": 0.003,
                "training__steps": 150, "training__evaluate_every": 150}
        for family, settings in (("t5", {}), ("bart", bart)):
            for seed in (1, 2):
                with self.subTest(f"{family}, seed {seed}"):
                    figures = self.learn(f"runs/{family}-{seed}", **settings, seed=seed)
                    self.assertGreater(figures["bleu"], 70)
                    self.assertGreater(figures["exact_match"], 0.5)
            with self.subTest(f"{family}, control"):
                control = self.learn(f"runs/{family}-control", **settings, data__train=sources, seed=1)
                self.assertLess(control["bleu"], 15)
                self.assertLess(control["exact_match"], 0.05)

    def test_figures_are_those_of_the_texts_on_every_layout(self):
        # So early that some words are right and others are not.
        steps = 30 if SANITIZED else 300
        early = {"training__steps": steps, "training__evaluate_every": steps, "seed": 1}
        one = self.learn("runs/one", **early)
        if not SANITIZED:
            self.assertGreater(one["bleu"], 5)
            self.assertLess(one["bleu"], 95)
        self.check_figures(one, self.written("runs/one"))
        for name, layout in (("data", {}), ("zero", {"parallel__zero_stage": 3}),
                             ("pipeline", {"parallel__pipeline": 2})):
            self.train("--run-dir", f"runs/{name}", "--ranks", "2", "--set", "batch.micro=8",
                       *[part for key, value in {**early, **layout}.items()
                         for part in ("--set", f"{key.replace('__', '.')}={value}")])
            with self.subTest(name):
                self.check_figures(self.figures(f"runs/{name}"), self.written(f"runs/{name}"))
        self.check_what_eval_says(one)
        self.assertIn("BLEU", (self.folder / "runs/one/report.html").read_text())
        self.assertIn('figure="bleu"', (self.folder / "runs/one/metrics.prom").read_text())

    def check_what_eval_says(self, figures):
        result = self.evaluated("runs/one")
        self.assertEqual(result["figures"], figures)
        self.assertGreater(result["perplexity"], 1)
        beams = self.evaluated("runs/one", "--set", "training.generation.beams=3")["figures"]
        self.check_figures(beams, self.written("runs/one", "--beams", "3"))
        self.assertNotIn("figures", self.evaluated("runs/one", "--targets", "0"))
        self.held_out = self.held_out[:20]
        self.check_figures(self.evaluated("runs/one", "--targets", "20")["figures"], self.written("runs/one"))
        shown = self.run_program("eval", "runs/one").stdout
        self.assertIn(f"bleu        {figures['bleu']:.6f}", shown)
        self.assertIn("perplexity", shown)
        shown = self.run_program("run", "recipe.json", "--set", "training.steps=1")
        self.assertRegex(shown.stdout + shown.stderr, r"validation loss [\d.]+, perplexity [\d.]+, BLEU [\d.]+, exact match [\d.]+ %")


if __name__ == "__main__":
    unittest.main()
