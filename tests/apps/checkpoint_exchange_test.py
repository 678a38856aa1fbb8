# SPDX-License-Identifier: Apache-2.0
"""checkpoint import and export: what comes back, in which files, and what is refused."""
import json
import math
import os
import pathlib
import shutil
import struct
import unittest

import checkpoint_folder
import huggingface_folder as hf
from program import ProgramTest

GENERATION = '{"temperature": 0.25,   "eos_token_id": [4, 5]}'


def change_json(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def ones(tensors):
    tensors.update({name: struct.pack("<f", 1) * (len(content) // 4) for name, content in tensors.items()})


class Exchange(ProgramTest):
    def import_model(self, source="hf", name="checkpoint"):
        result = self.run_program("checkpoint", "import", source, name, "--from", "hf")
        self.assertEqual((result.returncode, result.stdout), (0, f"{name}: imported from {source}\n"), result.stderr)
        return result

    def export_model(self, name, *options):
        result = self.run_program("checkpoint", "export", "checkpoint", name, "--to", "hf", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.folder / name

    def test_a_folder_that_happens_to_be_called_huggingface(self):
        """Not the model's: what lies where the program is called is none of its business."""
        hf.write(self.folder / "hf", hf.config_of())
        self.import_model()
        shutil.rmtree(self.folder / "checkpoint" / "huggingface")
        self.write("huggingface/config.json", '{"eos_token_id": 7}')
        self.assertNotEqual(json.loads((self.export_model("out") / "config.json").read_text()).get("eos_token_id"), 7)

    def test_models_of_transformers_are_read_where_they_lie(self):
        """As their import is, which leaves nothing behind."""
        hf.write(self.folder / "hf", hf.config_of())
        self.import_model()
        self.write("text.jsonl", '{"text": "a text"}\n')
        self.write("questions.jsonl", '{"context": "a", "choices": ["b", "c"], "answer": 0}\n')
        (self.folder / "tmp").mkdir()
        shown = {}
        for source in ("checkpoint", "hf:hf"):
            for command in (("eval", source, "--data", "text.jsonl", "--json"),
                            ("eval", source, "--choices", "questions.jsonl", "--json"),
                            ("sample", source, "--tokens", "5", "--json")):
                result = self.run_program(*command, environment={"TMPDIR": str(self.folder / "tmp")})
                self.assertEqual(result.returncode, 0, result.stderr)
                shown.setdefault(command[2], []).append(json.loads(result.stdout))
        for before, after in shown.values():
            if "checkpoint" in before:
                self.assertEqual((after.pop("checkpoint"), before.pop("checkpoint")), ("hf:hf", "checkpoint"))
            self.assertEqual(after, before)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        self.refused(66, ["nowhere: does not exist", "hf download"], "eval", "hf:nowhere", "--data", "text.jsonl")

    def test_flags_of_the_other_format(self):
        for flag, value in (("--dtype", "auto"), ("--max-shard-size", "5GB")):
            self.refused(2, [flag, "--to hf"], "checkpoint", "export", "c", "out", "--to", "peft", flag, value)

    def test_every_bit_comes_back(self):
        for dtype, shards in (("F32", 1), ("BF16", 3), ("F16", 2)):
            with self.subTest(dtype):
                tensors = hf.write(self.folder / "hf", hf.config_of(dtype=dtype), dtype, shards)
                self.import_model()
                self.assertEqual(self.run_program("checkpoint", "verify", "checkpoint").returncode, 0)
                out = self.export_model("out")
                back = hf.read_file(out / "model.safetensors")
                self.assertEqual({name: content for name, (_, _, content) in back.items()}, tensors)
                self.assertEqual({kind for kind, _, _ in back.values()}, {dtype})
                self.assertEqual(json.loads((out / "config.json").read_text())["dtype"], hf.TYPE[dtype])
                for folder in ("hf", "checkpoint", "out"):
                    shutil.rmtree(self.folder / folder)

    def test_the_files_beside_the_weights_come_back(self):
        hf.write(self.folder / "hf", hf.config_of())
        tokenizer = json.dumps({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
                                "pre_tokenizer": {"type": "ByteLevel"}, "added_tokens": []})
        kept = {"tokenizer.json": tokenizer, "generation_config.json": GENERATION, "chat_template.jinja": "{{ x }}",
                "tokenizer_config.json": '{"model_max_length":   16}', "special_tokens_map.json": "{}"}
        for name, text in kept.items():
            self.write(f"hf/{name}", text)
        self.assertEqual(self.import_model().stderr, "")
        # The checkpoint stands alone, wherever it is.
        shutil.rmtree(self.folder / "hf")
        (self.folder / "checkpoint").rename(self.folder / "moved")
        (self.folder / "checkpoint").symlink_to("moved")
        out = self.export_model("out")
        self.assertEqual({name: (out / name).read_text() for name in kept}, kept)
        config = json.loads((out / "config.json").read_text())
        self.assertEqual((config["bos_token_id"], config["eos_token_id"]), (3, [4, 5]))

    def test_a_model_without_a_known_tokenizer_is_imported_with_a_warning(self):
        hf.write(self.folder / "hf", hf.config_of())
        self.assertIn("neither tokenizer.json nor tokenizer.model", self.import_model().stderr)
        self.write("hf/tokenizer.json", '{"model": {"type": "WordPiece"}}')
        self.assertIn("tokenizer.json", self.import_model(name="other").stderr)

    def test_what_experts_train_with_elsewhere_is_said(self):
        hf.write(self.folder / "hf", hf.mixtral_config(router_aux_loss_coef=0.02))
        self.assertNotIn("router", self.import_model().stderr)
        hf.write(self.folder / "other", hf.mixtral_config(output_router_logits=True, router_jitter_noise=0.1))
        said = self.import_model("other", "checkpoint-other").stderr
        self.assertIn("other/config.json: /router_jitter_noise: is 0.1", said)
        self.assertNotIn("router_aux_loss_coef", said)

    def test_shards_hold_what_they_may(self):
        tensors = hf.write(self.folder / "hf", hf.config_of())
        self.import_model()
        most = 5000  # the embedding and the head are larger
        out = self.export_model("out", "--max-shard-size", "5KB")
        index = json.loads((out / "model.safetensors.index.json").read_text())
        total = sum(map(len, tensors.values()))
        self.assertEqual(index["metadata"], {"total_parameters": total // 4, "total_size": total})
        files = sorted(out.glob("*.safetensors"))
        self.assertEqual([path.name for path in files],
                         [f"model-{i + 1:05}-of-{len(files):05}.safetensors" for i in range(len(files))])
        found = {}
        for path in files:
            part = hf.read_file(path)
            self.assertTrue(len(part) == 1 or sum(len(content) for _, _, content in part.values()) <= most, path.name)
            self.assertEqual({name for name, file in index["weight_map"].items() if file == path.name}, set(part))
            found.update({name: content for name, (_, _, content) in part.items()})
        self.assertEqual(found, tensors)
        self.assertGreater(len(files), 5)

    def test_another_type_of_weights(self):
        hf.write(self.folder / "hf", hf.config_of(dtype="F16"), "F16")
        self.import_model()
        for name, dtype in (("fp32", "F32"), ("bf16", "BF16")):
            out = self.export_model(name, "--dtype", name)
            self.assertEqual({kind for kind, _, _ in hf.read_file(out / "model.safetensors").values()}, {dtype})
            self.assertEqual(json.loads((out / "config.json").read_text())["torch_dtype"], hf.TYPE[dtype])

    def test_values_beyond_the_type_are_refused(self):
        """The largest fp16 number is 65504; what rounds to it fits."""
        def of(*values):
            return lambda tensors: (ones(tensors), tensors.update(
                {"model.norm.weight": struct.pack("<16f", *values, *[1] * 14)}))

        hf.write(self.folder / "fitting", hf.config_of(), change=of(65504, -65519))
        self.import_model("fitting")
        norm = hf.read_file(self.export_model("out", "--dtype", "fp16") / "model.safetensors")["model.norm.weight"][2]
        self.assertEqual(struct.unpack("<2e", norm[:4]), (65504, -65504))
        shutil.rmtree(self.folder / "checkpoint")
        hf.write(self.folder / "large", hf.config_of(), change=of(2.5, -123456))
        self.import_model("large")
        for options in ([], ["--max-shard-size", "5KB"]):
            self.refused(65, ["model.norm.weight: has values of up to 123456, and float16 holds none beyond 65504; export "
                              "with --dtype bf16 or fp32"],
                         "checkpoint", "export", "checkpoint", "refused", "--to", "hf", "--dtype", "fp16", *options)
            self.assertFalse((self.folder / "refused").exists())
        self.export_model("bf16", "--dtype", "bf16")
        shutil.rmtree(self.folder / "checkpoint")
        hf.write(self.folder / "largest", hf.config_of(), change=of(3.4e38, 0))
        self.import_model("largest")
        (self.folder / "refused").mkdir()
        self.refused(65, ["model.norm.weight: has values of up to 3.4e+38", "bfloat16", "--dtype fp32"],
                     "checkpoint", "export", "checkpoint", "refused", "--to", "hf", "--dtype", "bf16")
        self.assertEqual(list((self.folder / "refused").iterdir()), [])

    def test_weights_that_are_not_finite_are_refused(self):
        name = "model.layers.1.mlp.up_proj.weight"
        for dtype, number in (("F32", "0000c07f"), ("BF16", "80ff"), ("F16", "007c")):
            with self.subTest(dtype):
                def damage(tensors):
                    tensors[name] = tensors[name][:-len(number) // 2] + bytes.fromhex(number)

                folder = f"hf-{dtype}"
                hf.write(self.folder / folder, hf.config_of(dtype=dtype), dtype, change=damage)
                parts = [f'{folder}/model.safetensors: "{name}" has values that are NaN or infinite']
                self.refused(65, parts, "checkpoint", "import", folder, "out", "--from", "hf")
                self.assertEqual(list(self.folder.glob("out*")), [])
                self.write("text.txt", "hello " * 100)
                self.write("recipe.json", {"model": {"from": f"hf:{folder}"}, "batch": {"global": 1, "micro": 1},
                                           "training": {"steps": 1}, "data": {"train": [{"path": "text.txt"}]}})
                result = self.run_program("run", "recipe.json", "--run-dir", f"run-{dtype}")
                self.assertEqual(result.returncode, 65, result.stderr)
                self.assertIn(parts[0], result.stderr)

    def test_a_checkpoint_that_is_not_finite_is_refused(self):
        """Also where an imported one has become so: run, eval and export say which tensor it is."""
        hf.write(self.folder / "hf", hf.config_of(), change=ones)
        self.import_model()
        name = "layers.1.ffn.up.weight"

        def damage(tensor, values):
            if tensor == name:
                values[-1] = math.nan

        checkpoint_folder.change_values(self.folder / "checkpoint", damage)
        self.write("text.txt", "hello " * 100)
        self.write("recipe.json", {"model": {"from": "checkpoint"}, "batch": {"global": 1, "micro": 1},
                                   "training": {"steps": 1}, "data": {"train": [{"path": "text.txt"}]}})
        for command in (["run", "recipe.json"], ["eval", "checkpoint", "--data", "text.txt"],
                        ["checkpoint", "export", "checkpoint", "out", "--to", "hf"]):
            result = self.run_program(*command)
            self.assertEqual(result.returncode, 65, result.stderr)
            self.assertIn(f"checkpoint: {name} has values that are NaN or infinite", result.stderr)
        self.assertFalse((self.folder / "out").exists())

    def test_weights_beyond_fp16_do_not_train_in_it(self):
        def large(tensors):
            ones(tensors)
            tensors["model.layers.0.mlp.up_proj.weight"] = struct.pack("<f", 7e4) * (16 * 48)

        hf.write(self.folder / "hf", hf.config_of(), change=large)
        self.write("text.txt", "hello " * 100)
        self.write("recipe.json", {"model": {"from": "hf:hf"}, "batch": {"global": 1, "micro": 1},
                                   "precision": {"compute": "fp16"}, "training": {"steps": 1},
                                   "data": {"train": [{"path": "text.txt"}]}})
        result = self.run_program("run", "recipe.json")
        self.assertEqual(result.returncode, 65, result.stderr)
        self.assertIn("layers.0.ffn.up.weight: has values of up to 70000, and precision.compute \"fp16\" holds none beyond "
                      "65504", result.stderr)

    def test_the_window_of_an_imported_model_is_kept(self):
        hf.write(self.folder / "hf", {**hf.config_of(), "model_type": "mistral", "sliding_window": 16}, change=ones)
        self.import_model()
        self.write("text.txt", "hello " * 100)
        recipe = {"model": {"from": "checkpoint", "max_sequence_length": 32}, "batch": {"global": 1, "micro": 1},
                  "training": {"steps": 1}, "data": {"train": [{"path": "text.txt"}]}}
        self.write("recipe.json", recipe)
        beyond = "/model/max_sequence_length: 32 is beyond the window of 16 tokens in "
        self.refused(2, [beyond, "manifest.json"], "run", "recipe.json")
        shape = json.loads(self.run_program("validate", "recipe.json", "--print", "--set",
                                            "model.max_sequence_length=16").stdout)["model"]
        self.write("recipe.json", {**recipe, "model": {**shape, "max_sequence_length": 32},
                                   "training": {"steps": 1, "init_from": "checkpoint"}})
        result = self.run_program("run", "recipe.json")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(beyond, result.stderr)

    def test_an_imported_checkpoint_is_one_of_others(self):
        hf.write(self.folder / "hf", hf.config_of())
        self.import_model()
        self.write("text.txt", "hello " * 100)
        recipe = {"model": {"from": "checkpoint"}, "batch": {"global": 1, "micro": 1}, "training": {"steps": 1},
                  "data": {"train": [{"path": "text.txt"}]}}
        self.write("recipe.json", recipe)
        for command in (["checkpoint", "inspect", "checkpoint"], ["validate", "recipe.json"]):
            result = self.run_program(*command)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_destinations_are_never_overwritten(self):
        hf.write(self.folder / "hf", hf.config_of())
        self.write("full/notes.txt", "mine")
        self.write("file", "mine")
        for destination in ("full", "file", "hf", "."):
            with self.subTest(destination):
                self.refused(73, ["name a new one"], "checkpoint", "import", "hf", destination, "--from", "hf")

    def test_sizes_of_shards(self):
        for size in ("0", "-3", "many", "5XB"):
            with self.subTest(size):
                self.refused(2, ["--max-shard-size"], "checkpoint", "export", "c", "out", "--to", "hf",
                             "--max-shard-size", size)


def cut(path):
    os.truncate(path, path.stat().st_size - 1)


def lengthen(path):
    path.write_bytes(path.read_bytes() + b"0")


def rewrite_header(path, old, new):
    path.write_bytes(path.read_bytes().replace(old, new, 1))


def of_config(change):
    return lambda folder: change_json(folder / "config.json", change)


def of_index(change):
    return lambda folder: change_json(folder / "model.safetensors.index.json", lambda index: change(index["weight_map"]))


def of_shard(change):
    return lambda folder: change(folder / "model-00001-of-00002.safetensors")


class Damaged(ProgramTest):
    """Each kind of damage to a folder of transformers: its exit code, and what the one line says."""

    CASES = {
        "no config": (66, ["config.json"], lambda folder: (folder / "config.json").unlink()),
        "no JSON": (65, ["config.json"], lambda folder: (folder / "config.json").write_text("{")),
        "a list": (65, ["config.json", "object"], lambda folder: (folder / "config.json").write_text("[]")),
        "another model": (65, ["model_type", "marian"], of_config(lambda config: config.update(model_type="marian"))),
        "no size": (65, ["hidden_size"], of_config(lambda config: config.pop("hidden_size"))),
        "another size": (65, ["embed_tokens", "[256,16]", "[300,16]"],
                         of_config(lambda config: config.update(vocab_size=300))),
        "more layers": (65, ["model.layers.2.", "missing"],
                        of_config(lambda config: config.update(num_hidden_layers=3))),
        "fewer layers": (65, ["model.layers.1.", "unexpected"],
                         of_config(lambda config: config.update(num_hidden_layers=1))),
        "a file is cut short": (65, ["model-00001-of-00002.safetensors"], of_shard(cut)),
        "a file is longer": (65, ["model-00001-of-00002.safetensors"], of_shard(lengthen)),
        "a file is empty": (65, ["model-00001-of-00002.safetensors"], of_shard(lambda path: path.write_bytes(b""))),
        "a file is missing": (66, ["model-00001-of-00002.safetensors"], of_shard(pathlib.Path.unlink)),
        "a pipe": (65, ["regular file"], of_shard(lambda path: (path.unlink(), os.mkfifo(path)))),
        "whole numbers": (65, ["I32", "F32"], of_shard(lambda path: rewrite_header(path, b'"F32"', b'"I32"'))),
        "an unknown type": (65, ["F31"], of_shard(lambda path: rewrite_header(path, b'"F32"', b'"F31"'))),
        "a huge header": (65, ["header"], of_shard(lambda path: path.write_bytes(b"\xff" * 100))),
        "a file outside": (65, ["../x.safetensors", "plain name"],
                           of_index(lambda files: files.update({"lm_head.weight": "../x.safetensors"}))),
        "a tensor elsewhere": (65, ["lm_head.weight", "does not hold it"], of_index(
            lambda files: files.update({"lm_head.weight": "model-00002-of-00002.safetensors"}))),
        "a tensor left out": (65, ["lm_head.weight", "does not name"],
                              of_index(lambda files: files.pop("lm_head.weight"))),
        "an index of nothing": (65, ["weight_map"], lambda folder: change_json(
            folder / "model.safetensors.index.json", dict.clear)),
    }

    def test_folders(self):
        for number, (name, (code, parts, damage)) in enumerate(self.CASES.items()):
            with self.subTest(name):
                folder = self.folder / f"hf{number}"
                hf.write(folder, hf.config_of(), shards=2)
                damage(folder)
                self.refused(code, [folder.name, *parts], "checkpoint", "import", folder.name, "out", "--from", "hf")
                self.assertEqual(list(self.folder.glob("out*")), [])

    def test_without_weights(self):
        hf.write(self.folder / "hf", hf.config_of())
        (self.folder / "hf" / "model.safetensors").rename(self.folder / "hf" / "pytorch_model.bin")
        self.refused(66, ["safe_serialization=True"], "checkpoint", "import", "hf", "out", "--from", "hf")

    def test_names_of_the_hub(self):
        for source in ("meta-llama/Llama-3.1-8B", "hf:meta-llama/Llama-3.1-8B"):
            with self.subTest(source):
                self.refused(66, ["meta-llama/Llama-3.1-8B: does not exist", "hf download"], "checkpoint", "import",
                             source, "out", "--from", "hf")


if __name__ == "__main__":
    unittest.main()
