# SPDX-License-Identifier: Apache-2.0
"""The commands of README.md and docs run as written, in order, in a folder that has what they speak of.

Sizes are small: the recipes that the documents name hold tiny models here, so that training takes no time. What needs
minutes runs with LLMTRAIN_DOCUMENTS=all (scripts/test-documents)."""
import json
import os
import pathlib
import re
import subprocess
import unittest

from program import PROGRAM, SOURCE, TEXT, ProgramTest

# Commands that belong to other tests, by their first word or words.
ELSEWHERE = {
    "scripts/quickstart": "it is this build", "scripts/test": "it runs this test", "scripts/setup": "it is this build",
    "cmake --install": "install_test", "/opt/llmtrain/bin/llmtrain": "install_test",
    "cd build && cpack": "install_test", "apt-get install": "it needs an empty machine",
    "podman": "it needs podman", "apptainer": "it needs apptainer", "source <(llmtrain completion": "shell_test",
    "sbatch": "it needs Slurm", "srun": "it needs Slurm",
}
# Commands that start many processes or measure this machine for minutes.
SLOW = ("calibrate", "mpirun -n 16", "--ranks 8", "--ranks 4  ")
ALL = os.environ.get("LLMTRAIN_DOCUMENTS") == "all"

TINY = {"architecture": "llama", "layers": 4, "hidden_size": 16, "heads": 8, "vocab_size": 256,
        "max_sequence_length": 32}


def commands(document):
    """Those of its sh blocks and of its indented blocks, in order: without comments, and one per line."""
    text = (SOURCE / document).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```|((?:^    [a-z][^\n]*\n)+)", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for fenced, indented in blocks for line in (fenced or indented).splitlines()]
    return [re.sub(r"\s+# .*", "", line) + ("  " if "# starts" in line else "") for line in lines if line]


def documents():
    return ["README.md", *(f"docs/{path.name}" for path in sorted((SOURCE / "docs").glob("*.md")))]


def elsewhere(command):
    return any(command.startswith(word) for word in ELSEWHERE)


def slow(command):
    return any(word in command for word in SLOW)


def recipe(name, **sections):
    data = {key: [{"path": "book.txt"}] for key in ("train", "validation")}
    batch, training = {"global": 2, "micro": 2}, {"steps": 4}
    return {"name": name, "model": TINY, "data": data, "batch": batch, "training": training, **sections}


class Documents(ProgramTest):
    def setUp(self):
        super().setUp()
        for name in ("book.txt", "held-out.txt", "other.txt", "README.md", "docs/a.md", "core/a/b.cpp", "books/a.txt"):
            self.write(name, TEXT)
        (self.folder / "build").mkdir()
        (self.folder / "build/llmtrain").symlink_to(PROGRAM)
        (self.folder / "recipes").mkdir()
        for folder in ("papers", "models", "clusters", "programs"):
            (self.folder / "recipes" / folder).symlink_to(SOURCE / "recipes" / folder)
        quickstart = recipe("quickstart", checkpoint={"every": 50}, training={"steps": 100})
        quickstart["data"] = {key: [{"path": "../core/**"}] for key in ("train", "validation")}
        self.write("recipes/quickstart.json", quickstart)
        self.write("recipe.json", recipe("recipe", batch={"global": 16, "micro": 1}))
        self.write("other.json", recipe("other", batch={"global": 8, "micro": 2}))

    def run_command(self, command):
        """As a person's shell runs it, where the program is in the path."""
        path = f"{self.folder / 'build'}:{os.environ['PATH']}"
        environment = {"PATH": path, "HOME": str(self.folder), "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8",
                       # More ranks than cores, and root in a container.
                       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        result = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", command], cwd=self.folder, env=environment,
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, f"{command}\n{result.stdout}{result.stderr}")

    def run_document(self, document):
        ran = 0
        for command in commands(document):
            if elsewhere(command) or (slow(command) and not ALL):
                continue
            with self.subTest(command):
                self.run_command(command)
            ran += 1
        return ran

    def test_readme(self):
        self.run_command("llmtrain run recipes/quickstart.json")
        self.write("my-first.json", recipe("my-first", training={"steps": 510}))
        self.assertGreater(self.run_document("README.md"), 8)
        self.assertTrue((self.folder / "runs/my-first/report.html").is_file())
        self.assertTrue((self.folder / "out/model.safetensors").is_file())

    def test_the_recipe_of_the_readme(self):
        text = (SOURCE / "README.md").read_text(encoding="utf-8")
        self.write("my-first.json", re.search(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL).group(1))
        self.run_command("llmtrain validate my-first.json")

    def test_the_command_line(self):
        self.write("prompts.txt", "The \n")
        self.write("questions.jsonl", json.dumps({"context": "a", "choices": ["b", "c"], "answer": 0}) + "\n")
        self.write("corpus/a.jsonl", json.dumps({"text": "abc"}) + "\n")
        for name, steps in (("other", 100), ("first", 2), ("second", 2)):
            self.write(f"{name}.run.json", recipe(name, training={"steps": steps}))
            self.run_command(f"llmtrain run {name}.run.json")
        self.run_command("zstd -q --rm corpus/a.jsonl")
        self.assertGreater(self.run_document("docs/command-line.md"), 20)

    def test_the_other_documents(self):
        for document in documents():
            if document not in ("README.md", "docs/command-line.md"):
                self.run_document(document)

    def test_no_exception_is_out_of_date(self):
        written = [command for document in documents() for command in commands(document)]
        for word in ELSEWHERE:
            self.assertTrue(any(command.startswith(word) for command in written), word)
        for word in SLOW:
            self.assertTrue(any(word in command for command in written), word)


if __name__ == "__main__":
    unittest.main()
