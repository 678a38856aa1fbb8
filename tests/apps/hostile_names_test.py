# SPDX-License-Identifier: Apache-2.0
"""Names and texts that steer terminals or are markup: no message, result or page passes them on. That nothing on standard
output or standard error steers a terminal is checked of every run of the program (program.py)."""
import html.parser
import json
import pathlib
import unittest

from program import ProgramTest, small

# The screen, the title, a colour; in eight bits, as characters of UTF-8, and marks of writing direction.
STEERING = "\x1b[2J\x1b]0;title\x07\r\x7f\x0e\u009b31m\u202e\u2066\u200f\u061c"
MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
HOSTILE = "día" + STEERING + MARKUP


class Elements(html.parser.HTMLParser):
    """Counts the elements of a page."""

    def __init__(self, page):
        super().__init__()
        self.counts = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        name = tag + "".join(sorted(" " + attribute for attribute, _ in attrs))
        self.counts[name] = self.counts.get(name, 0) + 1


class HostileNames(ProgramTest):
    def test_files_and_arguments(self):
        name = "día" + STEERING
        self.refused(66, ["día"], "validate", name + ".json")
        self.refused(66, ["día"], "plan", name + ".json", "--sweep", "batch.micro=1,2")
        self.refused(66, ["día"], "compare", name, name)
        self.refused(66, ["día"], "data", "inspect", name + ".jsonl")
        self.refused(66, ["día"], "checkpoint", "inspect", name)
        self.refused(2, ["día"], "validate", "x.json", "--" + name)
        self.refused(2, ["día"], name)
        self.write("recipe.json", small())
        self.refused(2, ["día"], "validate", "recipe.json", "--set", f"model.{name}=1")
        self.refused(2, ["día"], "validate", "recipe.json", "--set", f"model.architecture={name}")
        self.assertIn("día", self.run_program("validate", self.write(name + ".json", small())).stdout)
        self.assertIn("día", self.run_program("slurm", name, "--set", "data.train=[]").stderr)

    def test_recipes(self):
        recipe = small()
        recipe["model"]["día" + HOSTILE] = HOSTILE
        recipe["cluster"] = {"currency": HOSTILE, "profile": HOSTILE}
        recipe["data"] = {"tokenizer": HOSTILE}
        self.write("recipe.json", json.dumps(recipe, ensure_ascii=False))
        self.refused(2, ["día"], "validate", "recipe.json")
        self.write("broken.json", '{"name": "día' + STEERING + '" ' + STEERING)
        self.refused(2, ["broken.json"], "validate", "broken.json")

    def test_a_profile_and_a_program(self):
        self.write("recipe.json", small())
        self.write("profile.json", json.dumps({"name": HOSTILE, HOSTILE: 1, "source": HOSTILE}, ensure_ascii=False))
        for key in ("profile", "program"):
            result = self.run_program("plan", "recipe.json", "--set", f"cluster.{key}=profile.json")
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("día", result.stderr)

    def test_data(self):
        self.write("data.jsonl", '{"día' + STEERING + '": 1}\n')
        self.write("broken.jsonl", STEERING + "\n")
        for file in ("data.jsonl", "broken.jsonl"):
            self.assertEqual(self.run_program("data", "tokenize", file, "--output", "out", "--tokenizer", "bytes",
                                              "--key", "día" + STEERING).returncode, 65 if "broken" in file else 65)
        shown = self.run_program("data", "inspect", self.write("text.txt", "día" + STEERING), "--tokenizer", "bytes")
        self.assertIn("día", shown.stdout)
        for section in ("model", "pre_tokenizer"):
            tokenizer = {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}
            tokenizer.setdefault(section, {})["type"] = HOSTILE
            self.write("tokenizer.json", json.dumps(tokenizer, ensure_ascii=False))
            self.refused(65, ["día"], "data", "inspect", "text.txt", "--tokenizer", "tokenizer.json")

    def pages(self, name, currency, folder):
        """A plan's page, and its text and JSON, of a recipe with that name and currency."""
        self.write("recipe.json", small({"name": name, "description": currency, "cluster.currency": currency,
                                         "cluster.price_per_device_hour": 2, "log.directory": "runs/x"}))
        page = self.folder / folder / "plan.html"
        page.parent.mkdir()
        text = self.run_program("plan", "recipe.json", "--html", page)
        self.assertEqual(text.returncode, 0, text.stderr)
        whole = json.loads(self.run_program("plan", "recipe.json", "--json").stdout)
        return page.read_text(), text.stdout, whole

    def test_a_currency_is_no_markup(self):
        harmless, _, _ = self.pages("a", "EUR", "first")
        currency = MARKUP + "\u202e\u009b"
        page, text, whole = self.pages("a", currency, "second")
        self.assertEqual(Elements(page).counts, Elements(harmless).counts)
        self.assertIn("&lt;img src=x", page)
        self.assertIn(MARKUP, text)
        self.assertEqual(whole["recipe"]["cluster"]["currency"], currency)
        priced = self.folder / "priced.html"
        self.write("plain.json", small({"name": "a", "description": "x", "log.directory": "runs/x"}))
        self.run_program("plan", "plain.json", "--price", "2 <script>alert(1)</script>", "--html", priced)
        self.assertEqual(Elements(priced.read_text()).counts, Elements(harmless).counts)


if __name__ == "__main__":
    unittest.main()
