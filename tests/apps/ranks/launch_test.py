# SPDX-License-Identifier: Apache-2.0
"""How ranks are started, watched and ended: signals at any process of a run, what mpirun says, and what it leaves."""
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest

from processes import is_running, processes_below, rank_process
from program import PROGRAM, TrainingTest

# mpirun as a test needs it: it writes a text to standard error, and ends with a code.
STAND_IN = """#!/bin/sh
printf '%b' "$WORDS" >&2
exit "$CODE"
"""
RULE = "-" * 74 + "\n"


def may_mount():
    """Whether the test may have file systems of its own, as root may."""
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]
    return shutil.which("unshare") and subprocess.run(command, capture_output=True, check=False).returncode == 0


@unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
class Launch(TrainingTest):
    def setUp(self):
        super().setUp()
        self.write("recipe.json", self.recipe({"batch": {"global": 4, "micro": 1}}))

    def endless(self, folder, environment=None):
        return self.start_program("run", "recipe.json", "--ranks", "2", "--run-dir", folder, "--set",
                                  "training.steps=1000000", environment=environment)

    def run_two(self, *arguments, **options):
        return self.run_program("run", "recipe.json", "--ranks", "2", *arguments, **options)

    def shared_files(self, pid):
        """The folders in which a run's ranks keep what they share."""
        maps = pathlib.Path(f"/proc/{rank_process(pid, 0)}/maps").read_text()
        return {pathlib.Path(folder) for folder in re.findall(r"(/\S*/llmtrain-ranks-\w+)/", maps)}


class Signals(Launch):
    def test_a_request_at_any_process_ends_the_run_with_a_checkpoint(self):
        """mpirun itself would kill its ranks a second later, and the request must count once wherever it arrives."""
        def everywhere(pid):
            return [pid, *map(int, processes_below(pid))]

        def mpirun(pid):
            return [int(next(processes_below(pid)))]

        def mpirun_twice(pid):
            """The kernel keeps one of several."""
            return 2 * mpirun(pid)

        cases = ((signal.SIGTERM, everywhere), (signal.SIGINT, mpirun_twice), (signal.SIGHUP, everywhere),
                 (signal.SIGUSR1, mpirun))
        for number, (request, victims) in enumerate(cases):
            with self.subTest(request=request.name, victims=victims.__name__):
                process = self.endless(f"run-{number}")
                self.wait_for_a_step(process)
                for pid in victims(process.pid):
                    os.kill(pid, request)
                said = process.stderr.read()
                self.assertEqual(process.wait(), 75, said)
                self.assertIn("stopping after this step", said)
                self.assertIn("run the same command again", said)
                self.assertEqual(self.run_program("checkpoint", "verify", f"run-{number}").returncode, 0)

    def test_a_request_everywhere_while_the_run_starts(self):
        """Also where it kills a rank that does not handle signals yet."""
        for number, seconds in enumerate((0, 0.1)):
            with self.subTest(seconds=seconds):
                process = self.endless(f"early-{number}")
                while not list(processes_below(process.pid)):
                    time.sleep(0.001)
                time.sleep(seconds)
                for pid in [*processes_below(process.pid), process.pid]:
                    if is_running(pid):
                        os.kill(int(pid), signal.SIGTERM)
                said = process.stderr.read()
                self.assertEqual(process.wait(), 75, said)

    def test_a_request_after_the_end_changes_nothing(self):
        """Libraries tidy up for tenths of a second after the last line."""
        process = self.start_program("run", "recipe.json")
        for line in process.stderr:
            if line.startswith("done. "):
                break
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
            time.sleep(0.001)
        self.assertEqual(process.returncode, 0)


