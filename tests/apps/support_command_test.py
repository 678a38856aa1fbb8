# SPDX-License-Identifier: Apache-2.0
"""`llmtrain support` compared with what `plan` and `run` do with the same keys."""
import json
import re
import unittest

from program import SOURCE, ProgramTest


def keys_of(schema, path=""):
    """(path, the words that it accepts) of every key of a recipe's JSON Schema that is not a section."""
    below = path + "." if path else ""
    if "properties" in schema:
        for name, child in schema["properties"].items():
            yield from keys_of(child, below + name)
    elif "properties" in schema.get("items", {}):
        yield from keys_of(schema["items"], below + "0")
    else:
        kinds = [schema, *schema.get("oneOf", [])]
        words = [word for kind in kinds for word in kind.get("enum", [kind["const"]] if "const" in kind else [])]
        yield path, words + (["true", "false"] if schema.get("type") == "boolean" else [])


def is_within(key, section):
    return key == section or key.startswith(section + ".")


class Support(ProgramTest):
    report = None  # one for all tests: under a sanitizer it takes half a minute

    def setUp(self):
        super().setUp()
        if self.report is None:
            type(self).report = json.loads(self.run_program("support", "--json").stdout)
        self.write("recipe.json", self.report["recipe"])

    def answers(self, settings):
        """Whether plan accepts it, and whether run gets as far as reporting its missing data."""
        flags = [word for setting in settings for word in ("--set", setting)]
        planned = self.run_program("plan", "recipe.json", *flags)
        run = self.run_program("run", "recipe.json", *flags)
        self.assertEqual(run.returncode, 2, run.stderr)
        return planned, "can be planned but not run" not in run.stderr and "/data/train" in run.stderr

    def check(self, entry):
        planned, runs = self.answers(entry["set"])
        self.assertEqual(entry["plan"], planned.returncode == 0, planned.stderr)
        self.assertEqual(entry["run"], entry["plan"] and runs)
        self.assertEqual(entry["reason"] == "", entry["run"])
        if not entry["plan"]:
            self.assertIn(entry["reason"], planned.stderr)

    def test_every_key_is_as_reported(self):
        self.assertGreater(len(self.report["singles"]), 100)
        for entry in self.report["singles"]:
            with self.subTest(entry["set"]):
                self.check(entry)

    def test_every_pair_is_as_reported_and_does_not_follow_from_its_parts(self):
        alone = {(one["key"], one["value"]): one for one in self.report["singles"]}
        self.assertGreater(len(self.report["pairs"]), 60)
        for entry in self.report["pairs"]:
            with self.subTest(entry["set"]):
                self.check(entry)
                first, second = (alone[key, value] for key, value in zip(entry["keys"], entry["values"]))
                both_plan = first["plan"] and second["plan"]
                self.assertTrue(both_plan and not entry["plan"] or
                                entry["run"] != (first["run"] and second["run"]), entry)

    def test_no_key_is_forgotten(self):
        """Every key of the key table is tried, with all its words, or left out for a reason."""
        tried = {}
        for entry in self.report["singles"]:
            tried.setdefault(entry["key"], []).append(entry["value"])
        left_out = [entry["key"] for entry in self.report["left_out"]]
        keys = dict(keys_of(json.loads(self.run_program("schema").stdout)))
        self.assertIn("computation", keys["memory.recompute"])
        for key, words in keys.items():
            with self.subTest(key):
                self.assertNotEqual(key in tried, any(is_within(key, section) for section in left_out),
                                    "tried, or left out: add it to apps/llmtrain/support, or the values to try of it")
                written = {word if isinstance(word, str) else json.dumps(word) for word in words}
                self.assertLessEqual(written, set(tried.get(key, written)))
        self.assertLessEqual(set(tried), set(keys))
        self.assertEqual(len(left_out), len(set(left_out)))
        for entry in self.report["left_out"]:
            self.assertTrue(any(is_within(key, entry["key"]) for key in keys), entry)
            self.assertTrue(entry["reason"], entry)

    def test_known_answers(self):
        alone = {(one["key"], one["value"]): one for one in self.report["singles"]}
        self.assertTrue(all(one["plan"] for one in alone.values()), [one for one in alone.values() if not one["plan"]])
        self.assertTrue(alone["precision.compute", "bf16"]["run"])
        self.assertTrue(alone["precision.fp8_level", "O3"]["run"])
        self.assertTrue(alone["precision.compute", "fp16"]["run"])
        self.assertFalse(alone["precision.product_format", "nvfp4"]["run"])
        pairs = {frozenset(zip(one["keys"], one["values"])): one for one in self.report["pairs"]}
        for pair in ({("pipeline.schedule", "gpipe"), ("pipeline.loops", "2")},
                     {("model.lora.rank", "8"), ("precision.fp8_level", "O1")},
                     {("training.freeze", '["layers.0.*"]'), ("precision.fp8_level", "O1")},
                     {("training.optimizer.name", "muon"), ("precision.fp8_level", "O1")},
                     # What one sets goes before what the other needs.
                     {("launch.backend", "auto"), ("launch.link_delay_microseconds", "10")},
                     {("precision.fp8_level", "O0"), ("precision.high_precision.fallback_steps", "10")}):
            self.assertIn(frozenset(pair), pairs)
        # It follows from FP8 with adapters.
        self.assertNotIn(frozenset({("model.lora.rank", "8"), ("precision.fp8_scaling.method", "delayed")}), pairs)

    def test_kernels_are_those_of_the_sources(self):
        """Every pointer of the GPU's table and every header with loops of the processor's has its operator."""
        kernels = {one["operator"]: one for one in self.report["kernels"]}
        self.assertEqual(len(kernels), len(self.report["kernels"]))
        table = (SOURCE / "kernels/cuda/kernel_table.h").read_text(encoding="utf-8")
        on_gpus = {"swiglu" if name == "activation" else name for name in re.findall(r"const \w+\* (\w+);", table)}
        self.assertGreater(len(on_gpus), 10)
        self.assertEqual({name for name, one in kernels.items() if one["cuda"]}, on_gpus)
        listed = (SOURCE / "kernels/kernel_list.h").read_text(encoding="utf-8")
        loops = [path for path in sorted((SOURCE / "kernels/vector").rglob("*.h")) if "_for();" in path.read_text()]
        self.assertGreater(len(loops), 10)
        for path in loops:
            self.assertIn(f'#include "{path.relative_to(SOURCE)}"', listed)
            kind = re.search(r"^(\w+?)(?:<Element>)? \w+_for\(\);", path.read_text(), re.MULTILINE)[1]
            self.assertIn(f"listed<vector::{kind}", listed)
        self.assertEqual([kernels[name]["cpu"] for name in ("norm", "bias", "attention")], [True, False, True])
        self.assertEqual([kernels[name]["cuda"] for name in ("norm", "bias", "attention")], [True, True, False])

    def test_table_has_all_of_them(self):
        """Rows join the values of a key whose answers are the same, and a refusal has a line with its reason."""
        # Names that are longer than a line go on below their first column.
        table = re.sub(r"\n {13}(?=\S)", " ", self.run_program("support").stdout)
        rows = [line.split(maxsplit=2) for line in table.splitlines() if line.startswith(("  yes ", "  no "))]
        singles = sum(names.split(" with ")[0].count("|") + 1 for _, _, names in rows if " and " not in names)
        self.assertEqual(singles, len(self.report["singles"]))
        pairs = [names.split(" and ") for _, _, names in rows if " and " in names]
        self.assertEqual(sum((first.count("|") + 1) * (second.count("|") + 1) for first, second in pairs),
                         len(self.report["pairs"]))
        self.assertEqual(len(re.findall(r"^  (?:yes|no) +no  .*\n {15}/", table, re.MULTILINE)),
                         sum(run == "no" for _, run, _ in rows))
        self.assertIn('  yes   yes  memory.recompute=none|selective|computation|full|{"full": [0]}\n', table)
        kernels = re.findall(r"^  (own|reference) +(own|reference) +(\w+): ", table, re.MULTILINE)
        self.assertEqual([(cpu == "own", cuda == "own", name) for cpu, cuda, name in kernels],
                         [(one["cpu"], one["cuda"], one["operator"]) for one in self.report["kernels"]])
        self.assertRegex(table, r"  yes   no   model.lora.rank=8 and precision.fp8_level=O0\|O1\|O2\|O3\n +/model/lora: ")


if __name__ == "__main__":
    unittest.main()
