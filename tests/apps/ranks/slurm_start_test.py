# SPDX-License-Identifier: Apache-2.0
"""How a Slurm job's script starts the ranks: srun's options, containers, modules and lines of the site's, folders for
caches on the nodes' own disks, and how often the job goes back into the queue."""
import os
import pathlib
import shutil
import subprocess
import unittest

from slurm_scripts import SlurmTest

# Takes a container's options away, and executes the rest.
APPTAINER = """#!/bin/bash
echo "$(basename "$0") $*" >> "$CALLS"
while [ "$1" != image.sif ]; do shift; done
shift
exec "$@"
"""
MODULES = """module() { echo "module $*" >> "$CALLS"; [ "$2" != unknown ]; }
export -f module
"""


class SlurmStart(SlurmTest):
    def slurm(self, **keys):
        self.write("recipe.json", self.recipe({"batch.micro": 1, "launch.slurm": keys}))

    def started(self, *arguments, code=69):
        """What a job of two ranks starts them with."""
        calls = self.submit("--ranks", "2", *arguments, code=code)[1]
        return next(call for call in calls if call.startswith(("srun --mpi", "srun --kill", "mpirun")))

    def test_binding(self):
        self.slurm(cpus_per_task=3, cpu_bind="verbose,map_cpu:0,1", srun=["--gpu-bind=none", "--label"])
        self.assertTrue(self.started().startswith(
            "srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task=3 --cpu-bind=verbose,map_cpu:0,1 --gpu-bind=none --label "))
        self.slurm(srun=["--mpi=pmix_v4"])
        self.assertTrue(self.started().startswith("srun --kill-on-bad-exit=1 --mpi=pmix_v4 "))

    def test_one_rank_has_what_srun_alone_gives(self):
        for keys in ({"cpu_bind": "cores"}, {"srun": ["--label"]}, {"container": {"image": "image.sif"}}):
            self.slurm(**keys)
            calls = self.submit(code=69)[1]
            self.assertTrue(any(call.startswith("srun --mpi=pmix") for call in calls), calls)
            self.assertIn("#SBATCH --signal=USR1@60\n", (self.folder / "job.sh").read_text())

    def test_pyxis(self):
        self.slurm(container={"image": "nvcr.io#nvidia/x:1", "mounts": ["/data", "/a:/b:ro"], "program": "/opt/llmtrain"})
        here = os.path.realpath(self.folder)
        self.assertIn(f" --container-image=nvcr.io#nvidia/x:1 --container-mounts={here}:{here},/data:/data,/a:/b:ro "
                      f"--container-workdir={here} /opt/llmtrain run ", self.started())

    def test_apptainer(self):
        """The command runs in it, for one rank too, which trains."""
        container = {"image": "image.sif", "runtime": "apptainer", "mounts": ["/data"]}
        self.slurm(container=container)
        here = os.path.realpath(self.folder)
        words = f"apptainer exec --bind {here}:{here},/data:/data --pwd {here} image.sif /"
        self.assertIn("--kill-on-bad-exit=1 " + words, self.started())
        self.assertIn(" -n 2 " + words, self.started("--launcher", "mpirun"))
        self.assertIn("apptainer exec --nv --bind ", self.started("--set", "cluster.device=cuda"))
        self.write("bin/apptainer", APPTAINER).chmod(0o755)
        self.assertEqual(self.submit(code=1)[0], 0)
        self.assertEqual(len(self.rows()), 2)

    def test_modules_and_lines(self):
        self.slurm(modules=["cuda/12.4"], setup=["export FROM='a line'", "set -eu; echo lines >> \"$CALLS\""])
        script = self.script("--ranks", "2")
        script.write_text(MODULES + script.read_text())
        code, calls = self.run_script(script, 75)
        self.assertEqual((code, calls[:2], calls[-1]), (75, ["module load cuda/12.4", "lines"], "scontrol requeue 17"))
        self.slurm(modules=["unknown"])
        script = self.script("--ranks", "2")
        script.write_text(MODULES + script.read_text())
        self.assertEqual(self.run_script(script, 0), (66, ["module load unknown"]))

    def test_lines_that_would_take_the_script_with_them(self):
        for lines, part in ((["if true; then"], "line 2: syntax error"), (["echo 'a"], "unexpected EOF"),
                            (["cat << END", "x"], "here-document"), (["true &&"], "syntax error")):
            self.slurm(setup=lines)
            self.refused(2, ["/launch/slurm/setup: ", part, "must be complete commands"], "slurm", "recipe.json")
        self.slurm(setup=["if true; then", "true", "fi", "echo a \\"])
        self.assertEqual(self.submit("--ranks", "2", code=69)[0], 69)

    def test_scratch(self):
        """The ranks' caches lie in a folder of the job's, which goes with it; on several nodes on each of them."""
        scratch = self.folder / "scratch"
        scratch.mkdir()
        self.slurm(scratch="$HERE")
        self.write("bin/srun", "#!/bin/bash\necho \"$TMPDIR $LLMTRAIN_CACHE $CUDA_CACHE_PATH\" >> \"$CALLS\"\n"
                   "[ -d \"$TMPDIR\" ] && exit \"$CODE\"\n").chmod(0o755)
        script = self.script("--ranks", "2")
        own = f"{scratch}/llmtrain-17"
        for code in (75, 69):
            self.assertEqual(self.run_script(script, code, HERE=str(scratch), LLMTRAIN_CACHE="")[0], code)
            calls = (self.folder / "calls").read_text().splitlines()
            self.assertIn(f"{own}  {own}/cuda", calls)
            self.assertFalse(pathlib.Path(own).exists())
        self.assertEqual(self.run_script(script, 0, HERE=str(self.folder / "none"))[0], 73)
        script = self.script("--set", "cluster.nodes=2", "--ranks", "2").read_text()
        for command in ("mkdir -p", "rm -rf"):
            self.assertIn(f'srun --ntasks=2 --ntasks-per-node=1 {command} "$TMPDIR"', script)

    def test_how_often_the_job_goes_back(self):
        self.slurm(requeue_limit=2)
        script = self.script("--ranks", "2")
        for restarts, last in ((None, "scontrol requeue 17"), ("1", "scontrol requeue 17"), ("2", "end at none")):
            variables = {} if restarts is None else {"SLURM_RESTART_COUNT": restarts}
            code, calls = self.run_script(script, 75, **variables)
            self.assertEqual((code, calls[-1]), (75, last))
            self.assertEqual("scontrol update JobId=17 Requeue=0" in calls, restarts == "2")
        self.slurm(requeue_limit=0)
        script = self.script("--ranks", "2")
        self.assertIn("#SBATCH --no-requeue\n", script.read_text())
        self.assertFalse(any(call.startswith("scontrol") for call in self.run_script(script, 75)[1]))

    @unittest.skipIf(shutil.which("shellcheck") is None, "there is no shellcheck")
    def test_shellcheck(self):
        for runtime, nodes in (("pyxis", 1), ("apptainer", 2)):
            self.slurm(cpu_bind="cores", srun=["--label"], requeue_limit=3, scratch="${SLURM_TMPDIR}/x", modules=["cuda"],
                       setup=["ulimit -l unlimited"], container={"image": "x", "runtime": runtime, "mounts": ["/data"]})
            script = self.script("--set", f"cluster.nodes={nodes}", "--ranks", "2")
            checked = subprocess.run(["shellcheck", script], text=True, check=False, stdout=subprocess.PIPE)
            self.assertEqual((checked.returncode, checked.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main()
