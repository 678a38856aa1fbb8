# SPDX-License-Identifier: Apache-2.0
"""calibrate measures this machine, and plans use its profile; the measured values must be physically plausible."""
import json
import math
import os
import shutil
import unittest

from program import SOURCE, TEXT, ProgramTest, numbers, small


class MachineTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.profiles = self.folder / "profiles"
        self.profiles.mkdir()
        shutil.copy(SOURCE / "recipes" / "clusters" / "cpu.json", self.profiles)
        self.write("recipe.json", small({"cluster.profile": "auto"}))

    def plan(self):
        return json.loads(self.done("plan", "recipe.json", "--json").stdout)

    def done(self, *arguments, **variables):
        environment = {"LLMTRAIN_PROFILES": str(self.profiles), **variables}
        result = self.run_program(*arguments, environment=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result


class CalibrateCommand(MachineTest):
    def test_measures_and_plans_use_it(self):
        before = self.plan()
        self.done("calibrate", "--quick")  # the same with fewer sizes and shorter timings
        profile = json.loads((self.profiles / "local.json").read_text())
        given = json.loads((self.profiles / "cpu.json").read_text())
        self.assertEqual(profile.keys(), given.keys())
        self.assertTrue(all(math.isfinite(number) and number >= 0 for number in numbers(profile)))
        self.assertNotEqual(profile["device"], given["device"])
        after = self.plan()
        self.assertEqual((before["profile"], after["profile"]), ("cpu", "this-machine"))
        self.assertNotEqual(after["step"]["seconds"], before["step"]["seconds"])

    def test_disk(self):
        """What a disk was measured to move is what plans of states on it take."""
        self.done("calibrate", "--quick", "--disk", str(self.folder / "states"))
        profile = json.loads((self.profiles / "local.json").read_text())
        rate = profile["host"]["disk_bandwidth"]
        self.assertGreater(rate, 1e6)
        self.assertIn(str(self.folder / "states"), profile["sources"]["host"])
        self.assertEqual(list((self.folder / "states").iterdir()), [])
        offload = ("--set", "memory.offload.optimizer=disk")
        plan = json.loads(self.done("plan", "recipe.json", "--json", *offload).stdout)
        [rank] = plan["ranks"]
        self.assertAlmostEqual(rank["disk_bytes_per_step"] / rank["disk_seconds"] / rate, 1, delta=1e-6)
        self.assertNotIn("disk", " ".join(plan["warnings"]))

    @unittest.skipUnless(os.path.ismount("/dev/shm"), "no file system in memory")
    def test_no_disk(self):
        result = self.refused(73, ["--disk: /dev/shm", "is in memory"], "calibrate", "--disk", "/dev/shm")
        self.assertNotIn("products", result.stderr)

    def test_bad_output(self):
        """Detected before anything is measured."""
        for output in ("nowhere/local.json", "profiles"):
            result = self.refused(73, [output], "calibrate", "--output", output)
            self.assertNotIn("measuring", result.stderr)

    def test_bad_device(self):
        self.refused(2, ["--device"], "calibrate", "--device", "tpu")


class BenchCommand(MachineTest):
    def test_operators_move_their_bytes(self):
        """Bytes by the contracts, and the share of the bandwidth that they make of the time."""
        times = json.loads(self.done("bench", "kernels", "--quick", "--device", "cpu", "--json").stdout)
        self.assertEqual(times["type"], "fp32")
        self.assertGreater(times["bandwidth"], 1e8)
        names = [kernel["name"] for kernel in times["kernels"]]
        self.assertEqual(len(names), len(set(names)))
        self.assertGreater(len(names), 15)
        for kernel in times["kernels"]:
            share = kernel["bytes"] / kernel["seconds"] / times["bandwidth"]
            self.assertAlmostEqual(kernel["share"], share, delta=1e-9 * share)
            self.assertGreater(share, 0, kernel)
        # 4096 × 1024 numbers of 4 bytes, read and written.
        self.assertEqual(times["kernels"][names.index("RMSNorm")]["bytes"], 2 * 4 * 4096 * 1024)

    def test_table(self):
        lines = self.done("bench", "kernels", "--quick", "--device", "cpu").stdout.splitlines()
        self.assertRegex(lines[0], r"^.*, fp32: copies and sums of large arrays move \d+ GB/s$")
        for line in lines[3:]:
            self.assertRegex(line, r"^ *\d+ % +\d+ +\d+\.\d µs  \S.* \d+ × \d+$")


MEASURING = "measuring this machine"


@unittest.skipIf(os.path.exists("/dev/nvidiactl"), "a GPU trains here")
class MeasuredMachine(MachineTest):
    """Where nobody has calibrated it, the first plan or run measures the processor, once."""

    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"
        self.variables = {"LLMTRAIN_CACHE": str(self.cache)}

    def plan_of(self, *arguments, **variables):
        """The plan and what was said."""
        result = self.done("plan", "recipe.json", "--json", *arguments, **{**self.variables, **variables})
        return json.loads(result.stdout), result.stderr

    def kept(self):
        return list(self.cache.iterdir()) if self.cache.exists() else []

    def test_once(self):
        first, said = self.plan_of()
        self.assertIn(MEASURING, said)
        self.assertEqual(first["profile"], "this-machine")
        [file] = self.kept()
        self.assertIn(str(file), said)
        self.assertIn("1-threads", file.name)
        profile, assumed = json.loads(file.read_text()), json.loads((self.profiles / "cpu.json").read_text())
        self.assertEqual(profile.keys(), assumed.keys())
        self.assertNotEqual(profile["device"]["peak_flops"]["fp32"], assumed["device"]["peak_flops"]["fp32"])
        before = file.read_bytes()
        second, said = self.plan_of()
        self.assertNotIn(MEASURING, said)
        self.assertEqual((second, file.read_bytes()), (first, before))
        # What cannot be read is measured anew, and no other file stays.
        file.write_text("{")
        self.assertIn(MEASURING, self.plan_of()[1])
        self.assertEqual(json.loads(file.read_text()).keys(), assumed.keys())
        self.assertEqual(self.kept(), [file])

    def test_runs_and_their_ranks_use_it(self):
        """Those in the same process and those that it starts, without a measurement of their own."""
        self.write("book.txt", TEXT)
        self.write("recipe.json", small({"cluster.profile": "auto"}, data={"train": [{"path": "book.txt"}]}))
        for backend, measurements in (("mpi", 1), ("local", 0)):
            with self.subTest(backend):
                result = self.done("run", "recipe.json", "--ranks", "2", "--set", "batch.micro=1", "--set",
                                   f"launch.backend={backend}", "--run-dir", backend, **self.variables)
                self.assertEqual(result.stderr.count(MEASURING), measurements, result.stderr)
                plan = json.loads((self.folder / backend / "plan.json").read_text())
                self.assertEqual(plan["profile"], "this-machine")
                self.assertEqual(len(self.kept()), 1)

    def test_not_asked_for(self):
        """With a named profile, for a GPU, where nothing can be kept, or where the machine was calibrated."""
        self.assertEqual(self.plan_of("--set", "cluster.profile=cpu")[0]["profile"], "cpu")
        self.plan_of("--set", "cluster.device=cuda")
        self.plan_of(LLMTRAIN_CACHE="")
        shutil.copy(self.profiles / "cpu.json", self.profiles / "local.json")
        self.plan_of()
        self.assertEqual(self.kept(), [])

    def test_ranks_of_a_launcher_measure_nothing(self):
        """Others compute beside them; one alone measures."""
        for ranks, profile in (("2", "cpu"), ("1", "this-machine")):
            launcher = {"PMI_RANK": "0", "PMI_SIZE": ranks, "MPI_LOCALNRANKS": ranks, "MPI_LOCALRANKID": "0"}
            self.assertEqual(self.plan_of(**launcher)[0]["profile"], profile)

    def test_failed(self):
        """A folder that cannot be made: plans go on, and say what they assume."""
        plan, said = self.plan_of(LLMTRAIN_CACHE=str(self.write("file", "")))
        self.assertEqual(plan["profile"], "cpu")
        self.assertIn("average processor", said)

    def test_kept_with_other_caches(self):
        del self.variables["LLMTRAIN_CACHE"]
        self.plan_of(HOME=str(self.folder))
        self.cache = self.folder / ".cache" / "llmtrain"
        self.assertEqual(len(self.kept()), 1)


if __name__ == "__main__":
    unittest.main()
