# SPDX-License-Identifier: Apache-2.0
"""Runs on several ranks, as threads and as processes under mpirun: equal results, console output, and failures."""
import json
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
from program import PROGRAM, ProgramTest, links_held_by, small

TEXT = "The quick brown fox jumps over the lazy dog.\n" * 40
BACKENDS = ("local", "mpi") if shutil.which("mpirun") else ("local",)
MPIRUN = ("mpirun", "--quiet", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none")


class Ranks(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("text.txt", TEXT)
        self.write("held-out.txt", TEXT)
        self.write("recipe.json", small({
            "data": {"train": [{"path": "text.txt"}], "validation": [{"path": "held-out.txt"}]},
            "model.layers": 2, "batch": {"global": 8, "micro": 1},
            "training": {"steps": 20, "evaluate_every": 10, "evaluate_batches": 2,
                         "learning_rate": {"warmup_steps": 20}}}))

    def run_ranks(self, *arguments, **options):
        return self.run_program("run", "recipe.json", *arguments, **options)

    def train(self, folder, *arguments):
        result = self.run_ranks("-q", "--run-dir", folder, *arguments)
        self.assertEqual((result.returncode, result.stderr, result.stdout), (0, "", ""))
        return self.rows(folder)

    def assert_close(self, rows, expected):
        self.assertEqual([row["step"] for row in rows], [row["step"] for row in expected])
        for row, wanted in zip(rows, expected):
            for name, tolerance in (("loss", 1e-5), ("validation_loss", 1e-5), ("grad_norm", 1e-4)):
                if name in wanted:
                    self.assertAlmostEqual(row[name], wanted[name], delta=tolerance * wanted[name])

    def test_the_same_numbers(self):
        expected = self.train("alone")
        for backend in BACKENDS:
            losses = None
            for ranks, stage, loops in ((2, 0, 1), (2, 3, 2), (4, 1, 2), (4, 2, 1)):
                with self.subTest(backend=backend, ranks=ranks, stage=stage):
                    layout = ["--ranks", str(ranks), "--set", f"launch.backend={backend}", "--set",
                              f"parallel.zero_stage={stage}", "--set", f"pipeline.loops={loops}"]
                    rows = self.train(f"{backend}-{ranks}-{stage}", *layout)
                    self.assert_close(rows, expected)
                    if losses is None:
                        losses = [row.get("loss") for row in rows]
                        again = self.train(f"{backend}-again", *layout)
                        self.assertEqual([row.get("loss") for row in again], losses)

    def test_resumes_with_other_ranks(self):
        expected = self.train("alone")
        self.train("four", "--ranks", "4", "--set", "launch.backend=local", "--set", "parallel.zero_stage=3", "--set",
                   "checkpoint.every=10")
        rows = self.train("two", "--ranks", "2", "--set", "launch.backend=local", "--resume",
                          "four/checkpoints/step-00000010")
        self.assert_close(rows, [row for row in expected if row["step"] > 10])
        # Whatever their layouts, checkpoints can be compared; the runs' sums differ in fp32's last bits.
        answer = json.loads(self.run_program("checkpoint", "diff", "alone", "two", "--json").stdout)
        self.assertGreater(answer["compared"], 20)
        # Not of key biases, whose gradients are nothing but rounding errors.
        weights = [tensor["relative"] for tensor in answer["tensors"] if tensor["name"].endswith(".weight")]
        self.assertLess(max(weights), 1e-2)

    def test_only_the_first_rank_prints_and_each_has_a_log(self):
        for backend in BACKENDS:
            with self.subTest(backend):
                result = self.run_ranks("--ranks", "2", "--run-dir", backend, "--set", f"launch.backend={backend}")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stderr.count("llmtrain: small"), 1, result.stderr)
                self.assertEqual(result.stderr.count("done. "), 1, result.stderr)
                self.assertIn("by mpirun, over MPI" if backend == "mpi" else "threads", result.stderr)
                logs = sorted(path.name for path in (self.folder / backend / "log").iterdir())
                self.assertEqual(logs, ["rank-00000.log", "rank-00001.log"])

    def test_ends_in_words_whatever_the_layout(self):
        """The sample at the end is omitted in layouts where the ranks would have to generate it together."""
        for axis in ("tensor", "context", "pipeline", "data"):
            with self.subTest(axis):
                result = self.run_ranks("--run-dir", axis, "--set", f"parallel.{axis}=2", "--set",
                                        "launch.backend=local")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("done. ", result.stderr)
                self.assertIn(f": {axis} 2", result.stderr)

    def test_world_that_does_not_fit(self):
        cases = ((["--ranks", "3"], "recipe.json: /batch/global:"),
                 (["--ranks", "2", "--set", "parallel.data=4"], "--set: /launch/ranks:"))
        for arguments, reason in cases:
            result = self.refused(2, [reason], "run", "recipe.json", *arguments)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    @unittest.skipUnless("mpi" in BACKENDS, "no mpirun")
    def test_world_of_the_launcher_that_does_not_fit(self):
        result = self.under_mpirun(2, "--ranks", "4")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("/launch/ranks: 4 differs from the 2 ranks that mpirun has started"), 1)

    @unittest.skipUnless("mpi" in BACKENDS, "no mpirun")
    def test_is_a_rank_under_mpirun(self):
        result = self.under_mpirun(2, "--run-dir", "started")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("started by mpirun", result.stderr)
        self.assertEqual(len(self.rows("started")), 23)

    def test_nccl_on_cpus(self):
        result = self.refused(2, ["recipe.json: /launch/backend: \"nccl\" connects GPUs"], "run", "recipe.json",
                              "--ranks", "2", "--set", "launch.backend=nccl", "--set", "cluster.device=cpu")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    @unittest.skipUnless("mpi" in BACKENDS, "no mpirun")
    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "this machine has a GPU")
    def test_nccl_without_gpus(self):
        """Reported by one rank, before there is a run."""
        result = self.run_ranks("--ranks", "2", "--set", "launch.backend=nccl", "--run-dir", "nccl")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("/launch/backend: \"nccl\" connects GPUs: "), 1, result.stderr)
        self.assertFalse((self.folder / "nccl").exists())

    def test_no_watchdog(self):
        """0 seconds mean forever."""
        for backend in BACKENDS:
            self.train(f"{backend}-for-ever", "--ranks", "2", "--set", f"launch.backend={backend}", "--set",
                       "launch.watchdog_seconds=0")

    def under_mpirun(self, ranks, *arguments):
        command = [*MPIRUN, "-n", str(ranks), PROGRAM, "run", "recipe.json", *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=120,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})

    def end_of_training(self, trouble, *flags):
        """Trains endlessly, causes the failure after the first step, and returns the exit code, the output after it, and
        the seconds from the first line of that output to the end."""
        long = ["--ranks", "2", "--run-dir", "trouble", "--set", "training.steps=1000000", "--set",
                "training.evaluate_every=0", *flags]
        process = self.start_program("run", "recipe.json", *long)
        self.wait_for_a_step(process)
        trouble(process.pid)
        said = ""
        while not said and process.poll() is None:
            line = process.stderr.readline()
            said = "" if line.startswith("step ") else line.strip()
        start = time.monotonic()
        said += process.stderr.read()
        return process.wait(), said, time.monotonic() - start

    def test_a_rank_that_fails_in_training(self):
        """The first rank cannot save a checkpoint: its folder has been replaced by a file."""
        def take_folder(_):
            checkpoints = self.folder / "trouble" / "checkpoints"
            checkpoints.rename(self.folder / "elsewhere")
            checkpoints.write_text("")

        for backend in BACKENDS:
            with self.subTest(backend):
                shutil.rmtree(self.folder / "trouble", ignore_errors=True)
                shutil.rmtree(self.folder / "elsewhere", ignore_errors=True)
                code, said, seconds = self.end_of_training(take_folder, "--set", f"launch.backend={backend}", "--set",
                                                           "checkpoint.every=20")
                self.assertEqual((code, said.count("trouble/checkpoints")), (73, 1), said)
                self.assertLess(seconds, 20)

    @unittest.skipUnless("mpi" in BACKENDS, "no mpirun")
    def test_a_rank_that_cannot_write_its_part(self):
        """A folder is in the place of the second rank's checkpoint file. Earlier checkpoints stay intact."""
        checkpoints = self.folder / "trouble" / "checkpoints"

        def take_names(pid):
            writer = rank_process(pid, 0)
            for step in range(100, 10000, 20):
                (checkpoints / f"step-{step:08}.tmp-{writer}" / "tensors-00002-of-00002.safetensors.tmp").mkdir(
                    parents=True, exist_ok=True)

        for when in ("true", "false"):
            with self.subTest(asynchronous=when):
                shutil.rmtree(self.folder / "trouble", ignore_errors=True)
                code, said, _ = self.end_of_training(take_names, "--set", "launch.backend=mpi", "--set",
                                                     "checkpoint.every=20", "--set", f"checkpoint.async={when}")
                self.assertEqual((code, said.count("tensors-00002-of-00002")), (73, 1), said)
                self.assertIn("rank 1: ", said)
                self.assertRegex(said, r"takes about \d+ bytes .* are free")
                newest = (checkpoints / "latest").read_text().strip()
                self.assertEqual(self.run_program("checkpoint", "verify", checkpoints / newest).returncode, 0)

    @unittest.skipUnless("mpi" in BACKENDS, "no mpirun")
    def test_a_rank_that_hangs(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                code, said, seconds = self.end_of_training(
                    lambda pid, rank=rank: os.kill(rank_process(pid, rank), signal.SIGSTOP), "--set",
                    "launch.backend=mpi", "--set", "launch.watchdog_seconds=2")
                self.assertEqual(code, 69, said)
                self.assertRegex(said, f"rank {1 - rank} waited 2.0s in .* for rank {rank} "
                                       r"\(does not respond; last operation completed with it: \w+ of \d+ \w+ for \w+ ")
                self.assertIn("launch.watchdog_seconds", said)
                self.assertLess(seconds, 20)

    @unittest.skipUnless("mpi" in BACKENDS, "no mpirun")
    def test_a_rank_that_is_killed(self):
        code, said, seconds = self.end_of_training(lambda pid: os.kill(rank_process(pid, 1), signal.SIGKILL), "--set",
                                                   "launch.backend=mpi")
        self.assertEqual(code, 69, said)
        self.assertRegex(said, r"rank 1 was killed by signal 9 \(Killed\), as Linux does where memory runs out: "
                               r"llmtrain plan .*; run the same command again to start again, because there is no")
        self.assertLess(seconds, 20)
        # Not for lack of memory, and with a checkpoint to go on from.
        self.train("crashed", "--set", "launch.backend=mpi")
        process = self.endless("crashed", "mpi")
        self.wait_for_a_step(process)
        os.kill(rank_process(process.pid, 0), signal.SIGSEGV)
        self.assertRegex(process.stderr.read(), r"rank 0 was killed by signal 11 \(Segmentation fault\); run the same "
                                                r"command again to continue from step-\d{8}")

    @unittest.skipUnless("mpi" in BACKENDS, "no mpirun")
    def test_ranks_with_different_recipes(self):
        recipe = json.loads((self.folder / "recipe.json").read_text())
        recipe["training"]["learning_rate"]["peak"] = 1e-2
        self.write("other.json", recipe)
        rank = [PROGRAM, "run", "recipe.json", "--run-dir", "different"]
        command = [*MPIRUN, "-n", "1", *rank, ":", "-n", "1", PROGRAM, "run", "other.json", *rank[3:]]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("/training/learning_rate/peak: rank 1 has another value than the first rank"),
                         1, result.stderr)
        self.assertFalse((self.folder / "different").exists())

    def test_a_rank_that_fails_at_its_start(self):
        """The second rank cannot open its log."""
        for backend in BACKENDS:
            with self.subTest(backend):
                layout = ("--run-dir", backend, "--set", f"launch.backend={backend}")
                self.assertEqual(self.run_ranks("-q", *layout).returncode, 0)
                (self.folder / backend / "log" / "rank-00001.log").mkdir()
                start = time.monotonic()
                result = self.run_ranks("--ranks", "2", "-q", *layout)
                self.assertEqual(result.returncode, 73, result.stderr)
                self.assertEqual(result.stderr.count("rank-00001.log"), 1, result.stderr)
                self.assertLess(time.monotonic() - start, 30)

    def test_missing_data_is_reported_once(self):
        for backend in BACKENDS:
            result = self.run_ranks("--ranks", "2", "--set", f"launch.backend={backend}", "--set",
                                    "data.train.0.path=nowhere.txt")
            self.assertEqual(result.returncode, 66, result.stderr)
            self.assertEqual(result.stderr.count("nowhere.txt"), 1, result.stderr)

    def test_stop_on_request(self):
        """By a signal to the program, and by one to a rank other than the first."""
        requests = [("local", lambda pid: os.kill(pid, signal.SIGTERM))]
        if "mpi" in BACKENDS:
            requests += [("mpi", lambda pid: os.kill(pid, signal.SIGHUP)),
                         ("mpi", lambda pid: os.kill(rank_process(pid, 1), signal.SIGTERM))]
        for number, (backend, request) in enumerate(requests):
            with self.subTest(backend=backend, number=number):
                process = self.endless(f"asked-{number}", backend)
                self.wait_for_a_step(process)
                request(process.pid)
                rest = process.stderr.read()
                self.assertEqual(process.wait(), 75, rest)
                self.assertIn("run the same command again", rest)

    def endless(self, folder, backend):
        long = ["--ranks", "2", "--run-dir", folder, "--set", f"launch.backend={backend}", "--set",
                "training.steps=1000000", "--set", "training.evaluate_every=0"]
        return self.start_program("run", "recipe.json", *long)

    @unittest.skipUnless("mpi" in BACKENDS, "no mpirun")
    def test_requests_before_the_first_step(self):
        """At any moment between the start of the program and its first step: none is lost, and none kills. The first
        moment is when the program handles signals: before that it is the system that ends it."""
        for number, seconds in enumerate((0, 0.1, 0.4, 0.8)):
            with self.subTest(seconds=seconds):
                process = self.endless(f"early-{number}", "mpi")
                caught = f"/proc/{process.pid}/status"
                while not int(re.search(r"SigCgt:\s*(\w+)", pathlib.Path(caught).read_text())[1], 16) >> 14 & 1:
                    time.sleep(0.001)
                time.sleep(seconds)
                process.send_signal(signal.SIGTERM)
                rest = process.stderr.read()
                self.assertEqual(process.wait(), 75, rest)

    @unittest.skipUnless("mpi" in BACKENDS, "no mpirun")
    def test_a_second_request_ends_the_run(self):
        process = self.endless("insisted", "mpi")
        self.wait_for_a_step(process)
        os.kill(rank_process(process.pid, 0), signal.SIGSTOP)  # so that the first request cannot be served
        process.send_signal(signal.SIGTERM)
        # Two signals that wait for a process are one, and so are two that one process sends within half a second.
        rest = ""
        while "stopping after this step" not in rest and (line := process.stderr.readline()):
            rest += line
        time.sleep(0.6)
        process.send_signal(signal.SIGTERM)
        rest += process.stderr.read()
        self.assertEqual(process.wait(), 130, rest)
        self.assertRegex(rest, r"(?s)stopping after this step\n.*stopping now\n")
        # The signal that ends the stopped rank wakes it, too.
        self.assertRegex(rest, r"ended by a second request.* run the same command again to "
                               r"(continue from step-\d{8}|start again)")

    @unittest.skipUnless("mpi" in BACKENDS, "no mpirun")
    def test_nothing_trains_on_without_its_parent(self):
        """Whoever is killed, the program or mpirun, in training and at the start: all below it end within 5 s."""
        for number, (victim, seconds) in enumerate((("program", None), ("mpirun", None), ("program", 0.2))):
            with self.subTest(victim=victim, seconds=seconds):
                process = self.endless(f"orphans-{number}", "mpi")
                if seconds is None:
                    self.wait_for_a_step(process)
                else:
                    while not list(processes_below(process.pid)):
                        time.sleep(0.01)
                    time.sleep(seconds)
                below = list(processes_below(process.pid))
                os.kill(process.pid if victim == "program" else int(below[0]), signal.SIGKILL)
                end = time.monotonic() + 5
                while any(map(is_running, below)) and time.monotonic() < end:
                    time.sleep(0.02)
                self.assertEqual([pid for pid in below if is_running(pid)], [])

    @unittest.skipUnless("mpi" in BACKENDS, "no mpirun")
    def test_ranks_of_one_machine_do_not_listen(self):
        process = self.endless("listening", "mpi")
        self.wait_for_a_step(process)
        inodes = set()
        for kind in ("tcp", "tcp6"):
            for line in pathlib.Path(f"/proc/{process.pid}/net/{kind}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A":  # TCP_LISTEN
                    inodes.add(f"socket:[{fields[9]}]")
        for rank in (0, 1):
            self.assertEqual(links_held_by(rank_process(process.pid, rank)) & inodes, set())

    @unittest.skipUnless("mpi" in BACKENDS, "no mpirun")
    def test_limits_that_mpirun_cannot_live_with(self):
        """It would wait for ever."""
        for kind, most, fragment in ((resource.RLIMIT_FSIZE, 100000, "ulimit -f"), (resource.RLIMIT_NOFILE, 24, "ulimit -n")):
            with self.subTest(fragment):
                result = self.refused(73, [fragment, str(most), "launch.backend"], "run", "recipe.json", "--ranks", "2",
                                      "--set", "launch.backend=mpi", timeout=60,
                                      preexec_fn=lambda kind=kind, most=most: resource.setrlimit(kind, (most, most)))
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    @unittest.skipUnless("mpi" in BACKENDS, "no mpirun")
    def test_a_folder_by_the_name_of_mpiruns_separator(self):
        result = self.run_ranks("-q", "--ranks", "2", "--run-dir", ":")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertTrue((self.folder / ":" / "metrics.jsonl").exists())


if __name__ == "__main__":
    unittest.main()
