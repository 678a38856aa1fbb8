# SPDX-License-Identifier: Apache-2.0
"""The program on the machine that it finds: what `doctor` says of it, and what it does on an unusual one."""
import json
import re
import subprocess
import unittest

from program import PROGRAM, TrainingTest


class Machine(TrainingTest):
    def test_doctor(self):
        answer = self.run_program("doctor", "--json")
        findings = {finding["name"]: finding for finding in json.loads(answer.stdout)["findings"]}
        self.assertEqual(answer.returncode, 0, answer.stdout)
        self.assertRegex(findings["LibTorch"]["text"], r"^\d+\.\d+")
        for name in ("llmtrain", "processor", "vectors", "cores", "memory", "disk", "MPI", "stack", "OMP_NUM_THREADS"):
            self.assertIn(name, findings)
        for finding in findings.values():
            self.assertIn(finding["state"], ("ok", "note", "missing"))
            self.assertEqual(finding["state"] == "ok", finding["fix"] == "")
        few = json.loads(self.run_program("doctor", "--json", environment={"OMP_NUM_THREADS": "none"}).stdout)
        self.assertIn("OMP_NUM_THREADS", [f["name"] for f in few["findings"] if f["state"] == "note"])

    def test_a_processor_without_bf16(self):
        """With another /proc/cpuinfo, in a namespace of mounts of its own."""
        self.write("cpuinfo", "processor\t: 0\nmodel name\t: Old\nflags\t\t: fpu avx2\n")
        apart = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                 'mount --bind cpuinfo /proc/cpuinfo && exec "$@"', "sh"]
        if subprocess.run([*apart, "true"], cwd=self.folder, capture_output=True, check=False).returncode != 0:
            self.skipTest("needs the right to mount in a namespace of its own")

        def said(*arguments):
            return self.run_program(*apart[1:], PROGRAM, *arguments, program=apart[0])

        findings = {finding["name"]: finding for finding in json.loads(said("doctor", "--json").stdout)["findings"]}
        self.assertEqual((findings["processor"]["text"], findings["vectors"]["text"]), ("Old", "AVX2"))
        self.assertEqual(findings["bf16"]["state"], "note")
        self.assertIn("no faster than fp32", findings["bf16"]["text"])
        self.assertRegex(findings["bf16"]["fix"], "fp32")
        bf16 = ("recipe.json", "--set", "precision.compute=bf16", "--set", "cluster.profile=cpu")
        for arguments in (("plan", *bf16), ("run", *bf16)):
            answer = said(*arguments)
            text = " ".join((answer.stdout + answer.stderr).split())
            self.assertIn("no instructions for bf16", text)
            self.assertIn('saves memory and traffic, but no time beside "fp32"', text)
        self.assertNotIn("no instructions for bf16", said("plan", "recipe.json").stdout)
        # No warning, which -q would show.
        self.assertNotIn("no instructions for bf16", said("run", *bf16, "-q", "--run-dir", "quiet").stderr)

    def test_waiting_threads_go_to_sleep(self):
        # What libgomp itself says that it read when it was loaded.
        def spin_count(**environment):
            answer = self.run_program("doctor", "--json", environment={"OMP_DISPLAY_ENV": "verbose", **environment})
            return re.search(r"GOMP_SPINCOUNT = '(\w+)'", answer.stderr)[1]

        self.assertEqual(spin_count(), "3000")
        self.assertEqual(spin_count(GOMP_SPINCOUNT="70"), "70")
        self.assertEqual(spin_count(OMP_WAIT_POLICY="passive"), "0")


if __name__ == "__main__":
    unittest.main()
