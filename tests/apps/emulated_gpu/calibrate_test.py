# SPDX-License-Identifier: Apache-2.0
"""calibrate and bench run to their ends on the emulated GPU, and plans read the profile. What they measure means nothing
there."""
import json
import math
import unittest

from emulated import GPUS, REAL, EmulatedTest, main
from program import SOURCE, numbers, small


class Calibrate(EmulatedTest):
    variables = {"EMULATED_MEMORY": "512", "EMULATED_DEVICES": "2", "EMULATED_DELAY": "0"}

    def test_a_profile_of_the_gpu(self):
        result = self.run_emulated("calibrate", "--quick", "--device", "cuda", "--output", "gpu.json",
                                   environment={"LLMTRAIN_PROFILES": str(SOURCE / "recipes/clusters")})
        self.assertEqual(result.returncode, 0, result.stderr)
        profile = json.loads((self.folder / "gpu.json").read_text())
        base = json.loads((SOURCE / "recipes/clusters/h100-sxm-80gb.json").read_text())
        # Operators one by one are parts of a data sheet's peaks, which the measured ones are not.
        self.assertEqual(profile.keys(), base.keys() - {"operators"})
        self.assertTrue(all(math.isfinite(number) and number >= 0 for number in numbers(profile)))

        device, node = profile["device"], profile["node"]
        self.assertEqual((device["kind"], node["devices"]), ("cuda", GPUS if REAL else 2))
        if not REAL:
            self.assertEqual(device["memory_bytes"], 512 << 20)
        for rate in ("fp32", "tf32", "bf16", "fp16"):
            self.assertGreater(device["peak_flops"][rate], 0, rate)
        for name in ("memory_bandwidth", "pcie_bandwidth", "kernel_seconds"):
            self.assertGreater(device[name], 0)
            self.assertNotEqual(device[name], base["device"][name])
        self.assertGreater(profile["attention"]["forward_fraction"], 0)
        # Over NCCL between the two devices.
        if not REAL:
            self.assertEqual([table["ranks"] for table in node["all_reduce"]], [2])
        self.assertTrue(all(seconds > 0 for table in node["all_reduce"] for _, seconds in table["points"]))
        # What one machine does not know is that of a GPU's profile, and says so.
        self.assertEqual(profile["network"], base["network"])
        self.assertIn("not measured", profile["sources"]["network"])

        self.write("recipe.json", small({"cluster.profile": "./gpu.json", "batch.micro": 1}))
        plan = self.run_emulated("plan", "recipe.json", "--json")
        self.assertEqual(plan.returncode, 0, plan.stderr)
        self.assertEqual(json.loads(plan.stdout)["profile"], "this-machine")

    def test_operators(self):
        result = self.run_emulated("bench", "kernels", "--quick", "--device", "cuda", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        times = json.loads(result.stdout)
        self.assertEqual(times["type"], "bf16")
        self.assertTrue(all(kernel["share"] > 0 for kernel in times["kernels"]))


if __name__ == "__main__":
    main()
