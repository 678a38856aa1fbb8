# SPDX-License-Identifier: Apache-2.0
"""checkpoint inspect, verify, diff and export on complete checkpoints, damaged ones and other input."""
import json
import os
import pathlib
import resource
import shutil
import unittest

import checkpoint_folder
from program import ProgramTest, small


def flip_a_bit(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


def remove(key):
    return lambda manifest: manifest.pop(key)


def put(key, value):
    return lambda manifest: manifest.update({key: value})


class Whole(ProgramTest):
    def setUp(self):
        super().setUp()
        self.checkpoints = self.folder / "run" / "checkpoints"
        for step in (5, 7):
            checkpoint_folder.write(self.checkpoints / f"step-{step:08}", small(), step)
        (self.checkpoints / "latest").write_text("step-00000007\n", encoding="utf-8")

    def test_inspect_prints_everything(self):
        answer = json.loads(self.run_program("checkpoint", "inspect", "run", "--json").stdout)
        self.assertEqual((answer["step"], answer["data_position"], answer["parameters"]), (7, 14, 3 * 4 + 5))
        self.assertEqual([(t["name"], t["dtype"], t["shape"]) for t in answer["tensors"]][0],
                         ("a.weight", "F32", [3, 4]))
        self.assertEqual(len(answer["tensors"]), 4)
        folder = self.checkpoints / "step-00000007"
        self.assertEqual({file["name"]: file["bytes"] for file in answer["files"]},
                         {path.name: path.stat().st_size for path in folder.iterdir()})
        self.assertEqual(answer["bytes"], sum(path.stat().st_size for path in folder.iterdir()))
        self.assertEqual(answer["recipe"], small())

    def test_inspect_for_people(self):
        text = self.run_program("checkpoint", "inspect", "run").stdout
        for line in ("step           7", "parameters     17", "  a.weight    F32   [3, 4]", "  b           F32   [5]"):
            self.assertIn(line + "\n", text)

    def test_any_name_of_a_checkpoint(self):
        for source in ("run", "run/", "run/checkpoints", "run/checkpoints/step-00000007", str(self.checkpoints)):
            with self.subTest(source):
                answer = json.loads(self.run_program("checkpoint", "inspect", source, "--json").stdout)
                self.assertEqual(answer["step"], 7)

    def test_verify(self):
        result = self.run_program("checkpoint", "verify", "run")
        self.assertEqual((result.returncode, result.stdout), (0, "run/checkpoints/step-00000007: ok\n"))

    def test_damaged_newest(self):
        flip_a_bit(self.checkpoints / "step-00000007" / "part.safetensors", -1)
        result = self.run_program("checkpoint", "verify", "run")
        self.assertEqual((result.returncode, result.stdout), (65, "run/checkpoints/step-00000005: ok\n"))
        self.assertIn("step-00000007", result.stderr)
        result = self.run_program("checkpoint", "inspect", "run", "--json")
        self.assertEqual((result.returncode, json.loads(result.stdout)["step"]), (0, 5))
        self.refused(65, ["part.safetensors"], "checkpoint", "verify", "run/checkpoints/step-00000007")

    def test_all_damaged(self):
        for step in (5, 7):
            os.truncate(self.checkpoints / f"step-{step:08}" / "part.safetensors", 20)
        for command in ("inspect", "verify"):
            self.refused(65, ["no intact checkpoint", "step-00000005", "step-00000007"], "checkpoint", command, "run")
        self.refused(65, ["no intact checkpoint"], "sample", "run")

    def test_export_never_overwrites(self):
        self.write("full/notes.txt", "mine")
        self.write("file", "mine")
        for destination in ("full", "file", "run", ".", "", "/"):
            with self.subTest(destination):
                self.refused(73, ["name a new one"], "checkpoint", "export", "run", destination, "--to", "hf")


class Difference(ProgramTest):
    def write_pair(self, **second):
        checkpoint_folder.write(self.folder / "a", small())
        checkpoint_folder.write(self.folder / "b", small(), **second)

    def differences(self):
        return json.loads(self.run_program("checkpoint", "diff", "a", "b", "--json").stdout)

    def test_equal(self):
        self.write_pair(step=9)
        answer = self.differences()
        self.assertEqual((answer["equal"], answer["compared"], answer["tensors"]), (True, 4, []))
        self.assertEqual((answer["first"]["step"], answer["second"]["step"]), (7, 9))
        self.assertIn("all 4 tensors have the same values", self.run_program("checkpoint", "diff", "a", "b").stdout)

    def test_values(self):
        """All values of the first checkpoint are 0.5: a.weight has 12 of them, of norm √3."""
        def change(name, values):
            if name == "a.weight":
                values[2], values[7] = 0.75, 0.25
            if name == "b":
                values[4] = float("nan")

        self.write_pair()
        checkpoint_folder.change_values(self.folder / "b", change)
        weight, bias = self.differences()["tensors"]
        self.assertEqual({**weight, "relative": None}, {"name": "a.weight", "elements": 12, "differing": 2,
                                                        "largest": 0.25, "relative": None})
        self.assertAlmostEqual(weight["relative"], (2 / 16 / 3)**0.5, delta=1e-12)
        self.assertEqual(bias, {"name": "b", "elements": 5, "differing": 1, "largest": None, "relative": None})
        self.assertIn("a.weight  2 of 12 elements, by at most 0.25", self.run_program("checkpoint", "diff", "a", "b").stdout)

    def test_values_that_are_stored_with_a_scale(self):
        """0.5 as 2.0 with the scale 4.0, as FP8 levels store it."""
        def change(name, values):
            values[:] = [4.0 if name.endswith(".scale") else 2.0] * len(values)

        checkpoint_folder.write(self.folder / "a", small(), tensors={"a.weight": [3, 4]})
        checkpoint_folder.write(self.folder / "b", small(), tensors={"a.weight": [3, 4], "a.weight.scale": [1]})
        checkpoint_folder.change_values(self.folder / "b", change)
        self.assertEqual(self.differences()["tensors"], [{"name": "a.weight.scale", "reason": "is only in b"}])

    def test_tensors_that_cannot_be_compared(self):
        self.write_pair(tensors={"a.weight": [4, 3], "b": [5], "c": [1]})
        reasons = {tensor["name"]: tensor["reason"] for tensor in self.differences()["tensors"]}
        self.assertEqual(reasons, {"a.weight": "has shape [3, 4] and [4, 3]", "a.weight.m": "is only in a",
                                   "a.weight.v": "is only in a", "c": "is only in b"})

    def test_damage_is_no_difference(self):
        self.write_pair()
        flip_a_bit(self.folder / "b" / "part.safetensors", -1)
        self.refused(65, ["part.safetensors"], "checkpoint", "diff", "a", "b")


class Damaged(ProgramTest):
    """Every kind of damage to a checkpoint's folder is reported with its file."""

    MANIFESTS = {
        "no recipe": remove("recipe"),
        "no tensors": remove("tensors"),
        "unknown key": put("ranks", 4),
        "other format": put("format", "other"),
        "newer version": put("version", 2),
        "negative step": put("step", -1),
        "text for a step": put("step", "7"),
        "file outside the folder": put("files", [{"name": "../part.safetensors", "bytes": 1, "sha256": "0" * 64}]),
        "no hash": put("files", [{"name": "part.safetensors", "bytes": 1}]),
        "tensor that is not covered": lambda manifest: manifest["tensors"][0].update(slices=[]),
        "unknown dtype": lambda manifest: manifest["tensors"][0].update(dtype="F31"),
        "negative shape": lambda manifest: manifest["tensors"][0].update(shape=[-3, 4]),
        "endless shape": lambda manifest: manifest["tensors"][0].update(shape=[2**62, 2**62]),
        "unknown file": lambda manifest: manifest["tensors"][0]["slices"][0].update(file="other.safetensors"),
        "control character in a name": lambda manifest: manifest["tensors"][0].update(name="a\x1b[2J"),
        "negative count of skipped updates": put("skipped", {"total": -1, "in_a_row": 0, "rollbacks": 0}),
        "text for a recent loss": put("recent", {"losses": ["1"], "gradient_norms": [1.0]}),
        "other number of recent losses": put("recent", {"losses": [1.0], "gradient_norms": []}),
        "recent updates without norms": put("recent", {"losses": [1.0]}),
        "name twice": lambda manifest: manifest["tensors"][1].update(name="a.weight"),
    }
    TEXTS = {"empty": b"", "no JSON": b"checkpoint", "list": b"[]", "empty object": b"{}", "binary": bytes(range(256)),
             "deep": b"[" * 100000, "no UTF-8": b'{"format": "\xff"}'}

    def test_manifests(self):
        for number, (name, edit) in enumerate(self.MANIFESTS.items()):
            with self.subTest(name):
                folder = f"c{number}"
                checkpoint_folder.write(self.folder / folder, small(), edit=edit)
                for command in ("inspect", "verify"):
                    self.refused(65, [f"{folder}/manifest.json"], "checkpoint", command, folder)

    def test_texts(self):
        for name, text in self.TEXTS.items():
            with self.subTest(name):
                self.write("c/manifest.json", text)
                for command in ("inspect", "verify"):
                    self.refused(65, ["c/manifest.json"], "checkpoint", command, "c")

    def test_every_flipped_bit_is_seen(self):
        checkpoint_folder.write(self.folder / "c", small())
        for name in ("manifest.json", "part.safetensors"):
            path = self.folder / "c" / name
            whole = path.read_bytes()
            for place in range(0, len(whole) - 2, len(whole) // 40):
                flip_a_bit(path, place)
                self.refused(65, [name], "checkpoint", "verify", "c")
                path.write_bytes(whole)
        self.assertEqual(self.run_program("checkpoint", "verify", "c").returncode, 0)

    def test_files(self):
        def shorten(part):
            os.truncate(part, part.stat().st_size - 1)

        def lengthen(part):
            part.write_bytes(part.read_bytes() + b"0")

        def replace_by_link(part):
            shutil.move(part, self.folder / "elsewhere")
            part.symlink_to(self.folder / "elsewhere")

        def replace_by_folder(part):
            part.unlink()
            part.mkdir()

        for number, damage in enumerate((pathlib.Path.unlink, shorten, lengthen, replace_by_link, replace_by_folder)):
            with self.subTest(damage.__name__):
                checkpoint_folder.write(self.folder / f"c{number}", small())
                damage(self.folder / f"c{number}" / "part.safetensors")
                self.refused(65, ["part.safetensors"], "checkpoint", "verify", f"c{number}")

    def test_recipe_of_another_version(self):
        checkpoint_folder.write(self.folder / "c", {"epochs": 3})
        for command in (["sample", "c"], ["eval", "c"], ["checkpoint", "export", "c", "out", "--to", "hf"]):
            self.refused(65, ["manifest.json", "/epochs"], *command)

    def test_recipe_that_cannot_be_executed(self):
        checkpoint_folder.write(self.folder / "c", small({
            "precision.compute": "bf16", "precision.fp8_level": "O0", "precision.product_format": "nvfp4"}))
        self.refused(2, ["/precision/product_format:"], "sample", "c")

    def test_recipe_that_is_none(self):
        for number, recipe in enumerate((None, [], {"name": 3}, {"name": "a\x1b[2J"})):
            with self.subTest(recipe=recipe):
                checkpoint_folder.write(self.folder / f"c{number}", recipe)
                result = self.run_program("checkpoint", "inspect", f"c{number}")
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertNotIn("\x1b", result.stdout)
                if not isinstance(recipe, dict):
                    self.refused(65, [f"c{number}/manifest.json"], "sample", f"c{number}")

    def test_recipe_of_a_larger_model(self):
        """Refused before its weights take 16 GB: it may have less, whatever the checkpoint's recipe claims."""
        def limit():
            # The sanitizers' own memory would not fit.
            if not os.environ.get("LLMTRAIN_SANITIZE"):
                resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))

        large = small({"model.hidden_size": 8192, "model.layers": 5})
        checkpoint_folder.write(self.folder / "c", large, tensors={"embedding.token.weight": [256, 16]})
        for command in (["sample", "c"], ["eval", "c", "--data", "text.txt"],
                        ["checkpoint", "export", "c", "out", "--to", "hf"]):
            self.write("text.txt", "hello " * 100)
            self.refused(65, ["embedding.token.weight", "[256, 16]", "[256, 8192]"], *command, preexec_fn=limit)

    def test_wrong_override(self):
        checkpoint_folder.write(self.folder / "c", small())
        self.refused(2, ["/cluster/device:"], "sample", "c", "--set", "cluster.device=gpu")


