# SPDX-License-Identifier: Apache-2.0
"""What cmake --install puts into a folder: it works from there, from any folder, without the source tree's recipes."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from program import PROGRAM, TEXT, ProgramTest, needs_nobody, small, without_rights

BUILD = PROGRAM.parent
EXAMPLE = pathlib.Path(__file__).with_name("planning_example")


def run(*command):
    result = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {result.returncode}:\n{result.stdout}")


class Installed(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.prefix = pathlib.Path(tempfile.mkdtemp(prefix="llmtrain-installed-"))
        cls.addClassCleanup(shutil.rmtree, cls.prefix)
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        # Users other than the one who installed it.
        cls.prefix.chmod(0o755)
        cls.program = cls.prefix / "bin" / "llmtrain"
        cls.data = cls.prefix / "share" / "llmtrain"

    def run_installed(self, *arguments, **options):
        result = self.run_program(*arguments, program=self.program, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def test_plans_a_bundled_recipe_from_an_empty_folder(self):
        plan = json.loads(self.run_installed("plan", "recipes/papers/gpt3-175b.json", "--json").stdout)
        self.assertEqual(plan["recipe"]["name"], "gpt3-175b")
        by_name = self.run_installed("plan", "gpt3-175b", "--json")
        self.assertEqual(json.loads(by_name.stdout), plan)

    def test_a_file_of_ones_own_comes_before_a_bundled_one(self):
        self.write("recipes/quickstart.json", small({"name": "mine"}))
        result = self.run_installed("validate", "recipes/quickstart.json", "--print")
        self.assertEqual(json.loads(result.stdout)["name"], "mine")

    def test_its_files_name_no_folder_of_the_build(self):
        """The program, its runtime and what the runtime links are found from where they lie."""
        for file in (self.program, *self.prefix.glob("lib/llmtrain/libllmtrain_[mor]*.so")):
            header = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
            self.assertNotIn(str(BUILD.parent), header, file)

    def test_its_parts_for_gpus_find_their_libraries(self):
        """LibTorch's part for CUDA stays where the build found it. What that needs itself is the driver's and NVIDIA's,
        which a machine without GPUs need not have."""
        part = self.prefix / "lib/llmtrain/libllmtrain_cuda.so"
        self.assertEqual(part.exists(), (BUILD / "libllmtrain_cuda.so").exists())
        if not part.exists():
            self.skipTest("this build has no parts for GPUs")
        found = subprocess.run(["ldd", part], capture_output=True, text=True, check=True).stdout
        for name in ("libtorch_cpu.so", "libtorch_cuda.so", "libc10_cuda.so", "libcudart.so"):
            self.assertRegex(found, rf"{name}[.0-9]* => /")

    @needs_nobody()
    def test_trains_as_an_ordinary_user(self):
        self.folder.chmod(0o777)
        self.write("text.txt", TEXT)
        self.write("recipe.json", small({"data.train": [{"path": "text.txt"}]}))
        result = self.run_installed("run", "recipe.json", preexec_fn=without_rights)
        self.assertIn("step 2/2", result.stderr)
        self.assertTrue((self.folder / "runs/small/checkpoints/latest").exists())

    def test_quickstart_has_its_text(self):
        result = self.run_installed("run", "quickstart", "--set", "training.steps=1", "--set", "training.evaluate_every=0",
                                    "--set", "training.learning_rate.warmup_steps=0")
        self.assertIn("step 1/1", result.stderr)

    def test_a_copy_under_another_prefix_works(self):
        moved = self.folder / "elsewhere"
        shutil.copytree(self.data, moved / "share" / "llmtrain")
        (moved / "bin").mkdir()
        shutil.copy2(self.program, moved / "bin")
        result = self.run_program("plan", "llama3-8b", program=moved / "bin" / "llmtrain")
        self.assertEqual(result.returncode, 0, result.stderr)

    @needs_nobody()
    def test_calibrated_profile_of_an_ordinary_user(self):
        """Who may not write beside the bundled profiles has one of his own, which "auto" plans read."""
        self.folder.chmod(0o777)
        self.write("recipe.json", small())
        profile = json.loads((self.data / "recipes/clusters/cpu.json").read_text())
        self.write("home/.config/llmtrain/local.json", {**profile, "name": "mine"})
        plan = self.run_installed("plan", "recipe.json", "--json", preexec_fn=without_rights,
                                  environment={"HOME": str(self.folder / "home")})
        self.assertEqual(json.loads(plan.stdout)["profile"], "mine")

    def test_a_program_apart_from_its_recipes_says_what_to_do(self):
        alone = self.folder / "alone" / "llmtrain"
        alone.parent.mkdir()
        shutil.copy2(self.program, alone)
        self.write("recipe.json", small())
        self.refused(66, ["recipes/clusters", "LLMTRAIN_PROFILES"], "plan", "recipe.json", program=alone)
        found = self.run_program("plan", "recipe.json", program=alone, environment={
            "LLMTRAIN_PROFILES": str(self.data / "recipes/clusters"),
            "LLMTRAIN_PROGRAMS": str(self.data / "recipes/programs")})
        self.assertEqual(found.returncode, 0, found.stderr)

    def test_another_program_links_the_planner(self):
        build = self.folder / "example"
        run("cmake", "-S", EXAMPLE, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        recipe = self.data / "recipes" / "papers" / "gpt3-175b.json"
        planned = subprocess.run([build / "planning_example", recipe, self.data / "recipes"], capture_output=True,
                                 text=True, check=True).stdout
        expected = json.loads(self.run_installed("plan", recipe, "--json").stdout)
        # What the command adds to a plan.
        expected["suggestions"] = []
        self.assertEqual(json.loads(planned), expected)


if __name__ == "__main__":
    unittest.main()
