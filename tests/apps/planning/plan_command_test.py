# SPDX-License-Identifier: Apache-2.0
"""`llmtrain plan` as users and scripts call it: summary, JSON, page and trace, warnings, and what it refuses."""
import json
import math
import pathlib
import re
import unittest

from program import PROGRAM, SOURCE, PlanTest, small

CONTRACT = {
    "recipe": dict, "fits": bool, "warnings": list,
    "parameters": {"total": int, "active": int, "embedding": int},
    "mesh": {key: int for key in ("world", "data", "tensor", "pipeline", "context", "expert")},
    "step": {key: float for key in ("seconds", "compute_seconds", "bubble_fraction", "exposed_communication_seconds")},
    "throughput": {key: float for key in (
        "tokens_per_second", "tokens_per_second_per_device", "samples_per_second", "model_tflops_per_device",
        "hardware_tflops_per_device", "mfu", "hfu")},
    "run": {"tokens": int, "seconds": float, "device_hours": float, "price": type(None)},
}
CATEGORIES = {"weights", "gradients", "master_weights", "optimizer", "activations", "buffers", "communication",
              "framework"}
PAPERS = sorted((SOURCE / "recipes" / "papers").glob("*.json"))
GPT3 = str(SOURCE / "recipes" / "papers" / "gpt3-175b.json")
LLAMA = str(SOURCE / "recipes" / "models" / "llama3-8b.json")


# What the models' cards or papers state, to the last parameter where they do.
PARAMETERS = {
    "gpt2": 124439808,
    "llama3-8b": 8030261248, "llama3-70b": 70553706496, "llama3-405b": 405853388800, "mistral-7b": 7241732096,
    "mixtral-8x7b": 46702792704, "mixtral-8x22b": 140620634112, "qwen3-8b": 8190735360, "qwen3-32b": 32762123264,
    "qwen3-30b-a3b": 30532122624, "qwen3-235b-a22b": 235093634560,
}


class PlanCommandTest(PlanTest):
    def plan_refused(self, parts, *arguments):
        result = self.run_program("plan", *arguments)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)


class Search(PlanCommandTest):
    def test_keys_of_a_layout_make_the_layout(self):
        """Put into the recipe, which cuts its experts finer, they give the plan that the search names."""
        recipe = small({"model.moe": {"experts": 4, "top_k": 2, "ffn_hidden_size": 32}, "parallel.expert_slices": 4,
                        "parallel.zero_stage": 3, "batch.global": 8, "batch.micro": 1, "cluster.nodes": 1,
                        "cluster.devices_per_node": 4, "cluster.profile": "a100-80gb"})
        self.write("recipe.json", recipe)
        front = self.report("recipe.json", "--search")["front"]
        self.assertTrue(front)
        for entry in front:
            for section, keys in entry["recipe"].items():
                recipe.setdefault(section, {}).update(keys)
            self.write("found.json", recipe)
            found = self.report("found.json")
            self.assertEqual(found["step"]["seconds"], entry["step_seconds"], entry["recipe"])


class PipelineOrder(PlanCommandTest):
    """Llama-3 8B on eight H100, as people write it who leave the order of a pipeline open."""

    def recipe(self, **parallel):
        source = json.loads((SOURCE / "recipes" / "models" / "llama3-8b.json").read_text())
        source.pop("pipeline")
        cluster = {"profile": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8, "device": "cuda"}
        self.write("recipe.json", {**source, "parallel": parallel, "cluster": cluster})
        return "recipe.json"

    def peak(self, report):
        return max(rank["peak_bytes"] for rank in report["ranks"])

    def test_zero_3_gathers_layers_and_bounds_activations(self):
        plan = self.report(self.recipe(pipeline=2, zero_stage=3))
        self.assertEqual(plan["recipe"]["pipeline"]["schedule"], "interleaved")
        self.assertEqual(plan["recipe"]["pipeline"]["loops"], 16)
        self.assertTrue(plan["fits"])
        whole = self.report("recipe.json", "--set", "pipeline.schedule=1f1b")
        self.assertLess(self.peak(plan), 0.8 * self.peak(whole))
        # The order that was the default.
        kept = self.report("recipe.json", "--set", "pipeline.schedule=breadth_first")
        self.assertGreater(self.peak(kept), 50 * self.peak(plan))
        self.assertLess(plan["step"]["seconds"], 1.01 * kept["step"]["seconds"])

    def test_suggestions_name_1f1b_where_breadth_first_keeps_too_much(self):
        plan = self.report(self.recipe(pipeline=4, zero_stage=1))
        self.assertFalse(plan["fits"])
        self.assertIn("pipeline.schedule=1f1b", [each["change"] for each in plan["suggestions"]])


