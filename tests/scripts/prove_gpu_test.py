# SPDX-License-Identifier: Apache-2.0
"""What scripts/prove-gpu does without a GPU, which cases it chooses for one, and its table of a result.

scripts/pack-gpu packs what programs need: they start from a moved folder, with nothing from elsewhere but what PyTorch
and the system bring."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop()) if len(sys.argv) > 1 else ROOT / "build"
sys.path.insert(0, str(ROOT / "scripts/gpu_support"))
import gpu_tests  # noqa: E402
import pack  # noqa: E402
import prove  # noqa: E402
import shapes  # noqa: E402
import sides  # noqa: E402
import speed  # noqa: E402
import table  # noqa: E402

GIB = 1 << 30


def measured(name, seconds, peak, **more):
    return {"side": f"124M {name}", "failure": None, "seconds": seconds, "tokens_per_second": 32768 / seconds,
            "peak_bytes": peak * GIB, "tensor_bytes": 0.75 * peak * GIB, "seconds_by_turn": [[seconds]], **more}


def part(status="passed", **more):
    return {"status": status, "seconds": 10.0, "notes": [], "failures": [], **more}


def recorded():
    ours = measured("llmtrain bf16", 0.1036, 12.5, planned_seconds=0.1098, planned_bytes=12.6 * GIB, profile="h200",
                kernels={"busy_seconds": 3.2, "steps": 8, "kernels": [{"name": "flash", "seconds": 0.8, "count": 96}]})
    eager, compiled = measured("eager", 0.0819, 36), measured("compiled", 0.0632, 17.5)
    case = {"model": "124M", "sequences": 32, "micro": 32, "sides": [ours, eager, compiled]}
    return {"gpu": {"name": "NVIDIA H200", "memory_bytes": 140 * GIB, "driver": "580"}, "revision": "abc", "parts": {
        "roofs": part(operators=[{"name": "RMSNorm", "share": 0.914}, {"name": "dropout", "share": 0.2}]),
        "speed": part(cases=[case]),
        "tests": part("failed", counts={"passed": 60, "failed": 1, "skipped": 2},
                      failures=[{"name": "fp8_test.one", "code": 1, "log": "the reason"}]),
        "sanitizer": part("not done", notes=["there is no compute-sanitizer"])}}


class WithoutGpu(unittest.TestCase):
    def test_it_proves_nothing_and_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            driver = pathlib.Path(folder) / "nvidia-smi"
            driver.write_text("#!/bin/sh\nexit 9\n")
            driver.chmod(0o755)
            environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
            done = subprocess.run([ROOT / "scripts/prove-gpu", "--output", f"{folder}/out"], env=environment,
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (77, "no GPU: nothing proven\n", ""))
            self.assertFalse((pathlib.Path(folder) / "out").exists())


class Cases(unittest.TestCase):
    def test_shapes_have_their_names_sizes(self):
        for name, millions in (("124M", 124.4), ("0.5B", 494), ("1.5B", 1544), ("7B", 7616)):
            self.assertAlmostEqual(shapes.parameters(shapes.MODELS[name]) / 1e6 / millions, 1, delta=0.01, msg=name)

    def test_micro_batches_are_those_that_fit_eager_and_llmqs_where_none_does(self):
        def chosen(gibibytes):
            return [shapes.micro_batch(name, gibibytes * GIB) for name in shapes.MODELS]

        self.assertEqual(chosen(80), [32, 16, 8, 4])
        self.assertEqual(chosen(140), [32, 32, 16, 4])

    def test_the_memory_of_eager_is_about_what_it_has_taken_on_an_h200(self):
        for name, gibibytes in (("0.5B", 119.65), ("124M", 35.71)):
            planned = shapes.torch_bytes(shapes.MODELS[name], shapes.MICRO[name]) / GIB
            self.assertTrue(0.98 <= planned / gibibytes <= 1.2, (name, planned))

    def test_parts(self):
        self.assertEqual(prove.choose_parts([], []), list(prove.PARTS))
        self.assertEqual(prove.choose_parts(["tests", "roofs"], ["roofs"]), ["tests"])

    def test_all_tests_labelled_gpu(self):
        found = gpu_tests.choose_tests(ROOT)
        files = {path for _, path, _ in found}
        self.assertEqual(files, {*(ROOT / "tests/apps/emulated_gpu").glob("*_test.py"),
                                 ROOT / "tests/apps/ranks/gpu_ranks_test.py"})
        written = sum(len(re.findall(r"^    def test_", path.read_text(), re.MULTILINE)) for path in files)
        self.assertEqual((len(found), len({name for name, _, _ in found})), (written, written))
        for word in gpu_tests.SLOW:
            self.assertTrue(any(word in name for name, _, _ in found), word)


class Sides(unittest.TestCase):
    def setUp(self):
        self.closed = []
        self.turns = sides.Turns(None, 100 * GIB)
        self.turns.close = lambda side: (self.closed.append(side.name), self.turns.open.remove(side))

    def open(self, name, peak, idle):
        """A side that takes so many GiB; the context of its process comes on top."""
        self.turns.open.append(sides.Side(name, [], None, ((peak - 1) * GIB, (idle - 1) * GIB)))
        return self.turns.open[-1]

    def test_those_that_wait_stay_where_they_fit(self):
        self.open("first", 40, 40)
        self.open("second", 30, 10)
        self.turns.make_room(self.open("third", 45, 45))
        self.assertEqual(self.closed, [])

    def test_those_that_have_waited_longest_make_room(self):
        for name in ("first", "second", "third"):
            self.open(name, 40, 30)
        self.turns.make_room(self.open("fourth", 60, 40))
        self.assertEqual(self.closed, ["first", "second"])


class Failures(unittest.TestCase):
    def test_only_those_of_llmtrain_with_time_left_are_failures(self):
        found = part()
        for name, failure in (("llmtrain bf16", "ended with 3"), ("llmtrain fp8", sides.NO_TIME), ("eager", "ended")):
            speed.keep_failure(found, {"side": f"7B {name}", "failure": failure, "log": f"{failure}\nout of memory\n"})
        self.assertEqual([each["name"] for each in found["failures"]], ["7B llmtrain bf16"])
        self.assertEqual(found["notes"], ["7B llmtrain fp8: no time left", "7B eager: out of memory"])


class Table(unittest.TestCase):
    def test_figures_beside_goals(self):
        text = table.table(recorded())
        self.assertIn("| 124M, 32 by 32 | bf16 | 103.6 | 316293 | 0.79x | 0.61x | 12.5 | 0.46 | 109.8 (+6%) "
                      "| 12.6 (+1%) |  |", text)
        self.assertIn("| 124M | bf16 | `flash` | 12 | 25.0% |", text)
        self.assertIn("| 124M in bf16, of torch.compile | 1.1x | 0.61x | no |", text)
        self.assertIn("| 124M in bf16, peak memory of eager's tensors | at most 0.8 | 0.46 | yes |", text)
        self.assertIn("| 124M in bf16, planned time (h200) | within 10% | +6% | yes |", text)
        self.assertIn("| 7B in bf16, tokens/s | 13800 | not measured |  |", text)
        self.assertIn("| RMSNorm, of the copy roof | 0.85 | 0.91 | yes |", text)
        self.assertIn("| dropout, of the copy roof | 0.85 | 0.20 | no |", text)
        self.assertIn("| tests | failed | 10 | 60 passed, 1 failed, 2 skipped |", text)
        self.assertIn("- sanitizer: there is no compute-sanitizer", text)
        self.assertIn("- tests: fp8_test.one (1)", text)
        widths = {line.count("|") for line in text.splitlines() if line.startswith(("| 124M, ", "| shape | side | ms"))}
        self.assertEqual(len(widths), 1)

    def test_files(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            prove.write(recorded(), folder)
            self.assertEqual((folder / "first-failure.log").read_text(), "tests: fp8_test.one (1)\nthe reason\n")
            later = recorded()
            later["parts"] = {"tests": part(counts={"passed": 61}), "speed": part("not done", notes=["no time"])}
            (folder / "later.json").write_text(json.dumps(later))
            joined = prove.join([folder / "result.json", folder / "later.json"])
            self.assertEqual({name: each["status"] for name, each in joined["parts"].items()},
                             {"roofs": "passed", "speed": "passed", "tests": "passed", "sanitizer": "not done"})


@unittest.skipUnless(shutil.which("ompi_info") and (BUILD / "libllmtrain_mpi.so").exists(), "the build has no Open MPI")
class Pack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="llmtrain-pack-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        pack.fill(cls.folder / "first", BUILD)
        cls.moved = (cls.folder / "first").rename(cls.folder / "moved")

    def run_moved(self, command, **options):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        done = subprocess.run(["bash", "-c", f". {self.moved}/env.sh && {command}"], capture_output=True, text=True,
                              cwd=self.folder, env=environment, check=False, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def test_all_libraries_are_packed(self):
        files = " ".join(map(str, pack.binaries(self.moved)))
        found = set(re.findall(r"^\s*(\S+) => (.*?)(?: \(0x\w+\))?$", self.run_moved(f"ldd {files}"), re.MULTILINE))
        self.assertGreater(len(found), 20)
        for name, path in found:
            fine = pack.SYSTEM.fullmatch(name) or pack.TORCH.search(path) or path.startswith(str(self.moved))
            self.assertTrue(fine or name.startswith(("libnccl", "libcu")), (name, path))

    def test_pmix_finds_the_packed_components(self):
        folder = self.run_moved("echo $PMIX_MCA_mca_base_component_path").strip()
        self.assertEqual(folder, str(self.moved / "openmpi" / "pmix"))
        self.assertTrue(any(pathlib.Path(folder).glob("pmix_mca_*.so")))

    def test_two_ranks_start_without_a_word_of_mpi(self):
        model = {"architecture": "gpt2", "layers": 1, "hidden_size": 16, "heads": 2, "vocab_size": 256,
                 "max_sequence_length": 16}
        recipe = {"name": "r", "model": model, "data": {"train": [{"path": "text.txt"}]},
                  "batch": {"global": 2, "micro": 1}, "training": {"steps": 2},
                  "cluster": {"profile": "cpu", "device": "cpu"}, "launch": {"backend": "mpi"}}
        (self.folder / "r.json").write_text(json.dumps(recipe))
        (self.folder / "text.txt").write_text("The quick brown fox. " * 40)
        self.run_moved("llmtrain doctor || true")
        self.run_moved("llmtrain run r.json -q --run-dir two --ranks 2")
        self.assertTrue((self.folder / "two" / "checkpoints").is_dir())


if __name__ == "__main__":
    unittest.main()
