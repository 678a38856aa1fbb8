# SPDX-License-Identifier: Apache-2.0
"""Scripts for Slurm, run by bash with stand-ins for Slurm's commands."""
import os
import subprocess

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


class SlurmTest(TrainingTest):
    def setUp(self):
        super().setUp()
        self.write("recipe.json", self.recipe({"batch.micro": 1}))
        for name in ("srun", "mpirun", "scontrol", "squeue"):
            self.write(f"bin/{name}", STAND_IN).chmod(0o755)

    def script(self, *arguments, command="slurm"):
        result = self.run_program(command, "recipe.json", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.write("job.sh", result.stdout)

    def run_script(self, script, code, end="", **variables):
        """The script's exit code, and the commands that it has called."""
        calls = self.write("calls", "")
        result = subprocess.run(["bash", script], env=self.variables(code, end, **variables), capture_output=True,
                                text=True, check=False)
        self.assertNotEqual(result.returncode, 1, result.stderr)  # an accident of the program's or the script's
        return result.returncode, calls.read_text().splitlines()

    def variables(self, code, end, **others):
        return {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "CALLS": str(self.folder / "calls"),
                "CODE": str(code), "END": end, "TZ": "UTC", "SLURM_JOB_ID": "17", "OMP_NUM_THREADS": "1", **others}

    def submit(self, *arguments, code, end=""):
        return self.run_script(self.script(*arguments), code, end)
