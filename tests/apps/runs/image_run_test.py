# SPDX-License-Identifier: Apache-2.0
"""Models that learn to tell the shapes in drawn images, as a user trains, evaluates and exports them."""
import json
import random
import shutil
import subprocess
import sys
import unittest

from program import SOURCE, TrainingTest

SHAPES = ["bar", "cross", "disc", "pole"]
MODEL = {"architecture": "vit", "layers": 1, "hidden_size": 32, "heads": 4, "image": {"size": 16, "patch": 4},
         "init_std": 0.1}
NETWORK = {"architecture": "resnet", "image": {"size": 16},
           "resnet": {"stem_channels": 16, "groups": 4, "stages": [{"blocks": 1, "channels": 16},
                                                                   {"blocks": 1, "channels": 32}]}}
NETWORK_STEPS = {"training.steps": 60, "training.evaluate_every": 60}


class Images(TrainingTest):
    def draw(self, folder, images, seed):
        done = subprocess.run([sys.executable, SOURCE / "recipes/examples/draw-shapes", self.folder / folder, "--size", "16",
                               "--images", str(images), "--seed", str(seed)], check=False)
        self.assertEqual(done.returncode, 0)

    def prepare(self, seed=1, shuffled=False, images=None, model=None, **further):
        for folder in ("train", "held-out"):
            shutil.rmtree(self.folder / folder, ignore_errors=True)
        self.draw("train", 100, seed)
        self.draw("held-out", 20, 100 + seed)
        if shuffled:
            self.shuffle(random.Random(seed))
        self.write("recipe.json", self.recipe({
            "model": model or MODEL,
            "data": {"images": {"classes": SHAPES, **(images or {})}, "train": [{"path": "train"}],
                     "validation": [{"path": "held-out"}]},
            "batch": {"global": 32, "micro": 8}, "seed": seed, "training.steps": 120, "training.evaluate_every": 120,
            "training.learning_rate.peak": 0.005, **further}))

    def shuffle(self, draw):
        """Gives each training image the class of another one."""
        files = sorted((self.folder / "train").glob("*/*.png"))
        contents = [path.read_bytes() for path in files]
        draw.shuffle(contents)
        for path, content in zip(files, contents, strict=True):
            path.write_bytes(content)

    def figures(self, folder):
        return [row["figures"] for row in self.rows(folder) if "figures" in row][-1]

    def test_shapes_are_learned_and_those_of_shuffled_files_are_not(self):
        for seed in (1, 2, 3):
            with self.subTest(seed):
                self.prepare(seed, images={"augmentation": {"least_area": 0.8}})
                self.train("--run-dir", f"runs/{seed}")
                figures = self.figures(f"runs/{seed}")
                self.assertGreater(figures["accuracy"], 0.85)
                self.assertGreater(figures["macro_f1"], 0.85)
                self.prepare(seed, shuffled=True, images={"augmentation": {"least_area": 0.8}})
                self.train("--run-dir", f"runs/control-{seed}")
                self.assertLess(self.figures(f"runs/control-{seed}")["accuracy"], 0.5)

    def test_a_residual_network_learns_shapes_and_nothing_of_shuffled_files(self):
        for seed in (1, 2, 3):
            with self.subTest(seed):
                self.prepare(seed, shuffled=True, model=NETWORK, **NETWORK_STEPS)
                self.train("--run-dir", f"runs/control-{seed}")
                self.assertLess(self.figures(f"runs/control-{seed}")["accuracy"], 0.5)
                self.prepare(seed, model=NETWORK, **NETWORK_STEPS)
                self.train("--run-dir", f"runs/{seed}")
                self.assertGreater(self.figures(f"runs/{seed}")["accuracy"], 0.85)

    def test_what_a_residual_network_has_learned_is_evaluated_and_a_base(self):
        self.prepare(model=NETWORK, **NETWORK_STEPS)
        self.train("--run-dir", "runs/one")
        figures = self.figures("runs/one")
        result = self.run_program("eval", "runs/one", "--data", "held-out", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["figures"], figures)
        # Its own checkpoint is a base; transformers has no network with these norms.
        again = self.run_program("run", "recipe.json", "--run-dir", "runs/again", "--set", "training.steps=1", "--set",
                                 "training.evaluate_every=1", "--set", "training.learning_rate.peak=0", "--set",
                                 'training.init_from="runs/one"')
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("resnet, 2 blocks in 2 stages, 32 channels, images of 16 × 16", again.stderr + again.stdout)
        self.assertEqual(self.figures("runs/again"), figures)
        self.refused(2, ["/model/norm", "batch norms"], "checkpoint", "export", "runs/one", "theirs", "--to", "hf")
        for command in (("sample", "runs/one", "--prompt", "rain"), ("chat", "runs/one"), ("serve", "runs/one"),
                        ("plan", "recipe.json", "--inference", "batch=4")):
            self.refused(2, ["decoder"], *command)
        (self.folder / "theirs").mkdir()
        self.write("theirs/config.json", {"model_type": "resnet"})
        self.refused(65, ["model_type", "batch norms"], "run", "recipe.json", "--set", 'model.from="hf:theirs"')

    def test_layouts_learn_the_same(self):
        for name, model in (("vit", {**MODEL, "layers": 4}), ("resnet", NETWORK)):
            with self.subTest(name):
                self.check_layouts(model, f"runs/{name}")

    def check_layouts(self, model, runs):
        self.prepare(images={"augmentation": {}}, model=model,
                     **{"training.steps": 6, "training.evaluate_every": 6})
        self.train("--run-dir", f"{runs}/one")
        layouts = {"pipeline": (2, ["parallel.pipeline=2"]), "zero-0": (2, []), "zero-3": (2, ["parallel.zero_stage=3"]),
                   "all": (4, ["parallel.pipeline=2", "parallel.zero_stage=2"])}
        for name, (ranks, settings) in layouts.items():
            with self.subTest(name):
                pairs = [part for setting in settings for part in ("--set", setting)]
                self.train("--run-dir", f"{runs}/{name}", "--ranks", str(ranks), *pairs)
                for left, right in zip(self.rows(f"{runs}/one"), self.rows(f"{runs}/{name}"), strict=True):
                    loss = "loss" if "loss" in left else "validation_loss"
                    # Sums over two data ranks are joined in another order.
                    self.assertAlmostEqual(left[loss], right[loss], delta=1e-5 * left[loss])
                    self.assertEqual(left.get("figures"), right.get("figures"))

    def test_a_resumed_run_is_the_one_that_never_stopped(self):
        self.prepare(images={"augmentation": {}}, **{"training.steps": 6, "training.evaluate_every": 0,
                                                     "training.learning_rate.schedule": "constant"})
        self.train("--run-dir", "runs/whole")
        self.train("--run-dir", "runs/parts", "--set", "training.steps=3")
        self.train("--run-dir", "runs/parts", "--ranks", "2", "--set", "parallel.pipeline=1")
        losses = [[row["loss"] for row in self.rows(f"runs/{name}") if "loss" in row] for name in ("whole", "parts")]
        self.assertEqual(losses[0][:3], losses[1][:3])
        for left, right in zip(*losses, strict=True):
            self.assertAlmostEqual(left, right, delta=1e-5)

    def test_eval_export_and_another_base_say_what_the_run_says(self):
        self.prepare(images={"mean": {"red": 0.3}, "deviation": {"blue": 0.2}},
                     **{"training.steps": 10, "training.evaluate_every": 10})
        self.train("--run-dir", "runs/one")
        figures = self.figures("runs/one")
        for words in ((), ("--data", "held-out")):
            result = self.run_program("eval", "runs/one", *words, "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            evaluated = json.loads(result.stdout)
            evaluated = evaluated["sets"][0] if "sets" in evaluated else evaluated
            self.assertEqual(evaluated["figures"], figures)
            self.assertEqual(evaluated["tokens"], 80)
        exported = self.run_program("checkpoint", "export", "runs/one", "theirs", "--to", "hf")
        self.assertEqual(exported.returncode, 0, exported.stderr)
        processor = json.loads((self.folder / "theirs/preprocessor_config.json").read_text())
        self.assertEqual(processor["image_mean"], [0.3, 0.5, 0.5])
        self.assertEqual(processor["image_std"], [0.5, 0.5, 0.2])
        self.assertEqual(processor["size"], {"shortest_edge": 18})
        # The folder brings the model, its classes' head and its view of images.
        base = {**json.loads((self.folder / "recipe.json").read_text()), "model": {"from": "hf:theirs"}}
        base["data"]["images"] = {"classes": SHAPES}
        base["training"].update({"steps": 1, "evaluate_every": 1, "learning_rate": {"peak": 0}})
        self.write("base.json", base)
        again = self.run_program("run", "base.json", "--run-dir", "runs/again")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertNotIn("begin at random", again.stderr + again.stdout)
        self.assertIn("images of 16 × 16 in patches of 4 × 4", again.stderr + again.stdout)
        self.assertEqual(self.figures("runs/again"), figures)
        # Another order of classes is another head.
        other = self.run_program("run", "base.json", "--run-dir", "runs/other", "--set",
                                 f"data.images.classes={json.dumps(SHAPES[::-1])}")
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertIn(" head.classifier.weight, head.classifier.bias begin", other.stderr + other.stdout)
        self.assertNotIn("head.norm", other.stderr + other.stdout)

    def test_inspect_and_plan_know_images(self):
        self.prepare(**{"training.steps": 1, "training.evaluate_every": 0})
        shown = self.run_program("data", "inspect", "recipe.json", "--samples", "5").stdout
        self.assertIn("400 images", shown)
        self.assertEqual(len([line for line in shown.splitlines() if line.startswith("sample ")]), 5)
        described = json.loads(self.run_program("data", "inspect", "recipe.json", "--validation", "--json").stdout)
        self.assertEqual([sample["class"] for sample in described["samples"]], ["bar"] * 3)
        planned = self.run_program("plan", "recipe.json", "--json")
        self.assertEqual(planned.returncode, 0, planned.stderr)
        by_epochs = self.run_program("run", "recipe.json", "-q", "--run-dir", "runs/epoch", "--set",
                                     "training.epochs=1", "--set", "training.steps=null")
        self.assertEqual(by_epochs.returncode, 0, by_epochs.stderr)
        self.assertEqual(len(self.rows("runs/epoch")), -(-400 // 32))

    def test_what_does_not_fit_is_refused(self):
        self.prepare(**{"training.steps": 1, "training.evaluate_every": 0})
        for setting, code, words in (
            ('data.images.classes=["bar", "cross", "disc"]', 65, ['its folder "pole" is none of the 3 classes']),
            ('data.images.classes=["bar", "cross", "disc", "pole", "star"]', 65, ['has no folder "star"']),
            ("data.images=null", 2, ["/data/images", "this model reads images"]),
            ('data.train=[{"path": "nothing"}]', 66, ["nothing"]),
            ("model.architecture=\"bert\"", 2, ["/model/image", "reads tokens"]),
            ("parallel.tensor=2", 2, ["/parallel/tensor"])):
            self.refused(code, words, "run", "recipe.json", "--set", setting)
        self.train()
        for command in (("sample", "runs/small", "--prompt", "rain"), ("chat", "runs/small"),
                        ("plan", "recipe.json", "--inference", "batch=4")):
            self.refused(2, ["decoder"], *command)
        # It is met while the run reads, whose directory stays.
        (self.folder / "train/bar/00000.png").write_bytes(b"no image")
        broken = self.run_program("run", "recipe.json", "-q", "--run-dir", "runs/bad", "--set", "training.epochs=1",
                                  "--set", "training.steps=null")
        self.assertEqual(broken.returncode, 65, broken.stderr)
        self.assertIn("bar/00000.png", broken.stderr)


if __name__ == "__main__":
    unittest.main()
