# SPDX-License-Identifier: Apache-2.0
"""Commands that load the training runtime: invalid data, run directories, full disks, and a complete small run."""
import json
import os
import re
import resource
import signal
import struct
import subprocess
import unittest

import checkpoint_folder
from program import PROGRAM, SOURCE, TEXT, TrainingTest, needs_nobody, small, without_rights


def words(*tokens):
    return struct.pack(f"<{len(tokens)}H", *tokens)


def llm_c(magic=20240520, version=1, count=100, tokens=words(*range(100))):
    return struct.pack("<256i", magic, version, count, *[0] * 253) + tokens


class BadData(TrainingTest):
    """A run that could not start leaves nothing behind, so that the corrected recipe runs in the same directory."""

    FILES = {
        "empty text": ("a.txt", b"", 65),
        "short text": ("a.txt", b"0123456789", 65),
        "empty tokens": ("a.bin", b"", 65),
        "odd tokens": ("a.bin", words(*range(100)) + b"x", 65),
        "short tokens": ("a.bin", words(1, 2, 3), 65),
        "token beyond the vocabulary": ("a.bin", words(*range(99), 256), 65),
        "llm.c, other version": ("a.bin", llm_c(version=9), 65),
        "llm.c, header alone": ("a.bin", llm_c(tokens=b"", count=0), 65),
        "llm.c, half a header": ("a.bin", llm_c()[:500], 65),
        "llm.c, fewer tokens than it says": ("a.bin", llm_c(count=200), 65),
        "llm.c, more tokens than it says": ("a.bin", llm_c(count=50), 65),
        "llm.c, negative count": ("a.bin", llm_c(count=-1), 65),
        "llm.c, token beyond the vocabulary": ("a.bin", llm_c(tokens=words(*range(99), 999)), 65),
        "JSON Lines, no JSON": ("a.jsonl", b'{"text": "' + TEXT[:44].encode() + b'"}\n{"text": ', 65),
        "JSON Lines, no text": ("a.jsonl", b'{"txt": "hello"}\n', 65),
        "JSON Lines, text is a number": ("a.jsonl", b'{"text": 3}\n', 65),
    }

    def test_files(self):
        for name, (file, content, code) in self.FILES.items():
            with self.subTest(name):
                self.write(file, content)
                self.refused(code, [file], "run", "recipe.json", "--set", f"data.train.0.path={file}")

    def test_valid_llm_c(self):
        self.write("a.bin", llm_c())
        self.train("--set", "data.train.0.path=a.bin", "--set", "training.steps=1")

    def test_megatron_index(self):
        self.write("a.bin", words(*range(100)))
        for index in (b"", b"MMIDIDX\x00\x00", b"nonsense" * 10, b"MMIDIDX\x00\x00" + b"\xff" * 40):
            with self.subTest(index[:12]):
                self.write("a.idx", index)
                self.refused(65, ["a.idx"], "run", "recipe.json", "--set", "data.train.0.path=a.bin")

    def test_places(self):
        (self.folder / "empty").mkdir()
        (self.folder / "loop.txt").symlink_to("loop.txt")
        for path, code in (("nowhere.txt", 66), ("nowhere/*.txt", 66), ("*.none", 66), ("text.txt/x", 66),
                           ("empty", 65)):
            with self.subTest(path):
                self.refused(code, [path], "run", "recipe.json", "--set", f"data.train.0.path={path}")
        result = self.run_program("run", "recipe.json", "--set", "data.train.0.path=loop.txt")
        self.assertIn(result.returncode, (65, 66))
        self.assertIn("loop.txt", result.stderr)

    def test_validation_data(self):
        self.refused(66, ["nowhere.txt"], "run", "recipe.json", "--set", 'data.validation=[{"path":"nowhere.txt"}]')

    def test_a_mistake_can_be_corrected(self):
        self.refused(66, ["nowhere.txt"], "run", "recipe.json", "--set", "data.train.0.path=nowhere.txt")
        self.train()

    @needs_nobody()
    def test_no_permission(self):
        self.folder.chmod(0o777)
        (self.folder / "text.txt").chmod(0)
        self.refused(65, ["text.txt", "ermission denied"], "run", "recipe.json", preexec_fn=without_rights)


