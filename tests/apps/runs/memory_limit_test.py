# SPDX-License-Identifier: Apache-2.0
"""Runs within memory.limit: what is chosen for them, that it changes no number, and what no choice reaches."""
import json
import unittest

from program import TrainingTest

EXPERTS = ("--set", 'model.moe={"experts": 4, "top_k": 2, "capacity_factor": 0}', "--set", "launch.ranks=2", "--set",
           "parallel.expert=2", "--set", "batch.global=8")


class MemoryLimit(TrainingTest):
    def weights(self, folder):
        return {path.name: path.read_bytes() for path in self.folder.glob(f"{folder}/checkpoints/step-*/*.safetensors")}

    def limits(self, ranks, *arguments):
        """Of the processor that they share."""
        planned = self.run_program("plan", "recipe.json", "--json", "--set", "memory.limit=1.0", *arguments)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        points = json.loads(planned.stdout)["limits"]
        self.assertEqual(points, sorted(points, key=lambda point: (point["peak_bytes"], -point["step_seconds"])))
        return [ranks * (int(point["peak_bytes"]) + 1) for point in points]

    def check(self, ranks, *arguments):
        self.train(*arguments, "--run-dir", "free")
        least, *_, most = self.limits(ranks, *arguments)
        self.assertLess(least, most)
        for name, limit in (("least", least), ("middle", (least + most) // 2)):
            self.train(*arguments, "--run-dir", name, "--set", f"memory.limit={limit}")
            memory = json.loads((self.folder / name / "recipe.json").read_text(encoding="utf-8"))["memory"]
            self.assertNotEqual(memory["recompute"], "none")
            self.assertIsNone(memory["limit"])
            for key in ("loss", "grad_norm"):
                self.assertEqual([row[key] for row in self.rows(name)], [row[key] for row in self.rows("free")])
            self.assertTrue(self.weights("free"))
            self.assertEqual(self.weights(name), self.weights("free"))
        return least

    def test_numbers_do_not_depend_on_it(self):
        least = self.check(1, "--set", "model.layers=4")
        self.refused(2, ["/memory/limit:", f"({least - 1} bytes", "of framework", "batch.micro"], "run", "recipe.json",
                     "--set", "model.layers=4", "--set", f"memory.limit={least - 2000}")
        # Under another limit the run goes on to the numbers of one without.
        more = ("--set", "model.layers=4", "--set", "training.steps=4")
        for name, limit in (("least", least + 100000), ("free", None)):
            self.train(*more, "--run-dir", name, *(["--set", f"memory.limit={limit}"] if limit else []))
        self.assertEqual(self.weights("least"), self.weights("free"))

    def test_experts_of_two_ranks(self):
        self.check(2, "--set", "model.layers=4", "--set", "precision.compute=bf16", *EXPERTS)


if __name__ == "__main__":
    unittest.main()