class Words(Launch):
    def with_stand_in(self, words, code):
        self.write("bin/mpirun", STAND_IN).chmod(0o755)
        return self.run_two(environment={"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "WORDS": words,
                                         "CODE": str(code)})

    def test_settings_that_would_start_fewer_ranks_do_not_count(self):
        for setting in ({"OMPI_MCA_rmaps_base_no_oversubscribe": "1"},
                        {"OMPI_MCA_rmaps_base_mapping_policy": "ppr:1:node"},
                        {"OMPI_MCA_orte_default_hostfile": str(self.write("hosts", "other.invalid slots=4\n"))}):
            with self.subTest(**setting):
                result = self.run_two("-q", "--run-dir", f"{len(setting)}-{next(iter(setting))}", environment=setting)
                self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_what_mpirun_says_is_shown(self):
        result = self.run_two(environment={"OMPI_MCA_plm": "nothing-of-that-name"})
        self.assertEqual(result.returncode, 69, result.stderr)
        self.assertIn("nothing-of-that-name", result.stderr)
        self.assertRegex(result.stderr, r"mpirun ended with exit code \d+; what it says is above; OMPI_MCA_")

    def test_no_end_without_a_word(self):
        for code, expected in ((1, 69), (127, 69), (66, 66)):
            result = self.with_stand_in("", code)
            self.assertEqual(result.returncode, expected, result.stderr)
            self.assertIn(f"mpirun ended with exit code {code}; it says nothing", result.stderr)
        # What it says of a rank's end is shown where it is all that there is.
        result = self.with_stand_in(f"{RULE}mpirun detected that one or more processes exited with x\n{RULE}", 1)
        self.assertEqual(result.returncode, 69, result.stderr)
        self.assertIn("mpirun detected that", result.stderr)

    def test_what_the_rank_says_itself_is_not_said_again(self):
        ends = (f"{RULE}Primary job  terminated normally, but 1 process returned\na code.\n{RULE}"
                f"{RULE}mpirun detected that one or more processes exited with non-zero status\n\n{RULE}")
        # A rank may write rules, too, and half a line at the end.
        for words in ("no file\n", f"{RULE}what else mpirun says\n{RULE}", f"{RULE}{RULE}", f"step 1\n{'-' * 20}", RULE,
                      "-\n", f"{RULE}Primary"):
            for text in (words, words + ends if words.endswith("\n") else words):
                with self.subTest(text=text):
                    result = self.with_stand_in(text.replace("\n", "\\n"), 66)
                    self.assertEqual((result.returncode, result.stderr), (66, words))
        self.assertEqual(self.with_stand_in(ends.replace("\n", "\\n"), 75).stderr, "")

    def test_readers_that_go_away(self):
        """Standard error loses its reader after the first line, and standard output before it."""
        for number in range(2):
            with self.subTest(number=number):
                process = subprocess.Popen([PROGRAM, "run", "recipe.json", "-v", "--ranks", "2", "--run-dir",
                                            f"unread-{number}", "--set", "training.steps=50"], cwd=self.folder,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                process.stdout.close()
                process.stderr.readline()
                process.stderr.close()
                self.assertEqual(process.wait(), 0)
                self.assertEqual(len(self.rows(f"unread-{number}")), 50)

    def test_variables_of_one_process_are_no_launcher(self):
        """As srun --pty and torchrun leave them in a shell."""
        for number, variables in enumerate(({"RANK": "0", "WORLD_SIZE": "1"}, {"PMI_RANK": "0", "PMI_SIZE": "1"}, {
                "PMIX_RANK": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_TASKS_PER_NODE": "1"})):
            with self.subTest(**variables):
                result = self.run_two("--run-dir", f"left-{number}", environment=variables)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("by mpirun", result.stderr)
        # Who has started several has started them.
        result = self.run_two(environment={"RANK": "0", "WORLD_SIZE": "4"})
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("/launch/ranks: 2 differs from the 4 ranks that torchrun has started", result.stderr)


class SharedFiles(Launch):
    def test_a_folder_that_cannot_be_used(self):
        """mpirun and its ranks would wait for each other for ever."""
        self.refused(73, ["text.txt/below: nothing can be written: Not a directory", "set TMPDIR to a folder"], "run",
                     "recipe.json", "--ranks", "2", environment={"TMPDIR": f"{self.folder}/text.txt/below"}, timeout=60)

    @unittest.skipUnless(may_mount(), "only root may mount")
    def test_no_room(self):
        for mounts, fragments in (
                ("mount -t tmpfs -o size=4m tmpfs /dev/shm", ["/dev/shm: 4.00 MiB are free", "--shm-size"]),
                ("mount -t tmpfs -o size=4m tmpfs full", ["full: 4.00 MiB are free", "set TMPDIR to a folder with"])):
            with self.subTest(mounts):
                (self.folder / "full").mkdir(exist_ok=True)
                command = f"{mounts}; TMPDIR=$PWD/full exec {PROGRAM} run recipe.json --ranks 4"
                result = self.run_program("--mount", "sh", "-c", command, program="unshare", timeout=60)
                self.assertEqual(result.returncode, 73, result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                for fragment in fragments:
                    self.assertIn(fragment, result.stderr)

    def test_what_a_killed_run_leaves_is_removed_by_the_next(self):
        shared = str(self.folder / "shared")
        os.mkdir(shared)
        settings = {"TMPDIR": shared, "OMPI_MCA_btl_vader_backing_directory": shared}
        running = self.endless("running", settings)
        killed = self.endless("killed", settings)
        for process in (running, killed):
            self.wait_for_a_step(process)
        left, in_use = self.shared_files(killed.pid), self.shared_files(running.pid)
        below = list(processes_below(killed.pid))
        killed.kill()
        while any(map(is_running, below)):
            time.sleep(0.01)
        other = pathlib.Path(shared) / "llmtrain-ranks-of-mine"
        other.write_text("")
        self.assertTrue(left and all(folder.exists() for folder in left), left)
        self.assertEqual(self.run_two("-q", environment=settings).returncode, 0)
        self.assertEqual([folder for folder in left if folder.exists()], [])
        self.assertTrue(in_use and all(folder.exists() for folder in in_use), in_use)
        self.assertTrue(other.exists())
        # One that ends by itself leaves nothing.
        running.send_signal(signal.SIGTERM)
        running.stderr.read()
        self.assertEqual(running.wait(), 75)
        self.assertEqual(os.listdir(shared), [other.name])


class Stack(Launch):
    """A small stack would end mpirun, and oneDNN's products in bf16, with a segmentation fault."""

    def limited(self, soft, hard, *arguments):
        limits = (soft << 10, hard << 10)
        return self.run_program("run", "recipe.json", "-q", "--set", "precision.compute=bf16", "--set",
                                "model.hidden_size=256", *arguments,
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, limits))

    def test_a_limit_that_may_be_raised_is_raised(self):
        for number, arguments in enumerate(((), ("--ranks", "2"), ("--ranks", "2", "--set", "launch.backend=local"))):
            with self.subTest(arguments=arguments):
                result = self.limited(64, 8192, "--run-dir", f"run-{number}", *arguments)
                self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_a_limit_that_is_too_low_is_said(self):
        result = self.limited(64, 64)
        self.assertEqual(result.returncode, 73, result.stderr)
        self.assertIn("the limit of the stack is 64.0 KiB here (ulimit -s)", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)


if __name__ == "__main__":
    unittest.main()
