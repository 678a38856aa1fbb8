# SPDX-License-Identifier: Apache-2.0
"""The program by itself: what it links, what works without LibTorch, and how it handles its standard streams."""
import json
import os
import pty
import resource
import shutil
import subprocess
import unittest

from program import PROGRAM, SOURCE, ProgramTest, small

HEAVY = ("torch", "c10", "mpi", "cuda", "nccl", "onednn", "dnnl", "mkl", "gomp", "llmtrain_runtime")


class Executable(ProgramTest):
    def alone(self):
        """A copy of the program in an otherwise empty folder."""
        copy = self.folder / "bin" / "llmtrain"
        copy.parent.mkdir()
        shutil.copy2(PROGRAM, copy)
        return copy

    def assert_light(self, libraries):
        self.assertIn("libc.so", libraries)
        for name in HEAVY:
            self.assertNotIn(f"lib{name}", libraries)

    def test_links_nothing_heavy(self):
        self.assert_light(subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout)

    def test_loads_nothing_heavy(self):
        self.write("recipe.json", small())
        for arguments in (["validate", "recipe.json"], ["schema"], ["--help"]):
            with self.subTest(arguments[0]):
                result = self.run_program(*arguments, environment={"LD_DEBUG": "libs"})
                self.assertEqual(result.returncode, 0)
                self.assert_light(result.stderr)

    def test_works_without_the_runtime(self):
        program = self.alone()
        self.write("recipe.json", small())
        result = self.run_program("validate", "recipe.json", program=program)
        self.assertRegex(result.stdout, "ok, .* parameters")
        schema = json.loads(self.run_program("schema", program=program).stdout)
        self.assertIn("model", schema["properties"])

    def test_says_what_to_install(self):
        program = self.alone()
        self.write("recipe.json", small({"data.train": [{"path": "a.txt"}]}))
        result = self.refused(66, ["libllmtrain_runtime.so", "scripts/setup", "LLMTRAIN_RUNTIME"], "run", "recipe.json",
                              program=program)
        self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_plans_without_a_measurement_and_without_a_word(self):
        """What would measure the processor is not there: no reason to warn at every plan."""
        self.write("recipe.json", small({"cluster.profile": "auto"}))
        result = self.run_program("plan", "recipe.json", "--json", program=self.alone(), environment={
            "LLMTRAIN_CACHE": str(self.folder / "cache"), "LLMTRAIN_PROFILES": str(SOURCE / "recipes" / "clusters")})
        self.assertEqual((json.loads(result.stdout)["profile"], result.stderr), ("cpu", ""))

    def test_invalid_runtime(self):
        program = self.alone()
        self.write("recipe.json", small({"data.train": [{"path": "a.txt"}]}))
        self.write("text.so", "no library")
        for file in ("text.so", "nowhere.so", "/usr/lib"):
            self.refused(66, [file], "run", "recipe.json", program=program, environment={"LLMTRAIN_RUNTIME": file})

    def test_library_without_an_entry(self):
        program = self.alone()
        self.write("recipe.json", small({"data.train": [{"path": "a.txt"}]}))
        library = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
        library = next(line.split()[2] for line in library.splitlines() if "libm.so" in line)
        self.refused(66, ["llmtrain_runtime"], "run", "recipe.json", program=program,
                     environment={"LLMTRAIN_RUNTIME": library})

    def test_doctor_without_the_runtime(self):
        result = self.run_program("doctor", "--json", program=self.alone())
        self.assertEqual(result.returncode, 1)
        answer = json.loads(result.stdout)
        self.assertFalse(answer["can_train"])
        missing = [finding for finding in answer["findings"] if finding["state"] == "missing"]
        self.assertEqual([finding["name"] for finding in missing], ["LibTorch"])
        self.assertIn("scripts/setup", missing[0]["fix"])


class StandardStreams(ProgramTest):
    def test_reader_that_goes_away(self):
        for reset in ("", "trap '' PIPE; "):
            shell = f"set -o pipefail; {reset}'{PROGRAM}' schema | head -1"
            result = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "{\n", ""))

    def test_closed_streams(self):
        self.write("recipe.json", small())
        for close in ("<&-", "2>&-", "<&- 2>&-"):
            shell = f"'{PROGRAM}' validate recipe.json {close}"
            result = subprocess.run(["bash", "-c", shell], cwd=self.folder, capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
        result = subprocess.run(["bash", "-c", f"'{PROGRAM}' schema >&-"], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 73)

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full on this system")
    def test_full_output(self):
        self.write("recipe.json", small())
        for arguments in (["schema"], ["validate", "recipe.json"], ["--help"], ["--version"], ["doctor"]):
            with self.subTest(arguments[0]), open("/dev/full", "wb") as full:
                result = self.run_program(*arguments, stdout=full)
                self.assertEqual(result.returncode, 73)
                self.assertIn("No space left", result.stderr)

    def test_file_size_limit(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

        with open(self.folder / "out", "wb") as out:
            result = self.run_program("schema", stdout=out, preexec_fn=limit)
        self.assertEqual(result.returncode, 73)

    def on_a_terminal(self, environment):
        parent, child = pty.openpty()
        try:
            self.run_program("validate", "nowhere.json", stderr=child, environment={"TERM": "xterm", **environment})
            return os.read(parent, 10000)
        finally:
            os.close(parent)
            os.close(child)

    def test_red_only_on_a_terminal(self):
        self.assertIn(b"\x1b[", self.on_a_terminal({}))
        self.assertNotIn(b"\x1b[", self.on_a_terminal({"NO_COLOR": "1"}))
        self.assertNotIn("\x1b[", self.run_program("validate", "nowhere.json").stderr)


class Validate(ProgramTest):
    def test_repository_recipes(self):
        recipes = sorted((SOURCE / "recipes").glob("*.json"))
        self.assertTrue(recipes)
        result = self.run_program("validate", *recipes)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), len(recipes))

    def test_gpt2_has_its_published_size(self):
        self.write("gpt2.json", small({"model.layers": 12, "model.hidden_size": 768, "model.heads": 12,
                                       "model.vocab_size": 50257, "model.max_sequence_length": 1024}))
        self.assertEqual(self.run_program("validate", "gpt2.json").stdout, "gpt2.json: ok, 124,439,808 parameters\n")

    def test_print_is_the_recipe(self):
        self.write("recipe.json", small())
        printed = self.run_program("validate", "recipe.json", "--print", "--set", "seed=7").stdout
        recipe = json.loads(printed)
        self.assertEqual((recipe["seed"], recipe["model"]["kv_heads"], recipe["log"]["directory"]), (7, 2, "runs/small"))
        self.write("printed.json", printed)
        again = self.run_program("validate", "printed.json", "--print").stdout
        self.assertEqual(again, printed)

    def test_schema_knows_the_recipe(self):
        schema = json.loads(self.run_program("schema").stdout)
        self.assertIn("draft-07", schema["$schema"])
        self.write("recipe.json", small())
        recipe = json.loads(self.run_program("validate", "recipe.json", "--print").stdout)
        self.assertLessEqual(set(recipe), set(schema["properties"]))


if __name__ == "__main__":
    unittest.main()
