# SPDX-License-Identifier: Apache-2.0
"""What a job asks Slurm for: the keys of launch.slurm, the flags that stand for them, and sbatch's further options."""
import shutil
import subprocess
import unittest

from program import TrainingTest

SITE = {"partition": "long", "account": "physics", "qos": "high", "cpus_per_task": 6, "memory": "200G", "exclusive": True,
        "sbatch": ["--constraint=h100", "--comment=a long run", "--mail-type END"]}


class SlurmOptions(TrainingTest):
    def script(self, *arguments, slurm=None, **changes):
        self.write("recipe.json", self.recipe({"batch.micro": 1, "launch.slurm": slurm or {}, **changes}))
        result = self.run_program("slurm", "recipe.json", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.said = result.stderr
        return result.stdout

    def options(self, *arguments, **settings):
        lines = self.script(*arguments, **settings).splitlines()
        return [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")]

    def refusal(self, *arguments):
        result = self.refused(2, [], "slurm", "recipe.json", *arguments)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        return result.stderr

    def test_without_keys_the_site_decides(self):
        self.assertEqual(self.options(), [
            "--job-name=small", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--signal=B:USR1@60", "--requeue",
            "--open-mode=append", "--output=small-%j.log"])

    def test_the_recipes_keys(self):
        self.assertEqual(self.options("--ranks", "2", slurm={**SITE, "log": "logs/%x.log"}), [
            "--job-name=small", "--partition=long", "--account=physics", "--qos=high", "--nodes=1", "--ntasks=2",
            "--ntasks-per-node=2", "--cpus-per-task=6", "--mem=200G", "--exclusive", "--signal=USR1@60", "--requeue",
            "--open-mode=append", "--output=logs/%x.log", "--constraint=h100", '--comment="a long run"',
            "--mail-type=END"])

    def test_flags_win(self):
        options = self.options("--partition", "short", "--account", "maths", "--qos", "low", "--cpus-per-task", "3",
                               "--mem", "0", "--sbatch=--constraint=a100", "--sbatch", "--hold", slurm=SITE)
        for option in ("--partition=short", "--account=maths", "--qos=low", "--cpus-per-task=3", "--mem=0", "--exclusive",
                       "--constraint=a100", "--hold", '--comment="a long run"'):
            self.assertEqual(options.count(option), 1, options)
        self.assertEqual(len([option for option in options if option.startswith("--constraint")]), 1)
        self.assertIn("--exclusive", self.options("--exclusive"))

    def test_the_cores_of_a_rank(self):
        """srun has not taken them from the job since Slurm 22.05; threads are as many, unless the user has said."""
        script = self.script("--ranks", "2", "--cpus-per-task", "3")
        self.assertIn("srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task=3 ", script)
        self.assertIn('export OMP_NUM_THREADS="${OMP_NUM_THREADS:-3}"\n', script)
        self.assertIn('export OMP_NUM_THREADS="${OMP_NUM_THREADS:-3}"\n',
                      self.script("--ranks", "2", "--cpus-per-task", "3", "--launcher", "mpirun"))
        self.assertNotIn("OMP_NUM_THREADS", self.script())

    def test_gpus(self):
        for slurm, option in (({}, "--gpus-per-node=2"), ({"gpus": "gres"}, "--gres=gpu:2"), ({"gpus": "none"}, None),
                              ({"gpu_type": "h100"}, "--gpus-per-node=h100:2"),
                              ({"gpu_type": "h100", "gpus": "gres"}, "--gres=gpu:h100:2")):
            options = self.options("--ranks", "2", slurm=slurm, **{"cluster.device": "cuda"})
            self.assertEqual([each for each in options if "gpu" in each or "gres" in each], [option] if option else [])
            self.assertEqual(self.said, "")
        self.options(slurm={"gpus": "none"})
        self.assertEqual(self.said, "")
        self.options(**{"cluster.device": "cpu"})
        self.assertEqual(self.said, "")
        self.options()
        self.assertIn("warning: cluster.device is \"auto\": the job asks for no GPUs", self.said)

    def test_what_would_break_out_of_a_line(self):
        for flag, key in (("--partition", "partition"), ("--account", "account"), ("--qos", "qos"), ("--mem", "memory"),
                          ("--sbatch=--comment", "sbatch")):
            for value in ("a\n#SBATCH --wrap=true", 'a"b', "a'b", "a\\b"):
                self.assertIn(f"/launch/slurm/{key}: ", self.refusal(f"{flag}={value}"))

    def test_what_contradicts_the_script(self):
        for option, part in (("--nodes=2", "--nodes is set by cluster.nodes"), ("--requeue", "the script itself"),
                             ("--ntask=2", "--ntask is set by launch.ranks"), ("-p long", "is no long option of sbatch")):
            self.assertIn(part, self.refusal(f"--sbatch={option}"))
        self.assertIn("contradicts launch.slurm.memory", self.refusal("--mem=1G", "--sbatch=--mem-per-gpu=1G"))

    @unittest.skipIf(shutil.which("shellcheck") is None, "there is no shellcheck")
    def test_shellcheck(self):
        for arguments in ((), ("--ranks", "2"), ("--ranks", "2", "--launcher", "mpirun")):
            checked = subprocess.run(["shellcheck", "-"], input=self.script(*arguments, slurm=SITE), text=True, check=False,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual((checked.returncode, checked.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main()