class RunDirectory(TrainingTest):
    def test_other_files(self):
        self.write("work/thesis.txt", "years")
        self.refused(2, ["work", "thesis.txt"], "run", "recipe.json", "--run-dir", "work")

    def test_other_files_by_the_name_of_a_run(self):
        self.write("work/recipe.json", "years")
        self.refused(2, ["work"], "run", "recipe.json", "--run-dir", "work")

    def test_a_file(self):
        self.refused(73, ["text.txt"], "run", "recipe.json", "--run-dir", "text.txt")
        self.refused(73, ["text.txt"], "run", "recipe.json", "--run-dir", "text.txt/run")

    def test_another_recipe(self):
        self.train()
        self.refused(2, ["runs/small", "/seed", "/model/hidden_size", "32"], "run", "recipe.json", "--set", "seed=9",
                     "--set", "model.hidden_size=32")

    def test_never(self):
        self.train()
        self.refused(2, ["runs/small", "never"], "run", "recipe.json", "--resume", "never")

    def test_resume_from_nothing(self):
        self.write("folder/notes.txt", "mine")
        for source, codes in (("nowhere", (66,)), ("folder", (65, 66)), ("text.txt", (65, 66))):
            with self.subTest(source):
                result = self.run_program("run", "recipe.json", "--resume", source)
                self.assertIn(result.returncode, codes, result.stderr)
                self.assertIn(source, result.stderr)

    def test_resume_from_another_model(self):
        checkpoint_folder.write(self.folder / "other", small())
        result = self.run_program("run", "recipe.json", "--resume", "other")
        self.assertIn(result.returncode, (2, 65), result.stderr)
        self.assertIn("other", result.stderr)

    def test_damaged_checkpoint(self):
        self.train()
        for part in (self.folder / "runs/small/checkpoints").glob("step-*/*.safetensors"):
            os.truncate(part, 40)
        rows = self.rows()
        result = self.run_program("run", "recipe.json")
        self.assertEqual(result.returncode, 65)
        self.assertIn("runs/small/checkpoints", result.stderr)
        self.assertEqual(self.rows(), rows)

    @needs_nobody()
    def test_read_only(self):
        self.folder.chmod(0o755)
        (self.folder / "runs").mkdir()
        self.refused(73, ["runs/small", "ermission denied"], "run", "recipe.json", preexec_fn=without_rights)

    @needs_nobody()
    def test_run_of_another_user(self):
        self.train()
        self.folder.chmod(0o755)
        self.refused(73, ["runs/small", "ermission denied"], "run", "recipe.json", preexec_fn=without_rights)