class Contract(PlanCommandTest):
    def check_shape(self, value, shape, path):
        if isinstance(shape, dict):
            for key, inner in shape.items():
                self.check_shape(value[key], inner, f"{path}/{key}")
        elif shape is float:
            self.assertIsInstance(value, (int, float), path)
            self.assertTrue(math.isfinite(value), path)
        else:
            self.assertIsInstance(value, shape, path)

    def test_every_paper_recipe_has_every_field(self):
        for paper in PAPERS:
            with self.subTest(paper.name):
                report = self.report(str(paper))
                self.check_shape(report, CONTRACT, "")
                self.assertEqual(sum(rank["count"] for rank in report["ranks"]), report["mesh"]["world"])
                for rank in report["ranks"]:
                    self.assertEqual(set(rank["bytes"]), CATEGORIES)
                    self.assertLessEqual(rank["peak_bytes"], sum(rank["bytes"].values()) + 16)
                for entry in report["communication"]:
                    self.assertLessEqual(entry["exposed_seconds"], entry["seconds"] * 1.0001)

    def test_figures_agree_with_each_other(self):
        report = self.report(GPT3)
        recipe, step = report["recipe"], report["step"]["seconds"]
        tokens = recipe["batch"]["global"] * recipe["batch"]["sequence_length"]
        self.assertAlmostEqual(report["throughput"]["tokens_per_second"], tokens / step, delta=1e-6 * tokens / step)
        self.assertEqual(report["run"]["tokens"], tokens * recipe["training"]["steps"])
        model = recipe["model"]
        layers, hidden, length = model["layers"], model["hidden_size"], recipe["batch"]["sequence_length"]
        flops = 72 * recipe["batch"]["global"] * layers * length * hidden**2 * (
            1 + length / (6 * hidden) + model["vocab_size"] / (12 * layers * hidden))
        self.assertAlmostEqual(report["throughput"]["model_tflops_per_device"],
                               flops / step / report["mesh"]["world"] / 1e12, delta=0.01)

    def test_price_of_the_profile(self):
        profile = json.loads((SOURCE / "recipes" / "clusters" / "a100-80gb.json").read_text())
        profile["price_per_device_hour"] = 1.5
        self.write("priced.json", json.dumps(profile))
        run = self.report(GPT3, "--set", "cluster.profile=./priced.json")["run"]
        self.assertAlmostEqual(run["price"], 1.5 * run["device_hours"], delta=1e-6 * run["price"])
        self.assertRegex(self.plan(GPT3, "--set", "cluster.profile=./priced.json").stdout, "device-hours for [0-9]")

    def test_known_models_have_their_parameters_and_fit(self):
        for path in sorted((SOURCE / "recipes" / "models").glob("*.json")):
            with self.subTest(path.stem):
                report = self.report(str(path))
                self.assertEqual(report["recipe"]["name"], path.stem)
                self.assertTrue(report["fits"], report["warnings"])
                if path.stem in PARAMETERS:
                    self.assertEqual(report["parameters"]["total"], PARAMETERS[path.stem])
        # 400 TFLOP/s per GPU (arXiv 2407.21783, table 4).
        llama = self.report(str(SOURCE / "recipes" / "models" / "llama3-405b.json"))
        self.assertAlmostEqual(llama["throughput"]["model_tflops_per_device"], 400, delta=0.12 * 400)

    def test_goodput_and_energy(self):
        arguments = (GPT3, "--set", "checkpoint.every=50")
        report = self.report(*arguments)
        run, step = report["run"], report["step"]["seconds"]
        # An eighth of the 6.5 kW of a DGX A100.
        self.assertAlmostEqual(run["energy_kilowatt_hours"], 0.812 * run["device_hours"], delta=1)
        goodput = run["goodput"]
        self.assertEqual(goodput["checkpoint_every"], 50)
        self.assertAlmostEqual(goodput["failures"], run["device_hours"] / 50700, delta=1e-6)
        # To first order a failure loses half an interval and ten minutes.
        lost = goodput["failures"] * (25 * step + 600) + run["seconds"] / (50 * step) * goodput["checkpoint_seconds"]
        self.assertAlmostEqual(goodput["expected_seconds"], run["seconds"] + lost, delta=0.02 * lost)
        text = self.plan(*arguments).stdout
        self.assertRegex(text, r"Goodput [0-9.]+ % with [0-9]+ failures and a checkpoint of .* every 50 steps \(best: ")
        self.assertIn(" kWh", text)

    def test_ranks_that_share_a_processor(self):
        arguments = ("recipe.json", "--set", "cluster.profile=cpu")
        self.write("recipe.json", json.dumps(small({"model.hidden_size": 1024, "batch.global": 64, "batch.micro": 16})))
        one, shared = (self.report(*arguments, "--ranks", ranks) for ranks in ("1", "2"))
        spread = self.report(*arguments, "--ranks", "2", "--set", "cluster.nodes=2")
        self.assertGreater(shared["step"]["compute_seconds"], 0.9 * one["step"]["compute_seconds"])
        self.assertLess(spread["step"]["compute_seconds"], 0.7 * one["step"]["compute_seconds"])
        self.assertAlmostEqual(shared["run"]["device_hours"], shared["run"]["seconds"] / 3600)
        self.assertAlmostEqual(spread["run"]["device_hours"], 2 * spread["run"]["seconds"] / 3600)
        self.assertTrue(any("2 ranks share a device" in warning for warning in shared["warnings"]))
        self.assertFalse(any("share a device" in warning for warning in spread["warnings"]))

    def test_same_in_run(self):
        self.assertEqual(self.plan(GPT3).stdout, self.run_program("run", GPT3, "--dry-run").stdout)


