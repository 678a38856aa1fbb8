# SPDX-License-Identifier: Apache-2.0
"""Runs on GPUs end as docs/faults.md says: asked to, when a rank fails or falls silent, and when memory runs out."""
import json
import subprocess
import time
import unittest

from emulated import EMULATED, REAL, EmulatedTest, backend_for, emulated_only, main, read_tensors, without_warnings
from processes import is_running, processes_below
from program import SOURCE, TEXT, small

# Within these all ranks have ended, whatever happened to one of them. A real GPU's libraries take seconds to load.
SECONDS = 60 if REAL else 15
BACKENDS = sorted({backend_for(backend, 2) for backend in ("nccl", "mpi")})


class Faults(EmulatedTest):
    variables = {"EMULATED_MEMORY": "256", "EMULATED_DEVICES": "4", "EMULATED_DELAY": "20"}

    def setUp(self):
        super().setUp()
        self.write("text.txt", TEXT)
        self.write("recipe.json", small({
            "data": {"train": [{"path": "text.txt"}]}, "log": {"tensorboard": False}, "cluster": {"device": "cuda"},
            "batch": {"global": 2, "micro": 1}, "launch": {"watchdog_seconds": 5}, "training": {"steps": 6}}))

    def start(self, *arguments, environment=None):
        return self.start_program("run", "recipe.json", *arguments, program=EMULATED, stdout=subprocess.DEVNULL,
                                  environment={**self.variables, **(environment or {})})

    def losses(self, folder):
        return [row["loss"] for row in self.rows(folder)]

    def test_asked_to_stop(self):
        """A checkpoint, exit code 75, nobody left; the run goes on as if nothing had happened."""
        for backend in BACKENDS:
            layout = ("-q", "--ranks", "2", "--set", f"launch.backend={backend}", "--set", "parallel.zero_stage=3")
            with self.subTest(backend):
                process = self.start("--run-dir", backend, *layout, environment={"LLMTRAIN_FAULT": "stop:forward:1:3"})
                ranks = self.ranks_until_the_end(process)
                said = without_warnings(process.stderr.read())
                self.assertEqual((process.returncode, said), (75, ""))
                self.assertFalse([pid for pid in ranks if is_running(pid)])
                done = len(self.rows(backend))
                self.assertIn(done, (3, 4))
                self.assertEqual(self.newest_checkpoint(backend).name, f"step-{done:08}")
                for folder in (backend, f"{backend}-whole"):
                    result = self.run_emulated("run", "recipe.json", "--run-dir", folder, *layout)
                    self.assertEqual(result.returncode, 0, result.stderr)
                whole = self.losses(f"{backend}-whole")
                self.assertEqual(len(whole), 6)
                self.assertEqual(self.losses(backend), whole)

    def ranks_until_the_end(self, process):
        """The processes that it has started; it must end in time."""
        begin, ranks = time.monotonic(), []
        while process.poll() is None and time.monotonic() < begin + SECONDS:
            ranks = [int(pid) for pid in processes_below(process.pid)] or ranks
            time.sleep(0.05)
        self.assertIsNotNone(process.poll(), "it does not end")
        return ranks

    def fails(self, fault, code, said, backend):
        process = self.start("--run-dir", fault.replace(":", "-") + backend, "--ranks", "2", "-q", "--set",
                             f"launch.backend={backend}", environment={"LLMTRAIN_FAULT": fault})
        ranks = self.ranks_until_the_end(process)
        text = without_warnings(process.stderr.read())
        self.assertEqual(process.returncode, code, text)
        self.assertRegex(text, said)
        self.assertFalse([pid for pid in ranks if is_running(pid)])

    def test_a_rank_that_fails(self):
        for backend in BACKENDS:
            for fault, code, said in (("fail:collective:1:3", 1, "^rank 1: .*fault on demand.*\n$"),
                                      ("throw:forward:0:3", 1, "^.*fault on demand.*\n$"),
                                      ("kill:collective:1:3", 69, "^.*killed by signal 9.*\n$"),
                                      ("stall:collective:1:3", 69, "^.*launch.watchdog_seconds.*\n$")):
                with self.subTest(backend=backend, fault=fault):
                    self.fails(fault, code, said, backend)

    def test_killed_under_a_policy_of_memory(self):
        """In the middle of a step, which the host's weights, states and gradients do not survive: the run goes on from its
        checkpoint to the rows and the bits of one without a policy that nothing has killed."""
        layout = ("-q", "--ranks", "2", "--set", f"launch.backend={BACKENDS[0]}", "--set", "parallel.zero_stage=3",
                  "--set", "pipeline.loops=2", "--set", "pipeline.schedule=breadth_first", "--set", "model.layers=2",
                  "--set", "training.clip_norm=0", "--set", "checkpoint.every=2", "--set", "checkpoint.async=false", "--set",
                  "training.steps=4")

        def results(folder):
            rows = [(row["step"], row["loss"], row["grad_norm"]) for row in self.rows(folder)]
            return rows, read_tensors(self.newest_checkpoint(folder))

        self.assertEqual(self.run_emulated("run", "recipe.json", "--run-dir", "whole", *layout).returncode, 0)
        whole = results("whole")
        self.assertEqual([row[0] for row in whole[0]], [1, 2, 3, 4])
        for policy, stay in (("harmony", 0), ("zero_infinity", 0), ("patrickstar", 1)):
            with self.subTest(policy):
                under = ("run", "recipe.json", "--run-dir", policy, *layout, "--set", f"memory.policy={policy}", "--set",
                         f"memory.offload.resident_stages={stay}")
                killed = self.run_emulated(*under, environment={"LLMTRAIN_FAULT": "kill:forward:1:3"})
                self.assertEqual(killed.returncode, 69, killed.stderr)
                self.assertEqual(self.newest_checkpoint(policy).name, "step-00000002")
                result = self.run_emulated(*under)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(results(policy), whole)

    def test_memory_that_grows(self):
        """Beyond a limit that the plan had filled: what follows has another layout, of the same numbers."""
        layout = ("--set", "launch.ranks=2", "--set", f"launch.backend={BACKENDS[0]}", "--set", "parallel.zero_stage=3",
                  "--set", "model.layers=2", "--set", "model.hidden_size=64", "--set", "model.max_sequence_length=64",
                  "--set", "batch.micro=16", "--set", "batch.global=32", "--set", "training.steps=2", "--set",
                  "cluster.profile=h100-sxm-80gb", "--set", "cluster.devices_per_node=2")
        profiles = {"LLMTRAIN_PROFILES": str(SOURCE / "recipes" / "clusters")}
        planned = self.run_emulated("plan", "recipe.json", "--json", *layout, "--set", "memory.limit=1e12",
                                    environment=profiles)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        most = max(point["peak_bytes"] for point in json.loads(planned.stdout)["limits"])
        grows = {**profiles, "LLMTRAIN_FAULT": "grow:memory:1:1"}
        for folder, limit, environment in (("free", None, profiles), ("grows", int(most) + 1, grows)):
            result = self.run_emulated("run", "recipe.json", "-q", "--run-dir", folder, *layout, "--set",
                                       f"memory.limit={json.dumps(limit)}", environment=environment)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"step 1: the tensors of rank 1 take 1\.0. MiB more than memory.limit leaves")
        self.assertEqual(result.stderr.count("what follows is planned again"), 1, result.stderr)
        former, now = (json.loads((self.folder / "grows" / name).read_text(encoding="utf-8"))["memory"]
                       for name in ("recipe-until-step-00000001.json", "recipe.json"))
        self.assertNotEqual(former, now)
        self.assertEqual(self.losses("grows"), self.losses("free"))
        self.assertEqual(read_tensors(self.newest_checkpoint("grows")), read_tensors(self.newest_checkpoint("free")))

    def test_numbers_that_change(self):
        """In a GPU's memory: a gradient that is not finite or a spike, which all ranks leave out, and a flipped bit of a
        replica, which is found."""
        spikes = ("--set", 'training.spikes={"loss": 8, "gradient_norm": 8, "window": 8}', "--set", "training.steps=12")
        for fault, layout in (("nan:gradients:0:3", ()), ("spike:gradients:1:11", ("--set", "parallel.zero_stage=3"))):
            with self.subTest(fault):
                step, folder = int(fault.split(":")[-1]), fault.replace(":", "-")
                result = self.run_emulated("run", "recipe.json", "-q", "--run-dir", folder, "--ranks", "2", *spikes, *layout,
                                           environment={"LLMTRAIN_FAULT": fault})
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual([row["skipped"] for row in self.rows(folder)], [int(n >= step) for n in range(1, 13)])
        result = self.run_emulated("run", "recipe.json", "-q", "--run-dir", "flip", "--ranks", "2", "--set",
                                   "launch.check_replicas_every=1", environment={"LLMTRAIN_FAULT": "flip:weights:1:3"})
        self.assertEqual(result.returncode, 69, result.stderr)
        self.assertRegex(result.stderr, "^step 3: the weights of rank 0 .* and rank 1 .* differ")

    @emulated_only
    def test_memory_runs_out(self):
        """One line says so, and what could make it fit; as a rank alone, and among others that wait for it."""
        large = ("--set", "model.hidden_size=256", "--set", "model.vocab_size=4096")
        for layout in ((), ("--ranks", "2", "--set", "launch.backend=nccl"),
                       ("--ranks", "2", "--set", "launch.backend=mpi")):
            with self.subTest(layout=layout):
                process = self.start("-q", *layout, *large, environment={"EMULATED_MEMORY": "8"})
                text = process.stderr.read()
                self.assertEqual(process.wait(SECONDS), 1, text)
                self.assertRegex(text, "out of memory on the GPU: Tried to allocate")
                self.assertIn("To make it fit:", text)


if __name__ == "__main__":
    main()
