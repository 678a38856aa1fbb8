# SPDX-License-Identifier: Apache-2.0
"""calibrate measures this machine, and plans use its profile; the measured values must be physically plausible."""
import json
import math
import shutil
import unittest

from program import SOURCE, ProgramTest, small


def numbers(value):
    """All numbers inside a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for element in value for number in numbers(element)]
    return [value] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


class CalibrateCommand(ProgramTest):
    def setUp(self):
        super().setUp()
        self.profiles = self.folder / "profiles"
        self.profiles.mkdir()
        shutil.copy(SOURCE / "recipes" / "clusters" / "cpu.json", self.profiles)
        self.write("recipe.json", small({"cluster.profile": "auto"}))

    def plan(self):
        result = self.run_program("plan", "recipe.json", "--json", environment={"LLMTRAIN_PROFILES": str(self.profiles)})
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_measures_and_plans_use_it(self):
        before = self.plan()
        result = self.run_program("calibrate", environment={"LLMTRAIN_PROFILES": str(self.profiles)})
        self.assertEqual(result.returncode, 0, result.stderr)
        profile = json.loads((self.profiles / "local.json").read_text())
        given = json.loads((self.profiles / "cpu.json").read_text())
        self.assertEqual(profile.keys(), given.keys())
        self.assertTrue(all(math.isfinite(number) and number >= 0 for number in numbers(profile)))
        self.assertNotEqual(profile["device"], given["device"])
        after = self.plan()
        self.assertEqual((before["profile"], after["profile"]), ("cpu", "local"))
        self.assertNotEqual(after["step"]["seconds"], before["step"]["seconds"])

    def test_bad_output(self):
        """Detected before anything is measured."""
        for output in ("nowhere/local.json", "profiles"):
            result = self.refused(73, [output], "calibrate", "--output", output)
            self.assertNotIn("measuring", result.stderr)

    def test_bad_device(self):
        self.refused(2, ["--device"], "calibrate", "--device", "tpu")


if __name__ == "__main__":
    unittest.main()