class Files(PlanCommandTest):
    def test_page_and_trace(self):
        self.plan(GPT3, "--html", "plan.html", "--trace", "plan.json")
        page = (self.folder / "plan.html").read_text()
        self.assertIn("<svg" if "<svg" in page else "<canvas", page)
        for foreign in ('src="http', 'href="http', "url(http", "@import"):
            self.assertNotIn(foreign, page)
        trace = json.loads((self.folder / "plan.json").read_text())
        events = trace["traceEvents"] if isinstance(trace, dict) else trace
        self.assertGreater(len(events), 1000)

    def test_folder_that_is_not_there(self):
        for flag in ("--html", "--trace"):
            result = self.run_program("plan", GPT3, flag, "nowhere/plan")
            self.assertEqual(result.returncode, 73, result.stderr)


class Bad(PlanCommandTest):
    def test_layouts(self):
        for changes, parts in {
            ("parallel.tensor=7",): ["/parallel/tensor"],
            ("parallel.data=7",): ["7"],
            ("pipeline.loops=13",): ["96 layers", "208 stages"],
            ("parallel.pipeline=5",): ["/batch/global", "1536 is not a multiple of 5"],
            ("cluster.profile=a100-80bg",): ["a100-80gb"],
            ("cluster.profile=./none.json",): [],
            ("cluster.program=megatroncore",): ["/cluster/program", "megatron-core"],
            ("cluster.program=./none.json",): [],
            ("pipeline.schedule=gpipe",): ["/pipeline/loops"],
        }.items():
            with self.subTest(changes):
                arguments = [word for change in changes for word in ("--set", change)]
                result = self.run_program("plan", GPT3, *arguments)
                self.assertIn(result.returncode, (2, 66), result.stderr)
                self.assertNotIn("internal", result.stderr)
                for part in parts:
                    self.assertIn(part, result.stderr)

    def test_a_processor_has_the_memory_of_its_machine(self):
        self.write("recipe.json", small())
        total = 1024 * int(re.search(r"MemTotal: *(\d+)", pathlib.Path("/proc/meminfo").read_text()).group(1))
        here = self.report("recipe.json")["device_memory_bytes"]
        self.assertTrue(0 < here <= total, (here, total))
        self.assertEqual(self.report("recipe.json", "--set", "cluster.profile=cpu")["device_memory_bytes"], 0)
        large = ("--set", "model.hidden_size=65536", "--set", "model.layers=1000")
        self.assertFalse(self.report("recipe.json", *large)["fits"])

    def test_profiles(self):
        for text in ("", "{}", "[]", '{"name": 3}', '{"device": {"memory_bytes": -1}}', '{"nodes": 1}'):
            self.write("bad.json", text)
            with self.subTest(text):
                self.plan_refused(["bad.json"], GPT3, "--set", "cluster.profile=./bad.json")


