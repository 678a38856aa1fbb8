# SPDX-License-Identifier: Apache-2.0
"""llmtrain plan --inference."""
import json
import unittest

from program import SOURCE, ProgramTest

LLAMA = str(SOURCE / "recipes" / "models" / "llama3-8b.json")
MIXTRAL = str(SOURCE / "recipes" / "models" / "mixtral-8x7b.json")


class Inference(ProgramTest):
    def planned(self, *arguments):
        result = self.run_program("plan", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def report(self, *arguments):
        return json.loads(self.planned(*arguments, "--json"))

    def test_figures_agree_with_each_other(self):
        plan = self.report(LLAMA, "--inference", "batch=8,prompt=512,generated=64", "--inference", "devices=4")
        self.assertEqual(plan["requests"], {"batch": 8, "prompt": 512, "generated": 64, "batching": "whole",
                                            "wait_passes": 0, "weights": "compute", "cache": "compute"})
        for name, tokens in (("prefill", 8 * 512), ("decode", 8)):
            parts = plan[name]
            total = sum(parts[f"{part}_seconds"] for part in ("product", "attention", "movement", "exchange", "host"))
            self.assertAlmostEqual(parts["seconds"], total, delta=1e-9 * total)
            self.assertGreater(parts["seconds"], parts["bound_seconds"])
            self.assertAlmostEqual(parts["device_seconds_per_token"], 4 * parts["seconds"] / tokens, delta=1e-12)
        self.assertEqual(plan["first_token_seconds"], plan["prefill"]["seconds"])
        # 32 layers with 8 key heads of 128: keys and values of 8 sequences in bf16, on 4 devices.
        self.assertEqual(plan["bytes"]["cache"], 32 * 8 * 128 * 2 * 2 * 8 * (512 + 64) // 4)
        self.assertAlmostEqual(plan["bytes"]["weights"], 8.03e9 * 2 / 4, delta=1e7)
        self.assertTrue(plan["fits"])

    def test_smaller_types_take_less(self):
        whole = self.report(LLAMA, "--inference", "devices=1")
        small = self.report(LLAMA, "--inference", "devices=1,weights=fp8,cache=fp8")
        self.assertLess(small["per_token_seconds"], whole["per_token_seconds"])
        self.assertEqual(2 * small["bytes"]["cache"], whole["bytes"]["cache"])

    def test_targets_searches_and_pages(self):
        first = self.report(LLAMA, "--inference", "batch=4", "--target", "per_token=1s")
        self.assertEqual((first["answer"], first["plans"][0]["devices"]), (0, 1))
        self.assertIsNone(self.report(LLAMA, "--inference", "batch=4", "--target", "per_token=0.001ms")["answer"])
        self.assertIn("1 device is enough.", self.planned(LLAMA, "--inference", "batch=4", "--target", "per_token=1s"))
        search = self.report(LLAMA, "--inference", "devices=2", "--search")
        self.assertEqual({plan["devices"] for plan in search["plans"]}, {2})
        self.assertGreater(len(search["front"]), 2)
        page = self.folder / "front.html"
        self.planned(LLAMA, "--inference", "devices=2", "--html", str(page))
        self.assertIn("<svg", page.read_text(encoding="utf-8"))

    def test_what_cannot_be_is_refused(self):
        for arguments, fragment in (
                ((LLAMA, "--inference", "batch=0"), "--inference batch=0: batch must be a whole number from 1 to"),
                ((LLAMA, "--inference", "beams=2"), "must be KEY=VALUE, of the keys batch, prompt"),
                ((LLAMA, "--inference", "prompt=9000"), "model.max_sequence_length, 8192"),
                ((LLAMA, "--inference", "experts=experts"), "has no experts"),
                ((MIXTRAL, "--inference", "decode.weights=2d"), 'use "1d" or "auto"'),
                ((LLAMA, "--inference", "devices=4,decode.weights=gathered_x"), "do not divide a batch of 1"),
                ((LLAMA, "--inference", "batch=1", "--target", "30d"), "it must be first_token=TIME"),
                ((LLAMA, "--inference", "batch=1", "--sweep", "batch.micro=1,2"), "--sweep")):
            with self.subTest(arguments):
                self.refused(2, [fragment], "plan", *arguments)


if __name__ == "__main__":
    unittest.main()