class Nonsense(ProgramTest):
    COMMANDS = (["checkpoint", "inspect"], ["checkpoint", "verify"], ["sample"], ["eval"])

    def test_sources(self):
        self.write("text.txt", "hello")
        self.write("folder/notes.txt", "hello")
        self.write("young/recipe.json", small())
        (self.folder / "young" / "checkpoints").mkdir()
        self.write("odd/checkpoints", "a file")
        cases = {"nowhere": 66, "": 66, "folder": 66, "young": 66, "text.txt/x": 66, "odd": 65}
        for command in self.COMMANDS:
            for source, code in cases.items():
                with self.subTest(f"{command} {source}"):
                    self.refused(code, [source], *command, source)

    def test_files(self):
        self.write("text.txt", "hello")
        for command in ("inspect", "verify"):
            self.refused(65, ["text.txt", "is a file"], "checkpoint", command, "text.txt")
        for command in ("sample", "eval"):
            self.refused(2, ["text.txt", "line 1"], command, "text.txt")

    def test_no_data_to_evaluate(self):
        checkpoint_folder.write(self.folder / "c", small())
        self.refused(66, ["c: its recipe names no data", "--data"], "eval", "c")
        self.refused(66, ["--data: ", "nowhere.txt"], "eval", "c", "--data", "nowhere.txt")
        self.write("text.txt", "hello " * 100)
        result = self.run_program("eval", "c", "--set", 'data.train=[{"path": "text.txt"}]')
        self.assertIn("the data that the model was trained on", result.stderr)

    def test_recipe_without_a_run(self):
        self.write("recipe.json", small())
        self.refused(66, ["runs/small"], "sample", "recipe.json")
        self.refused(66, ["runs/small"], "eval", "recipe.json")


if __name__ == "__main__":
    unittest.main()
