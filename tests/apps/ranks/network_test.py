# SPDX-License-Identifier: Apache-2.0
"""launch.network_interfaces, with ranks that mpirun has told to use TCP as those of several nodes do."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from program import PROGRAM, TrainingTest, links_held_by

MPIRUN = ("mpirun", "--quiet", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2")
LOOPBACK = "0100007F"  # 127.0.0.1 in /proc/net/tcp


def connections(pid):
    """[(local, remote)] of the process's TCP connections over IPv4, as address:port in hexadecimal."""
    held = links_held_by(pid)
    lines = [line.split() for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return [(line[1], line[2]) for line in lines if line[3] == "01" and f"socket:[{line[9]}]" in held]


@unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
class Network(TrainingTest):
    def start(self, interface, steps):
        settings = {"cluster.nodes": 2, "cluster.devices_per_node": 1, "batch.micro": 1, "training.steps": steps,
                    "launch.network_interfaces": f'["{interface}"]'}
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,tcp"}
        process = subprocess.Popen([*MPIRUN, PROGRAM, "run", "recipe.json", *sets], cwd=self.folder, env=environment,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return process

    def test_ranks_connect_through_the_interface(self):
        process = self.start("lo", 1000000)
        self.wait_for_a_step(process)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        first, second = (connections(pid) for pid in children)
        self.assertEqual({each.split(":")[0] for each in sum(first + second, ())}, {LOOPBACK})
        self.assertTrue({local for local, _ in first} & {remote for _, remote in second}, (first, second))

    def test_an_interface_that_is_not_there(self):
        process = self.start("nowhere0", 2)
        said = process.stderr.read()
        self.assertEqual(process.wait(), 2, said)
        self.assertEqual(len(re.findall(r"/launch/network_interfaces: host \S+ has no interface nowhere0; it has .*\blo\b",
                                        said)), 1, said)


if __name__ == "__main__":
    unittest.main()
