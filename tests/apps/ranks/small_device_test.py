# SPDX-License-Identifier: Apache-2.0
"""The recipes for a small device keep to the memory that its profile says a process may have, and to their plans; what
would need more is not run."""
import json
import os
import subprocess
import unittest

from program import PROGRAM, SOURCE, ProgramTest

DEVICE = "raspberry-pi-zero-2-w"
HARD_BYTES = json.loads((SOURCE / f"recipes/clusters/{DEVICE}.json").read_text())["device"]["memory_bytes"]
# Shares of the plan that a process may take more, and less, as not everything that is planned is in use at once.
MORE, LESS = 0.05, 0.1


class SmallDevice(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("text.txt", bytes(range(32, 127)) * 80)
        self.bring("small-device")

    def bring(self, name, **model):
        """The bundled recipe, as it is but for its data, how long it trains and what it writes."""
        recipe = json.loads((SOURCE / f"recipes/examples/{name}.json").read_text())
        recipe["data"].update(train=[{"path": "text.txt"}], validation=[])
        recipe["training"].update(steps=2, evaluate_every=0)
        recipe["training"].pop("evaluate_batches")
        recipe.update(log={"tensorboard": False})
        recipe["checkpoint"]["every"] = 2
        recipe["model"].update(model)
        self.write(f"{name}.json", recipe)

    def plan(self, name, *arguments):
        result = self.run_program("plan", f"{name}.json", "--json", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def check_run(self, name, *arguments):
        """The largest resident set of the whole process, by the kernel's account, from its start to its end."""
        process = subprocess.Popen([PROGRAM, "run", f"{name}.json", "--run-dir", name, *arguments], cwd=self.folder,
                                   stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        resident, planned = usage.ru_maxrss * 1024, self.plan(name)["ranks"][0]["peak_bytes"]
        self.assertLessEqual(resident, HARD_BYTES)
        self.assertLessEqual(resident, (1 + MORE) * planned)
        self.assertGreaterEqual(resident, (1 - LESS) * planned)
        self.assertGreater(self.rows(name)[-1]["arena_share"], 0.99)

    def test_all_layers_and_then_the_last_ones(self):
        self.check_run("small-device")
        self.bring("small-device-last-layers", **{"from": "small-device"})
        self.check_run("small-device-last-layers")

    def test_what_needs_more_is_not_run(self):
        in_memory = ("--set", "memory.offload.optimizer=false", "--set", "memory.limit=null")
        plan = self.plan("small-device", *in_memory)
        self.assertEqual((plan["fits"], plan["device_memory_bytes"]), (False, HARD_BYTES))
        self.refused(2, ["small-device.json", "is ended", DEVICE, "memory.offload.optimizer=disk"], "run",
                     "small-device.json", *in_memory)
        # What memory.limit and no file asks for, the plan suggests.
        words = [word for change in plan["suggestions"][0]["change"].split(" --set ") for word in ("--set", change)]
        self.assertTrue(self.plan("small-device", *in_memory[2:], *words)["fits"])

    def test_a_plan_leaves_the_error_of_plans(self):
        recomputes = ("--set", "memory.limit=null", "--set", "memory.recompute=full")
        peak = self.plan("small-device", *recomputes)["ranks"][0]["peak_bytes"]
        self.write("device.json", {"name": "device", "based_on": str(SOURCE / f"recipes/clusters/{DEVICE}.json"),
                                   "device": {"memory_bytes": round(1.04 * peak)}})
        device = ("--set", "cluster.profile=./device.json", *recomputes)
        self.assertFalse(self.plan("small-device", *device)["fits"])
        self.refused(2, ["plans err by ± 5 %"], "run", "small-device.json", *device)


if __name__ == "__main__":
    unittest.main()
