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

    # Whose activations are several mebibytes.
    WIDE = ("--set", "model.layers=4", "--set", "model.hidden_size=64", "--set", "model.max_sequence_length=64", "--set",
            "batch.micro=16", "--set", "batch.global=32", "--set", "training.steps=5", "--set", "training.evaluate_every=2",
            "--set", 'data.validation=[{"path": "other.txt"}]')

    def setUp(self):
        super().setUp()
        self.write("other.txt", "another text, which nothing is trained on, " * 20)

    def numbers(self, folder):
        return [[row.get(key) for key in ("step", "loss", "grad_norm", "val_loss")] for row in self.rows(folder)]

    def grows(self, ranks, step, *layout, noticed):
        """In the last rank, by a mebibyte from a step on, within exactly what was planned: the rest of the run has another
        layout, that needs so much less, and the numbers of the run are those of one without a limit."""
        arguments = (*self.WIDE, "--set", f"launch.ranks={ranks}", *layout)
        name = f"grows-{ranks}-{step}"
        self.train(*arguments, "--run-dir", f"{name}-free")
        most = self.limits(ranks, *arguments)[-1]
        within = ("--set", f"memory.limit={most}")
        said = self.train(*arguments, *within, "--run-dir", name,
                          environment={"LLMTRAIN_FAULT": f"grow:memory:{ranks - 1}:{step}"}).stderr
        self.assertRegex(said, fr"^warning: step {noticed}: the tensors of rank {ranks - 1} take 1\.\d+ MiB more "
                               "than memory.limit leaves for them: what follows is planned again\n$")
        self.assertEqual(self.numbers(name), self.numbers(f"{name}-free"))
        self.assertTrue(self.weights(name))
        newest = f"step-{5:08}"
        self.assertEqual({path: bits for path, bits in self.weights(name).items() if newest in path},
                         {path: bits for path, bits in self.weights(f"{name}-free").items() if newest in path})
        kept = [json.loads((self.folder / name / file).read_text(encoding="utf-8"))["memory"]["recompute"]
                for file in (f"recipe-until-step-{noticed:08}.json", "recipe.json")]
        self.assertEqual(kept, ["none", "selective"])
        plan = json.loads((self.folder / name / "plan.json").read_text(encoding="utf-8"))
        self.assertLess(max(rank["peak_bytes"] for rank in plan["ranks"]), most / ranks - 2**20)
        rows = [row["tensor_bytes"] for row in self.rows(name) if "loss" in row]
        if ranks == 1:
            self.assertLess(max(rows[step:]), rows[0])
        # Each line is in the log once, also of the part behind.
        log = (self.folder / name / "log/rank-00000.log").read_text(encoding="utf-8")
        self.assertEqual(log.count("debug step 5/5"), 1)

    def test_steps_that_grow(self):
        self.grows(1, 1, noticed=1)
        self.grows(1, 3, "--set", "checkpoint.resume=never", noticed=3)

    def test_steps_that_grow_on_one_of_several_ranks(self):
        """Which tells the others with its next step, but for the first one."""
        self.grows(2, 1, "--set", "parallel.zero_stage=3", noticed=1)
        self.grows(2, 2, "--set", "launch.backend=local", noticed=3)

    def test_steps_that_grow_beyond_every_plan(self):
        least = self.limits(1, *self.WIDE)[0]
        self.train(*self.WIDE, "--run-dir", "free")
        run = ("run", "recipe.json", "-q", *self.WIDE, "--run-dir", "grows", "--set")
        ended = self.run_program(*run, f"memory.limit={least}", environment={"LLMTRAIN_FAULT": "grow:memory:0:2"})
        self.assertEqual((ended.returncode, ended.stdout), (2, ""), ended.stderr)
        self.assertRegex(ended.stderr, "step 2: the tensors of rank 0 take 1.0. MiB more than memory.limit leaves for them, "
                                       "and no plan needs so much less; its checkpoint is saved, .*: recipe.json: "
                                       "/memory/limit: .*the least that a plan needs")
        self.assertEqual(self.run_program(*run, f"memory.limit={least + 2**21}").returncode, 0)
        self.assertEqual(self.numbers("grows"), self.numbers("free"))


if __name__ == "__main__":
    unittest.main()
