# SPDX-License-Identifier: Apache-2.0
"""`llmtrain sweep --slurm`, whose script trains the runs of a sweep as a job array, and --report of what they have done."""
import json
import shutil
import subprocess
import unittest

from slurm_scripts import SlurmTest

PEAK, MICRO = "training.learning_rate.peak", "batch.micro"
GRID = ("--over", f"{PEAK}=1e-4,1e-2", "--over", f"{MICRO}=1,3")  # a micro-batch of 3 is refused


class SlurmSweep(SlurmTest):
    def array(self, *arguments):
        return self.script(*arguments, "--slurm", command="sweep")

    def task(self, script, number, code=0):
        return self.run_script(script, code, SLURM_ARRAY_JOB_ID="40", SLURM_ARRAY_TASK_ID=str(number))

    def report(self, *arguments):
        result = self.run_program("sweep", "recipe.json", *arguments, "--report", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def option(self, script, name):
        return [line for line in script.read_text().splitlines() if line.startswith(f"#SBATCH --{name}=")]

    def test_the_array_trains_what_the_sweep_does(self):
        """Each task the run of its number; table and page are made of them afterwards."""
        script = self.array(*GRID)
        self.assertEqual(self.option(script, "array"), ["#SBATCH --array=0,2"])
        self.assertEqual(self.option(script, "output"), ["#SBATCH --output=small-%A_%a.log"])
        self.assertFalse((self.folder / "runs").exists())
        self.assertEqual(self.task(script, 0), (0, ["squeue --noheader --job 40_0 --format %e"]))
        answer = self.report(*GRID)
        self.assertEqual([run["exit_code"] for run in answer["runs"]], [0, None, None, None])
        self.assertFalse((self.folder / "runs/small-sweep/sweep.html").exists())
        self.assertEqual(self.task(script, 2)[0], 0)
        answer = self.report(*GRID)
        self.assertEqual([run["exit_code"] for run in answer["runs"]], [0, None, 0, None])
        self.assertEqual(json.loads((self.folder / "runs/small-sweep/sweep.json").read_text()), answer)
        self.assertIn("peak=1e-2_micro=1", (self.folder / "runs/small-sweep/sweep.html").read_text())
        local = json.loads(self.run_program("sweep", "recipe.json", *GRID, "--run-dir", "local", "--json").stdout)
        for key in ("set", "steps", "loss", "refused", "exit_code"):
            self.assertEqual([run[key] for run in answer["runs"]], [run[key] for run in local["runs"]])
        self.assertEqual(answer["best"], local["best"])
        self.assertEqual(self.report(*GRID, "--run-dir", "local")["runs"][2], local["runs"][2])

    def test_the_tasks_numbers(self):
        over = ("--over", "seed=" + ",".join(map(str, range(6))))
        for jobs, expected in (((), "0-5"), (("--jobs", "2"), "0-5%2")):
            self.assertEqual(self.option(self.array(*over, *jobs), "array"), [f"#SBATCH --array={expected}"])
        for values, expected in (("1,2,3", "0-1"), ("2,3,1", "0,2"), ("3,1,2", "1-2"), ("3,5,1", "2")):
            self.assertEqual(self.option(self.array("--over", f"{MICRO}={values}"), "array"), [f"#SBATCH --array={expected}"])
        self.assertEqual(self.task(self.array(*over), 6), (2, []))

    def test_only_the_task_itself_is_put_back(self):
        """By the number of the array and its own: the array's alone may stand for all tasks."""
        code, calls = self.task(self.array(*GRID, "--set", "launch.ranks=2"), 2, code=75)
        self.assertEqual((code, calls[-1]), (75, "scontrol requeue 40_2"))
        self.assertTrue(calls[1].startswith("srun --mpi=pmix --kill-on-bad-exit=1 "), calls)
        self.assertIn(f"--run-dir runs/small-sweep/peak=1e-2_micro=1 --set launch.ranks=2 --set {PEAK}=1e-2 --set "
                      f"{MICRO}=1", calls[1])
        self.assertEqual([run["exit_code"] for run in self.report(*GRID)["runs"]], [None, None, 75, None])

    def test_what_a_run_says(self):
        """A run that fails says why in its own log, and the report says where."""
        over = ("--over", "data.train.0.path=none.txt,text.txt")
        self.assertEqual(self.task(self.array(*over), 0)[0], 66)
        self.assertIn("none.txt", (self.folder / "runs/small-sweep/path=none.txt.log").read_text())
        table = self.run_program("sweep", "recipe.json", *over, "--report")
        self.assertEqual(table.returncode, 0, table.stderr)
        self.assertRegex(table.stdout, r"none.txt +exit code 66, see runs/small-sweep/path=none.txt.log")
        self.assertRegex(table.stdout, r"text.txt +not started")

    def test_runs_that_need_different_jobs(self):
        for over, parts in ((("cluster.nodes=1,2", "launch.ranks=2"), ("cluster.nodes", '"#SBATCH --nodes=2"')),
                            (("launch.ranks=1,2",), ("launch.ranks", '"#SBATCH --ntasks=1"')),
                            (("launch.slurm.cpus_per_task=0,2",), ("launch.slurm.cpus_per_task", "--cpus-per-task=2")),
                            (("launch.slurm.memory=\"1G\",\"2G\"",), ("launch.slurm.memory", "--mem=2G")),
                            (("launch.slurm.launcher=srun,mpirun", "launch.ranks=2"), ("launch.slurm.launcher",)),
                            (("name=a,b",), ("name differs", "--job-name=b"))):
            flags = [word for each in over for word in ("--over", each)]
            self.refused(2, ["--over: ", *parts, "with --set"], "sweep", "recipe.json", *flags, "--slurm")

    def test_flags(self):
        self.assertEqual(self.option(self.array(*GRID, "--partition", "long"), "partition"), ["#SBATCH --partition=long"])
        self.refused(2, ["--partition", "--slurm"], "sweep", "recipe.json", *GRID, "--partition", "long")
        for other in ("--dry-run", "--json", "--report"):
            self.refused(2, [other], "sweep", "recipe.json", *GRID, "--slurm", other)

    @unittest.skipIf(shutil.which("shellcheck") is None, "there is no shellcheck")
    def test_shellcheck(self):
        checked = subprocess.run(["shellcheck", self.array(*GRID)], text=True, check=False, stdout=subprocess.PIPE)
        self.assertEqual((checked.returncode, checked.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main()