class Programs(PlanCommandTest):
    H100 = ("--set", "cluster.profile=h100-sxm-80gb", "--set", "parallel.sequence=true")

    def test_flag_wins_over_the_recipe(self):
        llmtrain = (*self.H100, "--program", "llmtrain")
        own = self.report(GPT3, *llmtrain)
        self.assertEqual(own["recipe"]["cluster"]["program"], "llmtrain")
        other = self.report(GPT3, *self.H100, "--set", "cluster.program=zero-bubble", "--program", "megatron-core")
        self.assertEqual(other["recipe"]["cluster"]["program"], "megatron-core")
        summary = self.plan(GPT3, *self.H100, "--program", "megatron-core").stdout
        self.assertIn("run by megatron-core", " ".join(summary.split()))
        self.assertNotIn("run by", self.plan(GPT3, *llmtrain).stdout)
        # Its tensor-parallel collectives run beside the products.
        self.assertLess(other["step"]["tensor_communication_seconds"], own["step"]["tensor_communication_seconds"])

    def test_own_file(self):
        self.write("mine.json", '{"name": "mine", "traffic": {"elementwise": 1.6}, "sources": {"traffic": "here"}}')
        slower = self.report(GPT3, "--program", "./mine.json")["step"]["compute_seconds"]
        self.assertGreater(slower, self.report(GPT3)["step"]["compute_seconds"])
        self.write("mine.json", '{"name": "mine", "traffic": {"elementwise": 1.6}}')
        self.plan_refused(["mine.json", "/traffic"], GPT3, "--program", "./mine.json")


class Price(PlanCommandTest):
    def test_flag_and_keys_give_one_price(self):
        plain = self.report(GPT3)["run"]
        self.assertEqual((plain["price"], plain["currency"]), (None, None))
        run = self.report(GPT3, "--price", "2.5 EUR")["run"]
        self.assertAlmostEqual(run["price"], 2.5 * run["device_hours"], places=3)
        self.assertEqual(run["currency"], "EUR")
        keys = ("--set", "cluster.price_per_device_hour=2.5", "--set", "cluster.currency=EUR")
        self.assertEqual(self.report(GPT3, *keys)["run"], run)
        self.assertIsNone(self.report(GPT3, "--price", "4")["run"]["currency"])

    def test_people_see_it_with_its_currency(self):
        self.assertRegex(self.plan(GPT3, "--price", "2.5 EUR").stdout, r"device-hours\s+for\s+[\d.]+[kM]\s+EUR")
        table = self.plan(GPT3, "--target", "90d", "--price", "2.5 EUR").stdout
        self.assertRegex(table, r"device-hours +price +memory")
        self.assertRegex(table, r"[\d.]+[kM] EUR ")
        self.assertNotIn("price", self.plan(GPT3, "--target", "90d").stdout)
        self.assertIn("price in EUR", self.plan(GPT3, GPT3, "--price", "2.5 EUR", "--set", "batch.global=1024").stdout)

    def test_the_currency_may_come_first(self):
        run = self.report(GPT3, "--price", "2.5 EUR")["run"]
        for price in ("EUR 2.5", "2.5EUR", " EUR  2.5 "):
            with self.subTest(price):
                self.assertEqual(self.report(GPT3, "--price", price)["run"], run)
        for price in ("cheap", "", "EUR 2.5 or so"):
            with self.subTest(price):
                self.plan_refused([f"--price {price}: must be the price", '"2.5 EUR"'], GPT3, "--price", price)
        self.plan_refused(["/cluster/price_per_device_hour", "a number from 0"], GPT3, "--price", "-2")


