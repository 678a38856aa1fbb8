# SPDX-License-Identifier: Apache-2.0
"""llmtrain recipes and llmtrain new."""
import json
import os
import unittest

import huggingface_folder as hf
from program import SOURCE, TEXT, ProgramTest

RECIPES = sorted([*(SOURCE / "recipes").glob("*.json"), *(SOURCE / "recipes/models").glob("*.json"),
                  *(SOURCE / "recipes/papers").glob("*.json")])


class Recipes(ProgramTest):
    def listed(self):
        return json.loads(self.run_program("recipes", "--json").stdout)

    def test_lists_every_recipe(self):
        self.assertEqual({each["name"] for each in self.listed()}, {file.stem for file in RECIPES})

    def test_figures_are_the_published_ones(self):
        recipes = {each["name"]: each for each in self.listed()}
        # arXiv 2407.21783: 8.03B parameters; Narayanan et al., arXiv 2104.04473: 175B parameters on 1,024 A100.
        self.assertEqual(recipes["llama3-8b"]["parameters"], 8030261248)
        # As transformers counts them on the meta device.
        counts = {"gpt-oss-20b": 20914757184, "gpt-oss-120b": 116829156672, "gemma3-27b": 27009346304,
                  "qwen3-next-80b-a3b": 79674391296, "nemotron-h-8b": 8100852736}
        self.assertEqual({name: recipes[name]["parameters"] for name in counts}, counts)
        self.assertEqual(recipes["gpt3-175b"]["devices"], 1024)
        self.assertAlmostEqual(recipes["gpt3-175b"]["parameters"] / 175e9, 1, delta=0.01)

    def test_table_has_a_line_for_each(self):
        lines = self.run_program("recipes").stdout.splitlines()
        for recipe in self.listed():
            row = [line for line in lines if line.startswith(recipe["name"] + " ")]
            self.assertEqual(len(row), 1, recipe["name"])
            self.assertLessEqual(len(row[0]), 120)


class New(ProgramTest):
    def make(self, *arguments):
        result = self.run_program("new", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def plan(self, file):
        result = self.run_program("plan", file, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_trains(self):
        self.write("texts/book.txt", TEXT * 20)
        (self.folder / "recipes").mkdir()
        explained = self.make("--model", "quickstart", "--data", "texts/book.txt", "--output", "recipes/mine.json",
                              "--steps", "2")
        # Each key that it wrote, with the help of the recipe's schema.
        self.assertRegex(explained, r"(?m)^training\.steps = 2 +Optimizer steps in the whole run\.$")
        recipe = json.loads((self.folder / "recipes/mine.json").read_text())
        self.assertEqual(recipe["data"]["train"], [{"path": "../texts/book.txt"}])
        self.assertIn("steps: Optimizer steps in the whole run.", recipe["training"]["description"])
        self.assertIn("peak: Maximum learning rate.", recipe["training"]["learning_rate"]["description"])
        result = self.run_program("run", "recipes/mine.json", "--set", "batch.global=2", "--set", "batch.micro=2")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_says_what_is_missing(self):
        said = self.run_program("new", "--model", "llama3-8b", "--machine", "h200", "--output", "mine.json").stderr
        self.assertIn('mine.json: data.tokenizer is "bytes", which use 256 of the model\'s 128256 ids', said)
        self.assertIn("mine.json: data.train is empty", said)
        # The batch grows with the devices up to that of the model's authors.
        self.assertIn("batch.global is 64; for more devices it would be larger (weak scaling), up to the 1024 of", said)
        said = self.run_program("new", "--model", "quickstart", "--output", "own.json").stderr
        self.assertNotIn("tokenizer", said)
        self.assertIn("own.json: batch.global is 8; more devices would share it (strong scaling)", said)

    def test_takes_other_numbers_of_devices(self):
        self.make("--model", "quickstart", "--machine", "cpu", "--output", "mine.json")
        plan = self.plan("mine.json")
        self.assertEqual((plan["recipe"]["parallel"]["data"], plan["mesh"]["data"]), ("auto", 1))
        self.refused(2, ["did you mean 32, or --set batch.micro=2?"], "plan", "mine.json", "--ranks", "4")
        other = self.run_program("plan", "mine.json", "--ranks", "4", "--set", "batch.micro=2", "--json")
        mesh = json.loads(other.stdout)["mesh"]
        self.assertEqual((mesh["data"], mesh["devices_per_node"]), (4, 4))

    def test_fits_the_machine(self):
        self.write("book.txt", TEXT)
        machines = [("llama3-8b", "h200", 8)]
        # Searches of many layouts: under a sanitizer they would take minutes and see no other code.
        if not os.environ.get("LLMTRAIN_SANITIZE"):
            machines += [("llama3-8b", "h100-sxm-80gb", 64), ("qwen3-30b-a3b", "h100-sxm-80gb", 64)]
        for model, machine, devices in machines:
            with self.subTest(f"{model} on {devices} {machine}"):
                output = f"{model}-{devices}-{machine}.json"
                self.make("--model", model, "--data", "book.txt", "--machine", machine, "--devices", str(devices),
                          "--output", output)
                self.assertEqual(self.run_program("validate", output).returncode, 0)
                plan = self.plan(output)
                self.assertTrue(plan["fits"])
                cluster = plan["recipe"]["cluster"]
                self.assertEqual(cluster["nodes"] * cluster["devices_per_node"], devices)
                self.assertEqual(plan["profile"], machine)

    def test_model_from_elsewhere(self):
        """Relative to its recipe's folder, not to the new one's."""
        hf.write(self.folder / "models" / "hf", hf.config_of())
        self.write("models/base.json", {"model": {"from": "hf:hf"}, "batch": {"global": 1, "micro": 1},
                                        "training": {"steps": 1}})
        (self.folder / "elsewhere").mkdir()
        self.make("--model", "models/base.json", "--output", "elsewhere/mine.json")
        recipe = json.loads((self.folder / "elsewhere/mine.json").read_text())
        self.assertEqual(recipe["model"]["hidden_size"], hf.config_of()["hidden_size"])
        self.assertEqual(recipe["training"]["init_from"], f"hf:{self.folder}/models/hf")
        self.assertEqual(self.run_program("validate", "elsewhere/mine.json").returncode, 0)

    def test_refuses(self):
        self.write("mine.json", "{}")
        self.write("comma.json", '{"name": "x",}')
        machine = ["--machine", "h100-sxm-80gb"]
        cases = {
            "no model": (2, ["--model"], []),
            "unknown model": (66, ["llama9"], ["--model", "llama9"]),
            "unknown machine": (2, ['did you mean "h200"?'], ["--model", "llama3-8b", "--machine", "h2000"]),
            "a model that is no JSON": (2, ["comma.json", "comma"], ["--model", "comma.json", "--output", "new.json"]),
            "no data": (66, ["--data", "nowhere.txt"], ["--model", "quickstart", "--data", "nowhere.txt"]),
            "output that exists": (73, ["mine.json", "--output"], ["--model", "quickstart", "--output", "mine.json"]),
            "devices that fill no nodes": (2, ["--devices", "did you mean 16?"],
                                           ["--model", "llama3-8b", *machine, "--devices", "12"]),
            "no machine for a large model": (2, ["as in --machine h100-sxm-80gb"], ["--model", "llama3-405b"]),
            "too few devices": (2, ["--devices", "none of", "more devices"],
                                ["--model", "llama3-405b", *machine, "--devices", "8"]),
        }
        for name, (code, fragments, arguments) in cases.items():
            with self.subTest(name):
                self.refused(code, fragments, "new", *arguments)


if __name__ == "__main__":
    unittest.main()
