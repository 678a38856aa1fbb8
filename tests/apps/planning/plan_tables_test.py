# SPDX-License-Identifier: Apache-2.0
"""`llmtrain plan --sweep` and `llmtrain plan A B`: every figure is that of a plan of its own."""
import html.parser
import json
import unittest

from program import SOURCE, ProgramTest

GPT3 = str(SOURCE / "recipes" / "papers" / "gpt3-175b.json")
COLUMNS = 100


class TableTest(ProgramTest):
    def plan(self, *arguments):
        result = self.run_program("plan", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def report(self, *arguments):
        return json.loads(self.plan(*arguments, "--json"))

    def refused(self, part, *arguments):
        result = self.run_program("plan", *arguments)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertIn(part, result.stderr)

    def assert_narrow(self, text):
        for line in text.splitlines():
            self.assertLessEqual(len(line), COLUMNS, line)


class Target(TableTest):
    def test_the_smallest_number_of_devices_that_is_fast_enough(self):
        days = 40
        found = self.report(GPT3, "--target", f"{days}d")
        answer, plans = found["answer"], found["plans"]
        self.assertEqual(found["target_seconds"], days * 86400)
        self.assertEqual([plan["devices"] for plan in plans], sorted({plan["devices"] for plan in plans}))
        self.assertGreater(answer, 0)
        self.assertTrue(all(plan["expected_seconds"] > days * 86400 for plan in plans[:answer] if plan["fits"]))
        self.assertLessEqual(plans[answer]["expected_seconds"], days * 86400)
        # Its figures are those of its own plan.
        alone = self.report(GPT3, "--set", f"parallel.data={plans[answer]['data']}",
                            "--set", f"cluster.nodes={plans[answer]['nodes']}")
        self.assertEqual(alone["step"]["seconds"], plans[answer]["step_seconds"])
        self.assertEqual(alone["run"]["goodput"]["expected_seconds"], plans[answer]["expected_seconds"])
        text = self.plan(GPT3, "--target", f"{days}d")
        self.assert_narrow(text)
        self.assertIn(f"{plans[answer]['devices']} devices are enough: --set parallel.data=", text)

    def test_a_tight_answer_comes_with_one_that_has_room(self):
        llama = {"architecture": "llama", "layers": 32, "hidden_size": 4096, "heads": 32, "kv_heads": 8,
                 "ffn_hidden_size": 14336, "vocab_size": 128256, "max_sequence_length": 8192}
        recipe = self.write("recipe.json", json.dumps({
            "model": llama, "batch": {"global": 256, "micro": 1}, "training": {"steps": 1000},
            "precision": {"compute": "bf16"}, "parallel": {"zero_stage": 3},
            "cluster": {"profile": "h100-sxm-80gb", "devices_per_node": 2}}))
        found = self.report(recipe, "--target", "30d")
        verdicts = [plan["verdict"] for plan in found["plans"]]
        self.assertEqual((found["answer"], verdicts[:4]), (2, ["does not fit", "does not fit", "tight", "fits"]))
        text = " ".join(self.plan(recipe, "--target", "30d").split())
        self.assertIn("4 devices are enough: --set parallel.data=4 --set cluster.nodes=2, but tight: memory may not be."
                      " 8 devices have room: --set parallel.data=8 --set cluster.nodes=4", text)
        # Where the answer has room itself, nothing is said of it.
        self.assertNotIn("tight:", self.plan(recipe, "--target", "8h"))

    def test_a_time_that_nothing_reaches_and_one_that_is_none(self):
        self.assertIsNone(self.report(GPT3, "--target", "1h")["answer"])
        self.assertIn("No number of data ranks is enough", self.plan(GPT3, "--target", "1h"))
        for target in ("30", "d", "-3d", "0h", "nand", "3w", "1e999d"):
            with self.subTest(target):
                self.refused(f"--target {target}: must be a time", GPT3, f"--target={target}")


class Sweep(TableTest):
    AUTO = ("--set", "parallel.data=auto")
    AXES = (*AUTO, "--sweep", "parallel.tensor=4,8", "--sweep", "batch.micro=1,2,5")

    def test_each_plan_is_that_of_its_values(self):
        sweep = self.report(GPT3, *self.AXES)
        self.assertEqual(sweep["axes"], [{"key": "parallel.tensor", "values": [4, 8]},
                                         {"key": "batch.micro", "values": [1, 2, 5]}])
        self.assertEqual([list(plan["set"].values()) for plan in sweep["plans"]],
                         [[tensor, micro] for tensor in (4, 8) for micro in (1, 2, 5)])
        for plan in sweep["plans"]:
            flags = [word for key, value in plan["set"].items() for word in ("--set", f"{key}={value}")]
            with self.subTest(flags):
                if plan["refused"]:
                    self.refused(plan["refused"], GPT3, *self.AUTO, *flags)
                    continue
                alone = self.report(GPT3, *self.AUTO, *flags)
                for key in ("fits", "step", "throughput", "run", "mesh", "device_memory_bytes"):
                    self.assertEqual(plan[key], alone[key], key)
                self.assertEqual(plan["peak_bytes"], max(rank["peak_bytes"] for rank in alone["ranks"]))

    def test_best_and_refused(self):
        sweep = self.report(GPT3, *self.AXES)
        self.assertTrue(all(plan["refused"] for plan in sweep["plans"] if plan["set"]["batch.micro"] == 5))
        self.assertIn("/batch/", sweep["plans"][2]["refused"])
        fitting = [plan for plan in sweep["plans"] if plan.get("fits")]
        self.assertTrue(fitting)
        best = sweep["plans"][sweep["best"]]
        self.assertEqual(best["throughput"]["tokens_per_second_per_device"],
                         max(plan["throughput"]["tokens_per_second_per_device"] for plan in fitting))
        text = self.plan(GPT3, *self.AXES)
        self.assert_narrow(text)
        lines = text.splitlines()
        self.assertEqual(sum(line.startswith("*  ") for line in lines), 1)
        self.assertEqual(sum("refused: /batch/" in line for line in lines), 2)
        self.assertEqual(sum("does not fit" in line for line in lines), 4 - len(fitting))

    def test_data_ranks_are_what_other_degrees_leave(self):
        """A file that fixes them would refuse nearly all values of a degree."""
        alone = self.report(GPT3)["mesh"]
        axes = ("--sweep", f"parallel.tensor=2,{alone['tensor']}", "--sweep", "batch.micro=1,5000000")
        sweep = self.report(GPT3, *axes)
        self.assertTrue(sweep["derives_data"])
        self.assertEqual([plan["refused"] is None for plan in sweep["plans"]], [True, False, True, False])
        for plan in sweep["plans"][::2]:
            tensor = plan["set"]["parallel.tensor"]
            self.assertEqual(plan["mesh"]["world"], alone["world"])
            self.assertEqual(plan["mesh"]["data"], alone["data"] * alone["tensor"] // tensor)
        self.assertIn("data: what the other degrees leave", self.plan(GPT3, *axes))
        # What does not divide the ranks is refused as ever.
        self.assertIsNotNone(self.report(GPT3, "--sweep", "parallel.context=1,3")["plans"][1]["refused"])

    def test_a_degree_that_is_set_beside_the_axes(self):
        alone = self.report(GPT3)["mesh"]
        sweep = self.report(GPT3, "--set", "parallel.tensor=4", "--sweep", "parallel.pipeline=4,8")
        self.assertTrue(sweep["derives_data"])
        for plan, pipeline in zip(sweep["plans"], (4, 8)):
            self.assertEqual(plan["mesh"]["data"], alone["world"] // 4 // pipeline)

    def test_data_ranks_stay_where_they_are_asked_for(self):
        alone = self.report(GPT3)["mesh"]
        for flags in (("--set", f"parallel.data={alone['data']}"), ("--sweep", f"parallel.data={alone['data']}")):
            sweep = self.report(GPT3, *flags, "--sweep", f"parallel.tensor=2,{alone['tensor']}")
            with self.subTest(flags):
                self.assertFalse(sweep["derives_data"])
                self.assertEqual([plan["refused"] is None for plan in sweep["plans"]], [False, True])
        self.assertFalse(self.report(GPT3, "--sweep", "batch.micro=1,2")["derives_data"])

    def test_other_flags_hold_for_all(self):
        plans = self.report(GPT3, "--set", "memory.recompute=none", "--sweep", "batch.micro=1,2")["plans"]
        alone = self.report(GPT3, "--set", "memory.recompute=none", "--set", "batch.micro=2")
        self.assertEqual(plans[1]["step"], alone["step"])

    def test_plans_share_nothing_that_differs(self):
        """The next plan has the graph and the profile of the one before only where its own are the same."""
        dropping = '{"start":512,"multiple":64,"steps":95368}'
        for axis, values in {"model.layers": ("96", "192"), "training.freeze": ('["layers.0.*"]', "[]"),
                             "training.token_dropping": ("null", dropping), "cluster.profile": ("h200", "a100-80gb"),
                             "cluster.program": ("megatron-lm", "megatron-core")}.items():
            plans = self.report(GPT3, "--sweep", f"{axis}={','.join(values)}")["plans"]
            alone = [self.report(GPT3, "--set", f"{axis}={value}") for value in values]
            figures = [[report[key] for key in ("step", "run", "fits")] for report in alone]
            self.assertNotEqual(*figures, axis)
            self.assertEqual([[plan[key] for key in ("step", "run", "fits")] for plan in plans], figures, axis)

    def test_values_with_commas(self):
        changes = ("parallel.data=auto", "parallel.pipeline=2", "pipeline.loops=1", "pipeline.schedule=1f1b",
                   "model.layers=4")
        flags = [word for change in changes for word in ("--set", change)]
        plans = self.report(GPT3, *flags, "--sweep", "pipeline.balance=[1,3],[2,2],layers")["plans"]
        self.assertEqual([plan["set"]["pipeline.balance"] for plan in plans], [[1, 3], [2, 2], "layers"])
        self.assertEqual([plan["refused"] for plan in plans], [None] * 3)
        self.assertNotEqual(plans[0]["step"], plans[1]["step"])

    def test_malformed_axes(self):
        for axis, part in {"batch.micro": '"="', "=1,2": '"="', "batch.micro=1,,2": "empty", "batch.micro=": "empty",
                           "batch.micro=1,1": "twice", "batch.mikro=1,2": 'did you mean "micro"',
                           "batch.micro=a,b": "/batch/micro"}.items():
            with self.subTest(axis):
                self.refused(part, GPT3, "--sweep", axis)
        self.refused("already", GPT3, "--sweep", "batch.micro=1", "--sweep", "batch.micro=2")
        many = "seed=" + ",".join(map(str, range(100)))
        self.refused("4096", GPT3, "--sweep", many, "--sweep", many.replace("seed", "training.steps"))
        self.refused("excludes", GPT3, "--sweep", "batch.micro=1,2", "--search")

    def test_missing_file(self):
        self.assertEqual(self.run_program("plan", "none.json", "--sweep", "batch.micro=1,2").returncode, 66)

    def test_page(self):
        self.plan(GPT3, "--html", "sweep.html", *self.AXES)
        page = (self.folder / "sweep.html").read_text()
        parser = Nesting()
        parser.feed(page)
        self.assertEqual(parser.open, [])
        for foreign in ("http:", "https:", "src=", "href=", "@import"):
            self.assertNotIn(foreign, page)
        # A circle per plan in each of two charts, and a row per plan.
        self.assertEqual((parser.counts["circle"], parser.counts["tr"]), (8, 7))
        self.assertEqual(page.count("refused: /batch/"), 2)


class Nesting(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.counts = [], {}

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


class Comparison(TableTest):
    def setUp(self):
        super().setUp()
        recipe = json.loads((SOURCE / "recipes" / "papers" / "gpt3-175b.json").read_text())
        recipe["name"] = "other"
        recipe["batch"]["micro"] = 2
        recipe["memory"] = {**recipe.get("memory", {}), "recompute": "selective"}
        self.write("other.json", json.dumps(recipe))

    def test_plans_are_those_of_the_two(self):
        comparison = self.report(GPT3, "other.json")
        self.assertEqual(comparison["plans"][0]["step"], self.report(GPT3)["step"])
        self.assertEqual(comparison["plans"][1]["ranks"], self.report("other.json")["ranks"])

    def test_each_key_alone(self):
        differences = self.report(GPT3, "other.json")["differences"]
        self.assertEqual([entry["key"] for entry in differences], ["batch.micro", "memory.recompute"])
        for entry in differences:
            alone = self.report(GPT3, "--set", f"{entry['key']}={entry['second']}")
            self.assertEqual(entry["step_seconds"], alone["step"]["seconds"])
            self.assertEqual(entry["peak_bytes"], max(rank["peak_bytes"] for rank in alone["ranks"]))
            self.assertEqual((entry["fits"], entry["refused"]), (alone["fits"], None))

    def test_a_key_that_the_first_cannot_have_alone(self):
        recipe = json.loads((self.folder / "other.json").read_text())
        recipe["parallel"].update({"tensor": 4, "data": 16})
        recipe["training"]["steps"] = 5
        self.write("other.json", json.dumps(recipe))
        comparison = self.report(GPT3, "other.json")
        differences = {entry["key"]: entry for entry in comparison["differences"]}
        self.assertIn("/cluster/nodes", differences["parallel.tensor"]["refused"])
        self.assertNotIn("step_seconds", differences["parallel.tensor"])
        both = self.report(GPT3, "--set", "parallel.tensor=4", "--set", "parallel.data=16")
        self.assertEqual(comparison["refused_together"]["step_seconds"], both["step"]["seconds"])
        text = self.plan(GPT3, "other.json")
        self.assert_narrow(text)
        self.assertRegex(text, r"parallel\.tensor +8 +4 +refused: /cluster/nodes")
        self.assertRegex(text, r"training\.steps .* no change")
        self.assertRegex(text, r"memory\.recompute +full +selective +step [+-]")

    def test_the_same_recipe(self):
        self.assertEqual(self.report(GPT3, GPT3)["differences"], [])
        text = self.plan(GPT3, GPT3)
        self.assertIn("The recipes differ in no key.", text)
        self.assertNotRegex(text, r"[+−-][0-9.]+ %")

    def test_flags_hold_for_both(self):
        differences = self.report(GPT3, "other.json", "--set", "batch.micro=1")["differences"]
        self.assertEqual([entry["key"] for entry in differences], ["memory.recompute"])

    def test_pages_show_one_recipe(self):
        for flags in (("--html", "x.html"), ("--trace", "x.json"), ("--search",), ("--sweep", "batch.micro=1,2")):
            self.refused("excludes", GPT3, "other.json", *flags)

    def test_a_mistake_in_the_second(self):
        recipe = json.loads((self.folder / "other.json").read_text())
        recipe["batch"]["micro"] = 5
        self.write("other.json", json.dumps(recipe))
        self.refused("other.json: /batch/", GPT3, "other.json")


if __name__ == "__main__":
    unittest.main()
