# SPDX-License-Identifier: Apache-2.0
"""The documents of the recipe agree with the program: docs/recipe.md has its key table, docs/other-programs.md the names
that it knows, and every recipe that a page shows is a valid one."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import documents

ROOT = pathlib.Path(__file__).resolve().parents[2]


def llmtrain(*arguments, check=True):
    return subprocess.run([os.environ["LLMTRAIN_PROGRAM"], *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=check).stdout


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def validate(recipe, check):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "recipe.json"
        path.write_text(json.dumps(recipe))
        return llmtrain("validate", path, check=check)


def merged(under, over):
    if not isinstance(under, dict) or not isinstance(over, dict):
        return over
    return under | {key: merged(under.get(key), value) for key, value in over.items()}


def names_elsewhere():
    """(key, name) of each row of docs/other-programs.md; names with a dot are of files that are not like a recipe."""
    for line in text_of("docs/other-programs.md").splitlines():
        cells = [re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[1:-1]]
        if len(cells) > 2 and cells[0]:
            for name in sum(cells[1:], []):
                if "." not in name:
                    yield cells[0][0], name.removeprefix("--").replace("-", "_")


class Reference(unittest.TestCase):
    def test_the_documented_keys_are_the_programs(self):
        table = llmtrain("schema", "--markdown")
        self.assertIn("`training.steps` |", table)
        self.assertTrue(
            text_of("docs/recipe.md").endswith(table),
            "docs/recipe.md is out of date: replace its tables with what `llmtrain schema --markdown` prints",
        )

    def test_links_lead_to_keys_and_headings(self):
        for page in documents.documents(ROOT):
            for target, anchor in re.findall(r"\]\(([\w./-]*)#([^)]+)\)", text_of(page)):
                path = (ROOT / page).parent / target if target else ROOT / page
                text = path.read_text(encoding="utf-8")
                headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
                # As GitHub makes them: without punctuation, in lower case, with hyphens for spaces.
                known = [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings]
                self.assertIn(anchor, known + re.findall(r'<a id="([^"]+)">', text), f"{page} links to {target}#{anchor}")

    def test_names_of_other_programs_are_understood(self):
        rows = list(names_elsewhere())
        self.assertGreater(len(rows), 120)
        keys = set(re.findall(r'<a id="([^"]+)">', text_of("docs/recipe.md")))
        said = validate({name: 1 for _, name in rows}, check=False)
        hints = {name: hint.replace("/", ".") for name, hint in
                 re.findall(r"/(\w+): is not a recipe key.*did you mean /([\w/]+)\?", said)}
        for key, name in rows:
            with self.subTest(name):
                self.assertIn(key, keys)
                hint = hints.get(name, name)
                self.assertTrue(key == hint or key.startswith(hint + "."), f"{name} is {key}, but the hint is {hint}")

    def test_shown_recipes_are_valid(self):
        base = documents.recipe("shown", batch={"global": 16, "micro": 1}, training={"steps": 2000})
        base["model"] = base["model"] | {"vocab_size": 65536, "max_sequence_length": 128}
        shown = 0
        for page in documents.documents(ROOT):
            for block in re.findall(r"^```json\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL):
                part = json.loads(block)
                if set(part) <= {"name", "model", "data", "batch", "training", "precision", "memory", "parallel", "checkpoint"}:
                    shown += 1
                    # The reader's own folder is not here, and the model of `base` stands in for it.
                    part.get("model", {}).pop("from", None)
                    with self.subTest(f"{page}: {block}"):
                        validate(merged(base, part), check=True)
        self.assertGreater(shown, 12)


unittest.main()
