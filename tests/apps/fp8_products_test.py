# SPDX-License-Identifier: Apache-2.0
"""precision.fp8_products "auto": a run multiplies in FP8 what its plan says, and goes on so wherever it is resumed."""
import json
import unittest

from program import SOURCE, TrainingTest

H100 = SOURCE / "recipes" / "clusters" / "h100-sxm-80gb.json"
OUTPUTS = "layers.*.attention.output.weight"


def cluster(flops):
    """A machine whose products and casts take the time of their FLOPs and bytes alone, of which there is 1 GB/s."""
    profile = json.loads(H100.read_text())
    profile["device"].update(memory_bandwidth=1e9, kernel_seconds=0,
                             peak_flops={"fp32": flops, "tf32": flops, "bf16": flops, "fp16": flops, "fp8": 2 * flops})
    profile["matrix"] = {"peak_fraction": 1, "inner_half": 0, "outer_half": 0, "fp8_peak_fraction": 1}
    profile["memory"] = {"fraction": 1, "half_bytes": 0}
    profile["host"]["operator_seconds"] = 0
    del profile["operators"]  # which were measured
    return profile


class Fp8ProductsTest(TrainingTest):
    def setUp(self):
        super().setUp()
        # On the first FP8 pays in all products but the smallest, that of attention's output; on the other in none.
        self.write("some.json", cluster(2.4e9))
        self.write("none.json", cluster(1e12))

    def recipe(self, changes=None):
        return super().recipe({
            "precision": {"fp8_level": "O1", "fp8_products": "auto"}, "training": {"steps": 4},
            "batch": {"global": 4, "micro": 2}, "cluster": {"device": "cpu", "profile": "./some.json"},
            "launch": {"backend": "local"}, "checkpoint": {"every": 2}})

    def run_in(self, folder, *settings, ranks=1):
        words = [word for setting in settings for word in ("--set", setting)]
        self.train("--run-dir", folder, "--ranks", str(ranks), *words)
        return self.numbers_of(folder)

    def numbers_of(self, folder):
        return [(row["loss"], row["grad_norm"]) for row in self.rows(folder)]

    def precision_of(self, folder):
        precision = json.loads((self.folder / folder / "recipe.json").read_text())["precision"]
        return precision["fp8_products"], precision["high_precision"]["parameters"]

    def out_of_fp8(self, *settings):
        words = [word for setting in settings for word in ("--set", setting)]
        result = self.run_program("plan", "recipe.json", "--json", *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [product["name"] for product in json.loads(result.stdout)["fp8_products"] if not product["fp8"]]

    def test_a_run_multiplies_in_fp8_what_its_plan_says(self):
        for settings, ranks in ((("precision.fp8_level=O0", "precision.fp8_scaling.method=delayed"), 1),
                                (("precision.fp8_level=O3", "memory.recompute=full", "parallel.zero_stage=1"), 2)):
            with self.subTest(settings=settings):
                name = settings[0][-2:]
                self.assertEqual(self.out_of_fp8(*settings, f"launch.ranks={ranks}"), ["attention.output"])
                followed = self.run_in(f"{name}-auto", *settings, ranks=ranks)
                self.assertEqual(self.precision_of(f"{name}-auto"), ("all", [OUTPUTS]))
                by_name = (*settings, "precision.fp8_products=all",
                           f'precision.high_precision.parameters=["{OUTPUTS}"]')
                self.assertEqual(followed, self.run_in(f"{name}-named", *by_name, ranks=ranks))
                whole = self.run_in(f"{name}-all", *settings, "precision.fp8_products=all", ranks=ranks)
                self.assertNotEqual(followed, whole)

    def test_where_no_product_gains_a_run_is_that_without_fp8(self):
        settings = ("cluster.profile=none.json", "precision.fp8_level=O3")
        self.assertEqual(len(self.out_of_fp8(*settings, "launch.ranks=1")), 4)
        self.assertEqual(self.run_in("followed", *settings), self.run_in("off", "precision.fp8_level=off"))

    def test_a_resumed_run_keeps_its_products(self):
        whole = self.run_in("whole")
        self.run_in("parted", "training.steps=2", "training.learning_rate.decay_steps=4")
        self.assertEqual(self.numbers_of("parted"), whole[:2])
        # On another cluster, on which a new run would choose otherwise.
        self.run_in("parted", "cluster.profile=none.json")
        self.assertEqual(self.numbers_of("parted"), whole)
        self.assertEqual(self.precision_of("parted"), ("all", [OUTPUTS]))
        self.refused(2, ["/precision/high_precision/parameters: [], in the run [\"" + OUTPUTS + "\"]; all steps"],
                     "run", "recipe.json", "-q", "--run-dir", "parted", "--set", "precision.fp8_products=all",
                     "--set", "training.steps=6")

    def test_a_run_says_which_products_are_in_fp8(self):
        result = self.run_program("run", "recipe.json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"fp8      O1, 3 of 4 products; in fp32 {OUTPUTS}", result.stderr)


if __name__ == "__main__":
    unittest.main()