class Disk(TrainingTest):
    # Weights and moments are about 1 MB: far more than either limit, while the run's first files fit.
    BIG = ["--set", "model.hidden_size=64", "--set", "model.vocab_size=1024"]

    def assert_full(self, result):
        self.assertEqual(result.returncode, 73, result.stderr)
        self.assertFalse(list(self.folder.rglob("step-*/manifest.json")), "a checkpoint that is not whole")

    def test_file_size_limit(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

        self.assert_full(self.run_program("run", "recipe.json", "-q", *self.BIG, preexec_fn=limit))

    @unittest.skipUnless(os.geteuid() == 0, "only root may mount a small disk")
    def test_full_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk]
        if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            self.skipTest("no right to mount here")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        result = self.run_program("run", "recipe.json", "-q", *self.BIG, "--run-dir", "disk/run")
        self.assert_full(result)
        self.assertIn("disk/run", result.stderr)
        self.assertIn("No space left", result.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root may mount a small disk")
    def test_disk_that_is_already_full(self):
        disk = self.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", disk], check=False).returncode != 0:
            self.skipTest("no right to mount here")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        (disk / "other").write_bytes(b"x" * 4096)
        result = self.run_program("run", "recipe.json", "-q", "--run-dir", "disk/run")
        self.assertEqual(result.returncode, 73, result.stderr)


class SmallRun(TrainingTest):
    def test_plan_next_to_measured_figures(self):
        self.train()
        folder = self.folder / "runs" / "small"
        plan = json.loads((folder / "plan.json").read_text())
        self.assertEqual(plan["recipe"]["model"]["layers"], 1)
        self.assertIn("</html>", (folder / "report.html").read_text())
        log = (folder / "log" / "rank-00000.log").read_text()
        self.assertRegex(log, r"one step took \S+ \(median\), planned \S+; memory .* at its peak, planned ")

    def test_a_run_that_may_not_fit(self):
        profile = json.loads((SOURCE / "recipes" / "clusters" / "cpu.json").read_text())
        profile["device"]["memory_bytes"] = 164_000_000
        self.write("small.cluster.json", profile)
        # Logits of a large vocabulary, which full recomputation does not need at once.
        self.write("recipe.json", small({"data.train": [{"path": "text.txt"}], "model.layers": 8,
                                         "model.max_sequence_length": 40, "batch.global": 8, "batch.micro": 8,
                                         "cluster.profile": "./small.cluster.json"}))
        said = self.run_program("run", "recipe.json").stderr
        self.assertRegex(said, r"this run may not fit: rank 0 needs 15\d MiB, and a rank has 156 MiB \(profile cpu\); "
                               r"the cheapest change that fits: --set \w+\.\w+=")
        changes = said.split("change that fits: ")[1].split("\n")[0].split()
        self.assertTrue(json.loads(self.run_program("plan", "recipe.json", "--json", *changes).stdout)["fits"])

    @unittest.skipIf(os.environ.get("LLMTRAIN_SANITIZE"), "a sanitizer's own memory is beyond any limit")
    def test_memory_that_runs_out(self):
        """Scores of a long sequence, which the flash kernel does not store. The limit makes the test that of any
        machine."""
        length = 1 << 18
        self.write("text.txt", "x" * (length + 1))
        self.write("recipe.json", self.recipe({"model.max_sequence_length": length, "batch.global": 1, "batch.micro": 1,
                                               "kernels.attention": "math"}))
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 36, 1 << 36))
        result = subprocess.run([PROGRAM, "run", "recipe.json", "-q"], cwd=self.folder, capture_output=True, text=True,
                                check=False, preexec_fn=limit)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"(?m)^out of memory: 512 GiB were asked for, and this machine has .* available; "
                                        r"the cheapest change that fits: --set kernels\.attention=flash, with which a "
                                        r"rank needs \d+ MiB instead of 1\.\d+ TiB$")

    def test_missing_profile(self):
        self.refused(2, ["/cluster/profile", "a100-80gb"], "run", "recipe.json", "--set", "cluster.profile=a100-80g")
        self.assertFalse((self.folder / "runs").exists())

    def test_never_evaluates(self):
        self.train("--set", 'data.validation=[{"path":"text.txt"}]', "--set", "training.evaluate_every=0")
        self.assertEqual([row for row in self.rows() if "validation_loss" in row], [])

    def test_ids_of_an_unknown_tokenizer_are_no_text(self):
        ids = [number * 7 % 300 for number in range(400)]
        self.write("ids.bin", b"".join(number.to_bytes(2, "little") for number in ids))
        self.train("--set", "data.train.0.path=ids.bin", "--set", "model.vocab_size=300")
        sample = ("sample", "runs/small", "--tokens", "4")
        self.refused(2, ["/data/tokenizer:", "trained on ids", "ids.bin", "data.tokenizer={\"huggingface\""], *sample)
        self.write("questions.jsonl", json.dumps({"question": "a", "choices": ["b", "c"], "answer": 0}))
        self.refused(2, ["/data/tokenizer:", "trained on ids"], "eval", "runs/small", "--choices", "questions.jsonl")
        # Who says that they are bytes is believed, and a loss needs no text.
        said = self.run_program(*sample, "--set", "data.tokenizer=bytes")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual(self.run_program("eval", "runs/small", "--data", "ids.bin").returncode, 0)

    def test_run_sample_eval_export(self):
        validation = ("--set", 'data.validation=[{"path":"text.txt"}]')
        self.train(*validation, "--set", "training.steps=4", "--set", "training.evaluate_every=3")
        self.assertEqual([row["step"] for row in self.rows() if "loss" in row], [1, 2, 3, 4])

        self.assertEqual([row["step"] for row in self.rows() if "validation_loss" in row], [0, 3, 4])

        evaluated = json.loads(self.run_program("eval", "runs/small", "--packed", "--json").stdout)
        last = [row for row in self.rows() if "validation_loss" in row][-1]
        self.assertEqual(evaluated["step"], 4)
        self.assertAlmostEqual(evaluated["loss"], last["validation_loss"], delta=1e-6 * last["validation_loss"])
        self.assertGreater(evaluated["perplexity"], 1)
        other = json.loads(self.run_program("eval", "recipe.json", "--json", "--data", "recipe.json").stdout)
        self.assertNotEqual(other["loss"], evaluated["loss"])

        greedy = ["sample", "runs/small", "--prompt", "The ", "--tokens", "8"]
        first = self.run_program(*greedy, "--temperature", "0")
        self.assertTrue(first.stdout.startswith("The "), first.stdout)
        self.assertEqual(first.stdout, self.run_program(*greedy, "--top-k", "1", "--seed", "9").stdout)

        # Shown as it grows, it ends like the text that is written at once.
        (self.folder / "prompts.jsonl").write_text('{"prompt": "The "}\n{"prompt": "dog", "id": 7}\n')
        lines = self.run_program("sample", "runs/small", "--prompts", "prompts.jsonl", "--samples", "2", "--tokens", "8",
                                 "--temperature", "0", "--json").stdout.splitlines()
        lines = [json.loads(line) for line in lines]
        self.assertEqual([(line["prompt"], line["sample"]) for line in lines],
                         [("The ", 0), ("The ", 1), ("dog", 0), ("dog", 1)])
        self.assertEqual(len(lines[0]["tokens"]), 8)
        written = bytes(lines[0]["tokens"]).decode("utf-8", "replace")
        self.assertEqual(lines[0]["text"], written)
        stop = written[3:5]
        stopped = self.run_program(*greedy, "--temperature", "0", "--stop", stop, "--json")
        self.assertEqual(json.loads(stopped.stdout)["text"], written[:written.index(stop)])
        self.assertIn("== prompt 2 ==\ndog", self.run_program("sample", "runs/small", "--prompts", "prompts.jsonl",
                                                             "--tokens", "0").stdout)
        self.refused(2, ["/parallel/tensor", "3"], "sample", "runs/small", "--tensor", "3")
        self.check_texts_in_a_file()
        self.refused(66, ["nowhere"], "sample", "runs/small", "--prompts", "nowhere")
        self.refused(65, ["prompts.jsonl: line 1", "choices"], "eval", "runs/small", "--choices", "prompts.jsonl")

        parameters = json.loads(self.run_program("checkpoint", "inspect", "runs/small", "--json").stdout)["parameters"]
        self.assertIn(f"{parameters:,} parameters", self.run_program("validate", "recipe.json").stdout)
        self.assertEqual(self.run_program("checkpoint", "verify", "runs/small").returncode, 0)
        self.assertEqual(self.run_program("checkpoint", "export", "runs/small", "out", "--to", "hf").returncode, 0)
        self.assertTrue((self.folder / "out" / "config.json").exists())
        self.refused(73, ["out"], "checkpoint", "export", "runs/small", "out", "--to", "hf")

    def check_texts_in_a_file(self):
        """What is cut off is written again, as it would have been without."""
        self.write("many.jsonl", "".join(json.dumps({"prompt": f"{i} "}) + "\n" for i in range(5)))
        command = ["sample", "runs/small", "--prompts", "many.jsonl", "--samples", "2", "--tokens", "6", "--batch", "3"]
        said = self.run_program(*command, "--output", "texts.jsonl").stderr
        self.assertRegex(said, "10 of 10 texts; 60 tokens in .*, [0-9]+ a second")
        texts = (self.folder / "texts.jsonl").read_text()
        self.assertEqual(texts, self.run_program(*command, "--json").stdout)
        lines = texts.splitlines(keepends=True)
        for left, tokens in (("", 60), (lines[0][:9], 60), ("".join(lines[:3]), 48),
                             ("".join(lines[:4]) + lines[4][:20], 36), (texts, 0)):
            self.write("texts.jsonl", left)
            said = self.run_program(*command, "--output", "texts.jsonl").stderr
            self.assertEqual(f"10 of 10 texts; {tokens} tokens in" in said, tokens > 0, said)
            self.assertEqual((self.folder / "texts.jsonl").read_text(), texts)
        self.refused(65, ["texts.jsonl: line 2", "--samples"], *command[:4], "--tokens", "6", "--output",
                     "texts.jsonl")
        self.write("texts.jsonl", "{}\n")
        self.refused(65, ["texts.jsonl: line 1"], *command, "--output", "texts.jsonl")
        self.assertEqual((self.folder / "texts.jsonl").read_text(), "{}\n")

    def test_checkpoints_on_the_way(self):
        for every, keep, steps in ((2, 0, [2, 4, 5]), (2, 2, [4, 5]), (0, 0, [5]), (5, 0, [5])):
            with self.subTest(every=every, keep=keep):
                folder = f"every-{every}-{keep}"
                self.train("--run-dir", folder, "--set", "training.steps=5", "--set", f"checkpoint.every={every}",
                           "--set", f"checkpoint.keep={keep}")
                found = sorted(path.name for path in (self.folder / folder / "checkpoints").glob("step-*"))
                self.assertEqual(found, [f"step-{step:08}" for step in steps])

    def test_the_same_command_again(self):
        self.train()
        rows = self.rows()
        result = self.run_program("run", "recipe.json")
        self.assertEqual(result.returncode, 0)
        self.assertIn("2", result.stderr)
        self.assertEqual(self.rows(), rows)

    def test_quiet_and_verbose(self):
        self.assertEqual(self.train("--run-dir", "a").stderr, "")
        normal = self.run_program("run", "recipe.json", "--run-dir", "b")
        self.assertIn("small", normal.stderr)
        self.assertEqual(self.run_program("run", "recipe.json", "--run-dir", "c", "-v").returncode, 0)

    def test_stop_on_request(self):
        """A run that is stopped and resumed is bitwise identical to an uninterrupted one."""
        long = ["--set", "training.steps=3000", "--set", "log.every=1"]
        process = self.start_program("run", "recipe.json", *long)
        self.wait_for_a_step(process)
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        self.assertEqual(process.wait(), 75, rest)
        self.assertIn("run the same command again", rest)
        done = len(self.rows())
        self.assertLess(done, 3000)
        self.train(*long)
        self.assertEqual([row["step"] for row in self.rows()], list(range(1, 3001)))
        self.assertEqual({row["step"]: row["resumed_after"] for row in self.rows() if "resumed_after" in row},
                         {done + 1: done})
        self.assertTrue(f'"resumed after step {done}"' in (self.folder / "runs/small/report.html").read_text())
        self.train(*long, "--run-dir", "whole")
        self.assertEqual([row["loss"] for row in self.rows()], [row["loss"] for row in self.rows("whole")])

    def test_a_longer_run(self):
        """A finished run goes on with more steps, bitwise as one that had them from the start where the schedule of the
        first steps is the same, and says what changed."""
        flat = ["--set", "training.learning_rate.schedule=constant"]
        self.train(*flat)
        again = self.run_program("run", "recipe.json", *flat)
        self.assertIn("all 2 steps are already done; raise training.steps to train on", again.stderr)
        longer = self.run_program("run", "recipe.json", *flat, "--set", "training.steps=5", "--set", "log.every=1",
                                  "--set", "checkpoint.every=2")
        self.assertEqual(longer.returncode, 0, longer.stderr)
        for line in ("  training.steps: 2 -> 5\n", "  training.learning_rate.decay_steps: 2 -> 5\n",
                     "  checkpoint.every: 0 -> 2\n"):
            self.assertIn(line, longer.stderr)
        self.assertNotIn("learning rate of step", longer.stderr)
        self.train(*flat, "--set", "training.steps=5", "--run-dir", "whole")
        self.assertEqual([row["loss"] for row in self.rows()], [row["loss"] for row in self.rows("whole")])
        self.assertEqual(len(self.rows()), 5)
        steps = {name: json.loads((self.folder / "runs/small" / name).read_text())["training"]["steps"]
                 for name in ("recipe.json", "recipe-until-step-00000002.json")}
        self.assertEqual(steps, {"recipe.json": 5, "recipe-until-step-00000002.json": 2})
        less = self.run_program("run", "recipe.json", "--set", "training.steps=3")
        self.assertIn("the run has done 5 steps, and training.steps is 3: nothing to do", less.stderr)

    def test_the_rest_with_another_batch_and_rate(self):
        """The data go on where they were, in samples, and the rate follows the new schedule."""
        self.train()
        more = self.run_program("run", "recipe.json", "--set", "training.steps=4", "--set", "batch.global=6", "--set",
                                "training.learning_rate.peak=0.001")
        self.assertEqual(more.returncode, 0, more.stderr)
        self.assertIn("  batch.global: 2 -> 6\n", more.stderr)
        self.assertIn("  learning rate of step 3: 0 -> 0.0005\n", more.stderr)
        self.assertEqual([row["tokens"] for row in self.rows()], [32, 64, 160, 256])
        self.assertEqual([row["learning_rate"] for row in self.rows()][2], 0.0005)


if __name__ == "__main__":
    unittest.main()
