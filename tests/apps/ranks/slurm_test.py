# SPDX-License-Identifier: Apache-2.0
"""What `llmtrain slurm` prints, run by bash with stand-ins for Slurm's commands. scripts/test-slurm runs it on a real one."""
import json
import signal
import subprocess
import time
import unittest

from slurm_scripts import SlurmTest


class Slurm(SlurmTest):
    def test_a_stopped_run_goes_back_into_the_queue(self):
        code, calls = self.submit("--ranks", "2", code=75)
        self.assertEqual(code, 75)
        self.assertEqual(calls[-1], "scontrol requeue 17")
        self.assertTrue(any(call.startswith("srun --mpi=pmix --kill-on-bad-exit=1 ") for call in calls), calls)

    def test_the_ranks_asked_for_are_those_of_the_job(self):
        """Also where the recipe names others: the script's ranks would be refused one by one."""
        self.write("recipe.json", self.recipe({"batch.micro": 1, "launch.ranks": 2}))
        _, calls = self.submit("--ranks", "1", code=0)
        self.assertFalse(any(call.startswith(("srun", "mpirun")) for call in calls), calls)
        _, calls = self.submit(code=0)
        self.assertTrue(any(call.startswith("srun") for call in calls), calls)

    def test_memory_that_is_too_small_is_told_as_by_plan(self):
        large = ("--set", "cluster.profile=h100-sxm-80gb", "--set", "cluster.device=cuda", "--set", "cluster.nodes=1",
                 "--ranks", "1", "--set", "model.layers=80", "--set", "model.hidden_size=8192", "--set", "model.heads=64")
        printed = self.run_program("slurm", "recipe.json", *large)
        self.assertEqual(printed.returncode, 0, printed.stderr)
        self.assertRegex(printed.stderr, r"warning: recipe.json: this job may not fit: rank 0 needs .* \(profile h100-sxm-80gb\);")
        plan = json.loads(self.run_program("plan", "recipe.json", *large, "--json").stdout)
        told = [f"--set {each['change']}" for each in plan["suggestions"]] or plan["warnings"][-1:]
        self.assertIn(told[0], printed.stderr)
        # Small enough; and of "auto" nothing is known but this machine.
        for few in (large[:8], (*large[2:8], *large[8:])):
            self.assertNotIn("may not fit", self.run_program("slurm", "recipe.json", *few).stderr)

    def test_a_cancelled_job_does_not(self):
        """scancel's SIGTERM, which the script passes on, finds a job that is ending; preemption's does not. The
        announcement of a job's end always puts it back."""
        script = self.script("--set", "training.steps=1000000")
        for sent, state, goes_back in (((signal.SIGTERM,), "COMPLETING", False), ((signal.SIGTERM,), "RUNNING", True),
                                       ((signal.SIGUSR1,), "COMPLETING", True)):
            calls = self.write("calls", "")
            seen = len(self.rows()) if (self.folder / "runs").exists() else 0
            job = subprocess.Popen(["bash", script], env=self.variables(0, state), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
            self.addCleanup(job.wait)
            self.addCleanup(job.kill)
            until = time.monotonic() + 60
            while not (self.folder / "runs/small/metrics.jsonl").exists() or len(self.rows()) <= seen:
                self.assertLess(time.monotonic(), until)
                self.assertIsNone(job.poll())
                time.sleep(0.02)
            for number in sent:
                job.send_signal(number)
            self.assertEqual(job.wait(60), 75)
            self.assertEqual("scontrol requeue 17" in calls.read_text(), goes_back, (sent, state))

    def test_a_failed_run_does_not(self):
        for launcher in ("srun", "mpirun"):
            code, calls = self.submit("--ranks", "2", "--launcher", launcher, code=69)
            self.assertEqual(code, 69)
            self.assertFalse(any(call.startswith("scontrol") for call in calls), calls)

    def test_success_without_the_last_step_is_none(self):
        """As srun answers where it could not start the ranks."""
        self.assertEqual(self.submit("--ranks", "2", code=0)[0], 69)
        for latest, expected in (("step-00000001", 69), ("step-00000002", 0), ("step-00000010", 0)):
            self.write("runs/small/checkpoints/latest", latest + "\n")
            self.assertEqual(self.submit("--ranks", "2", code=0)[0], expected, latest)

    def test_a_run_that_may_end_early(self):
        """Its last checkpoint may be any."""
        early = ("--ranks", "2", "--set", "training.early_stopping.evaluations=1", "--set", "training.evaluate_every=1",
                 "--set", 'data.validation=[{"path": "text.txt"}]')
        self.assertEqual(self.submit(*early, code=0)[0], 69)
        self.write("runs/small/checkpoints/latest", "step-00000001\n")
        self.assertEqual(self.submit(*early, code=0)[0], 0)

    def test_one_rank_trains_in_the_script_itself(self):
        self.assertEqual(self.submit(code=1), (0, ["squeue --noheader --job 17 --format %e"]))
        self.assertEqual(len(self.rows()), 2)

    def test_the_end_of_the_job(self):
        """An older Slurm reports it on request alone; and no answer is no end."""
        for end, known in (("2030-01-01T00:00:00", "1893456000"), ("", "none"), ("N/A", "none")):
            calls = self.submit("--ranks", "2", code=69, end=end)[1]
            self.assertEqual(calls[-1], f"end at {known}")

    def test_the_network_interface_of_mpirun(self):
        several = ("--ranks", "2", "--set", "cluster.nodes=2", "--set", "launch.network_interfaces=[\"ib0\", \"ib1\"]")
        calls = self.submit(*several, "--launcher", "mpirun", code=69)[1]
        self.assertIn("mpirun --bind-to none --mca oob_tcp_if_include ib0,ib1 -n 2 ", calls[-2])


if __name__ == "__main__":
    unittest.main()
