# SPDX-License-Identifier: Apache-2.0
"""A model that was trained on files of images and exported tells of them in transformers, with the image processor of
the same folder, what evaluation says here."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy
    import torch
    import transformers
    from PIL import Image
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

CLASSES = ["dark", "light"]
# What is left of the longer side beside the middle is even, as an odd pixel is on either side of it.
SIZES = ((16, 16), (18, 24), (18, 36), (48, 36))  # height, width
VIEWS = {"middle": {"fit": "middle", "mean": {"red": 0.3}, "deviation": {"blue": 0.2}},
         "larger": {"fit": "middle", "shorter_side": 30},
         "stretch": {"fit": "stretch", "mean": {"green": 0.6}}}


class ImageFiles(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        draw = numpy.random.default_rng(3)
        self.files = []
        for label, name in enumerate(CLASSES):
            (self.folder / "images" / name).mkdir(parents=True)
            for number in range(8):
                size = (*SIZES[number % len(SIZES)], 3)
                path = self.folder / "images" / name / f"{number}.png"
                Image.fromarray(draw.integers(90 * label, 150 + 100 * label, size, dtype=numpy.uint8)).save(path)
                self.files.append((path, label))

    def program(self, *words):
        done = subprocess.run([os.environ["LLMTRAIN_PROGRAM"], *map(str, words)], cwd=self.folder, text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def theirs(self, folder):
        """The mean loss of all files, and the share that is told right."""
        processor = transformers.AutoImageProcessor.from_pretrained(folder)
        model = transformers.ViTForImageClassification.from_pretrained(folder).eval()
        pixels = torch.stack([torch.from_numpy(processor(images=Image.open(path))["pixel_values"][0])
                              for path, _ in self.files])
        labels = torch.tensor([label for _, label in self.files])
        with torch.no_grad():
            logits = model(pixel_values=pixels).logits
        return torch.nn.functional.cross_entropy(logits, labels).item(), (logits.argmax(1) == labels).float().mean()

    def test_transformers_sees_the_same_images(self):
        for name, view in VIEWS.items():
            with self.subTest(name):
                recipe = {"name": name,
                          "model": {"architecture": "vit", "layers": 1, "hidden_size": 16, "heads": 2,
                                    "image": {"size": 16, "patch": 4}, "init_std": 0.3},
                          "data": {"images": {"classes": CLASSES, **view}, "train": [{"path": "images"}],
                                   "validation": [{"path": "images"}]},
                          "batch": {"global": 8, "micro": 4}, "cluster": {"device": "cpu"},
                          "training": {"steps": 2, "learning_rate": {"peak": 1e-3}}}
                (self.folder / "recipe.json").write_text(json.dumps(recipe))
                self.program("run", "recipe.json", "-q", "--run-dir", f"runs/{name}")
                evaluated = json.loads(self.program("eval", f"runs/{name}", "--data", "images", "--json"))
                self.program("checkpoint", "export", f"runs/{name}", f"theirs-{name}", "--to", "hf")
                loss, accuracy = self.theirs(self.folder / f"theirs-{name}")
                self.assertAlmostEqual(evaluated["loss"], loss, delta=1e-5)
                self.assertAlmostEqual(evaluated["figures"]["accuracy"], accuracy, places=6)


if __name__ == "__main__":
    unittest.main()