class Warnings(PlanCommandTest):
    def warned(self, part, *changes):
        report = self.report(GPT3, *[word for change in changes for word in ("--set", change)])
        self.assertTrue(any(part in warning for warning in report["warnings"]), report["warnings"])
        return report

    def test_does_not_fit(self):
        report = self.warned("does not fit", "memory.recompute=none", "batch.micro=4")
        self.assertFalse(report["fits"])

    def test_too_few_devices(self):
        """No layout fits; what is named instead does, and has room."""
        few = ["--set", "parallel.data=1", "--set", "parallel.tensor=1", "--set", "cluster.nodes=1", "--ranks", "1"]
        report = self.report(LLAMA, *few)
        self.assertFalse(report["fits"])
        # The host may have what the device has no room for.
        self.assertTrue(report["suggestions"])
        for suggestion in report["suggestions"]:
            self.assertIn("memory.offload.", suggestion["change"])
            self.assertTrue(self.report(LLAMA, *few, "--set", *suggestion["change"].split())["fits"], suggestion)
        found = re.search(r"(\d+) (?:are|have room): (--set .*)$", report["warnings"][-1])
        self.assertTrue(found, report["warnings"])
        enough = self.report(LLAMA, *few[:-2], *found[2].split())
        self.assertEqual((enough["fits"], enough["mesh"]["world"]), (True, int(found[1])))
        self.assertNotIn("tight", self.plan(LLAMA, *few[:-2], *found[2].split()).stdout)

    def test_a_device_that_the_profile_does_not_have(self):
        report = self.warned('cluster.device: "cpu", but the profile', "cluster.device=cpu")
        self.assertIn("--set cluster.profile=cpu", report["warnings"][-1])
        self.warned("name a GPU's, as in --set cluster.profile=h100-sxm-80gb", "cluster.device=cuda",
                    "cluster.profile=cpu")

    def test_what_cannot_run(self):
        """A plan of llmtrain says what run refuses, in run's words; of other programs it knows nothing."""
        adapters = ["model.lora={}", "precision.fp8_level=O1"]
        self.write("recipe.json", small({"data": {"train": [{"path": "text.txt"}]}}))
        refused = self.run_program("run", "recipe.json", *(word for change in adapters for word in ("--set", change)))
        self.assertEqual(refused.returncode, 2)
        reason = "/model/lora: adapters beside FP8 products can be planned but not run yet"
        self.assertIn(reason, refused.stderr)
        changes = ["cluster.profile=h100-sxm-80gb", "cluster.nodes=1", "parallel.data=4", *adapters]
        words = [word for change in changes for word in ("--set", change)]
        self.assertNotIn(reason, "".join(self.report(LLAMA, *words)["warnings"]))
        self.assertIn(reason, "".join(self.report(LLAMA, *words, "--program", "llmtrain")["warnings"]))
        search = self.plan(LLAMA, *words, "--program", "llmtrain", "--search", "--output", "best.json")
        self.assertIn(reason, search.stderr)

    def test_few_micro_batches(self):
        self.warned("micro-batches", "batch.global=64", "pipeline.schedule=1f1b", "pipeline.loops=1")

    def test_fp8_without_fp8_units(self):
        self.warned("has no FP8 matrix products", "precision.fp8_level=O1", "precision.compute=bf16")

    def test_fp8_that_does_not_pay(self):
        self.warned("FP8 does not pay", "precision.fp8_level=O1", "precision.compute=bf16")
        report = self.report(str(SOURCE / "recipes" / "papers" / "fp8-lm-175b.json"))
        self.assertEqual(report["warnings"], [])


if __name__ == "__main__":
    unittest.main()
