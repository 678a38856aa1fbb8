# SPDX-License-Identifier: Apache-2.0
"""The commands of README.md and docs run as written, in order, in a folder that has what they speak of.

Sizes are small: the recipes that the documents name hold tiny models here, so that training takes no time. On a clean
clone, with the recipes that it has and with the commands that need minutes, scripts/test-documents runs them."""
import json
import re
import unittest

import documents
from program import PROGRAM, SOURCE, TEXT, ProgramTest


class Documents(ProgramTest):
    def setUp(self):
        super().setUp()
        for name in ("README.md", "docs/a.md", "core/a/b.cpp"):
            self.write(name, TEXT)
        (self.folder / "build").mkdir()
        (self.folder / "build/llmtrain").symlink_to(PROGRAM)
        (self.folder / "recipes").mkdir()
        for folder in ("papers", "models", "clusters", "programs"):
            (self.folder / "recipes" / folder).symlink_to(SOURCE / "recipes" / folder)
        quickstart = documents.recipe("quickstart", checkpoint={"every": 50}, training={"steps": 100})
        quickstart["data"] = {key: [{"path": "../core/**"}] for key in ("train", "validation")}
        self.write("recipes/quickstart.json", quickstart)
        (self.folder / "recipes/examples").mkdir()
        for script in ("cipher-phrases", "draw-shapes"):
            (self.folder / "recipes/examples" / script).symlink_to(SOURCE / "recipes/examples" / script)
        self.bring_examples()
        documents.bring(self.folder)

    def bring_examples(self):
        """Those of recipes/examples, with models and runs so small that they take no time."""
        for name in ("apps/a.cpp", "parallel/run/a.cpp", "docs/b.md", "core/b.cpp"):
            self.write(name, TEXT * 20)
        small = {"layers": 2, "hidden_size": 32, "heads": 4, "max_sequence_length": 128}
        for file in (SOURCE / "recipes/examples").glob("*.json"):
            example = json.loads(file.read_text(encoding="utf-8"))
            training, model = example["training"], example["model"]
            training["learning_rate"] = {**training["learning_rate"], "warmup_steps": 1}
            training.update({"epochs": 1} if "epochs" in training else {"steps": 4})
            if "evaluate_every" in training:
                training.update({"evaluate_every": 2, "evaluate_batches": 1})
            if "decay_length" in training["learning_rate"]:
                training["learning_rate"]["decay_length"] = 2
            if "from" not in model:
                model.update({key: value for key, value in small.items() if key in model})
            if "freeze" in training:
                training["freeze"] = ["embedding.*", "layers.0.*"]
            if "moe" in model:
                model["moe"]["ffn_hidden_size"] = 16
            self.write(f"recipes/examples/{file.name}", example)

    def commands(self, document):
        return documents.commands((SOURCE / document).read_text(encoding="utf-8"))

    def run_command(self, command):
        result = documents.run(command, self.folder, OMP_NUM_THREADS="1")
        self.assertEqual(result.returncode, 0, f"{command}\n{result.stdout}")

    def run_document(self, document):
        for command in documents.bring_for(document, self.folder):
            self.run_command(command)
        chosen = [command for command in self.commands(document)
                  if not documents.elsewhere(command) and not documents.slow(command)]
        for command in chosen:
            with self.subTest(command):
                self.run_command(command)
        return len(chosen)

    def test_readme(self):
        self.assertGreater(self.run_document("README.md"), 8)
        self.assertTrue((self.folder / "runs/my-first/report.html").is_file())
        self.assertTrue((self.folder / "out/model.safetensors").is_file())

    def test_the_recipe_of_the_readme(self):
        text = (SOURCE / "README.md").read_text(encoding="utf-8")
        self.write("my-first.json", re.search(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL).group(1))
        self.run_command("llmtrain validate my-first.json")

    def test_the_command_line(self):
        self.assertGreater(self.run_document("docs/command-line.md"), 20)

    def test_the_other_documents(self):
        for document in documents.documents(SOURCE):
            if document not in ("README.md", "docs/command-line.md"):
                self.run_document(document)

    def test_no_exception_is_out_of_date(self):
        written = [command for document in documents.documents(SOURCE) for command in self.commands(document)]
        for word in documents.ELSEWHERE:
            self.assertTrue(any(command.startswith(word) for command in written), word)
        for word in documents.SLOW:
            self.assertTrue(any(word in command for command in written), word)


if __name__ == "__main__":
    unittest.main()
