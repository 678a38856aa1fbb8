# SPDX-License-Identifier: Apache-2.0
"""What `llmtrain slurm` prints, run by bash with stand-ins for Slurm's commands. scripts/test-slurm runs it on a real one."""
import os
import subprocess
import unittest

from program import TrainingTest

# Each notes its arguments. squeue answers with the job's end; srun and mpirun note the end that they know, and end with
# the code of the test.
STAND_IN = """#!/bin/bash
echo "$(basename "$0") $*" >> "$CALLS"
case "$0" in
  *squeue) echo "$END" ;;
  *run)
    echo "end at ${SLURM_JOB_END_TIME-none}" >> "$CALLS"
    exit "$CODE" ;;
esac
"""


class Slurm(TrainingTest):
    def setUp(self):
        super().setUp()
        self.write("recipe.json", self.recipe({"batch.micro": 1}))
        for name in ("srun", "mpirun", "scontrol", "squeue"):
            self.write(f"bin/{name}", STAND_IN).chmod(0o755)

    def script(self, *arguments):
        result = self.run_program("slurm", "recipe.json", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.write("job.sh", result.stdout)

    def submit(self, *arguments, code, end=""):
        """The script's exit code, and the commands that it has called."""
        calls = self.write("calls", "")
        variables = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "CALLS": str(calls),
                     "CODE": str(code), "END": end, "TZ": "UTC", "SLURM_JOB_ID": "17", "OMP_NUM_THREADS": "1"}
        result = subprocess.run(["bash", self.script(*arguments)], env=variables, capture_output=True, text=True,
                                check=False)
        self.assertNotEqual(result.returncode, 1, result.stderr)  # an accident of the program's or the script's
        return result.returncode, calls.read_text().splitlines()

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
