# SPDX-License-Identifier: Apache-2.0
"""Invalid recipes: validate and run refuse each of them alike, with its location and the rule."""
import json
import unittest

from program import SMALL, ProgramTest, needs_nobody, small, without_rights

# A change to a valid recipe, and what the message must say.
VALUES = {
    "unknown key": ({"model.layer": 3}, ["/model/layer:", "did you mean", "layers"]),
    "unknown section": ({"optimiser.name": "adamw"}, ["/optimiser:"]),
    "unknown key in a list": ({"data.train": [{"path": "a", "wieght": 2}]}, ["/data/train/0/wieght:", "weight"]),
    "key of another program": ({"n_layer": 3}, ["/n_layer:", "/model/layers"]),
    "missing key": ({"model.hidden_size": None}, ["/model/hidden_size:", "missing"]),
    "missing section": ({"batch": None}, ["/batch:", "missing"]),
    "missing steps": ({"training.steps": None}, ["/training/steps:", "missing"]),
    "source without a path": ({"data.train": [{"weight": 1}]}, ["/data/train/0/path:", "missing"]),
    "text for a number": ({"model.layers": "2"}, ["/model/layers:", "string"]),
    "fraction for a whole number": ({"batch.micro": 1.5}, ["/batch/micro:", "1.5"]),
    "number for a text": ({"name": 3}, ["/name:"]),
    "number for a boolean": ({"model.bias": 1}, ["/model/bias:", "true or false"]),
    "list for an object": ({"model": []}, ["/model:", "list"]),
    "object for a list": ({"data.train": {"path": "a"}}, ["/data/train:", "list"]),
    "null for a number": ({"seed": "null"}, ["/seed:"]),
    "zero layers": ({"model.layers": 0}, ["/model/layers:", "0"]),
    "negative vocabulary": ({"model.vocab_size": -5}, ["/model/vocab_size:", "-5"]),
    "layers beyond reason": ({"model.layers": 10**9}, ["/model/layers:"]),
    "number beyond 64 bits": ({"training.steps": 10**30}, ["/training/steps:"]),
    "dropout of one": ({"model.dropout": 1.0}, ["/model/dropout:"]),
    "negative learning rate": ({"training.learning_rate.peak": -1e-3}, ["/training/learning_rate/peak:"]),
    "beta of one": ({"training.optimizer.beta2": 1}, ["/training/optimizer/beta2:"]),
    "zero sequences": ({"batch.global": 0}, ["/batch/global:"]),
    "negative interval": ({"checkpoint.every": -1}, ["/checkpoint/every:"]),
    "unknown word": ({"model.architecture": "gtp2"}, ["/model/architecture:", "gtp2", "gpt2"]),
    "unknown schedule": ({"training.learning_rate.schedule": "cosin"}, ["/training/learning_rate/schedule:", "cosine"]),
    "unknown precision": ({"precision.compute": "float16"}, ["/precision/compute:", "fp16"]),
    "unknown optimizer": ({"training.optimizer.name": "sgd"}, ["/training/optimizer/name:", "adamw"]),
    "unknown device": ({"cluster.device": "gpu"}, ["/cluster/device:", "cuda"]),
    "unknown tokenizer": ({"data.tokenizer": "gpt2"}, ["/data/tokenizer:", "bytes"]),
    "two tokenizers": ({"data.tokenizer": {"sentencepiece": "a", "huggingface": "b"}}, ["/data/tokenizer:"]),
    "heads do not divide": ({"model.heads": 3}, ["/model/hidden_size:", "model.heads"]),
    "kv_heads do not divide": ({"model.kv_heads": 3, "model.heads": 4}, ["/model/kv_heads:"]),
    "odd rotary width": ({"model.position": "rope", "model.head_dim": 3}, ["/model/head_dim:"]),
    "sequence too long": ({"batch.sequence_length": 17}, ["/batch/sequence_length:", "16"]),
    "micro does not divide": ({"batch.global": 3, "batch.micro": 2}, ["/batch/global:"]),
    "vocabulary below bytes": ({"model.vocab_size": 100, "data.train": [{"path": "a.txt"}]}, ["/model/vocab_size:"]),
    "no weight": ({"data.train": [{"path": "a", "weight": 0}]}, ["/data/train/0/weight:"]),
    "name with a slash": ({"name": "../up"}, ["/name:"]),
    "empty name": ({"name": ""}, ["/name:"]),
}

TEXTS = {
    "empty file": (b"", ["empty"]),
    "blank file": (b" \n ", []),
    "truncated": (json.dumps(SMALL).encode()[:-3], ["line 1"]),
    "truncated text": (b'{"name": "sm', ["line 1"]),
    "trailing comma": (b'{"name": "a",}', ["line 1", "column"]),
    "comment": (b'{\n// why\n"name": "a"}', ["line 2"]),
    "two documents": (json.dumps(SMALL).encode() * 2, ["line 1"]),
    "NaN": (b'{"seed": NaN}', ["NaN"]),
    "infinity": (b'{"seed": -Infinity}', ["Infinity"]),
    "overflow": (b'{"seed": 1e999}', []),
    "byte order mark": (b"\xef\xbb\xbf" + json.dumps(SMALL).encode(), ["byte order mark"]),
    "UTF-16": (json.dumps(SMALL).encode("utf-16"), []),
    "no UTF-8": (b'{"name": "\xff\xfe"}', ["UTF-8"]),
    "zero byte": (b'{"name": "a\x00b"}', ["line 1"]),
    "binary": (bytes(range(256)) * 8, []),
    "deep": (b"[" * 100000, []),
    "no object": (b"[1, 2]", ["list"]),
    "a number": (b"3", []),
    "duplicate key": (b'{"seed": 1, "seed": 2}', ["/seed:", "twice"]),
    "duplicate section": (b'{"model": {"layers": 1}, "model": {"layers": 2}}', ["/model:", "twice"]),
    "duplicate inside": (b'{"model": {"layers": 1, "layers": 2}}', ["/model/layers:", "twice"]),
    "YAML": (b"model:\n  layers: 2\n", ["line 1"]),
}


class BadRecipe(ProgramTest):
    def refused_by_both(self, code, fragments, file):
        self.refused(code, [file, *fragments], "validate", file)
        self.refused(code, [file, *fragments], "run", file)

    def test_values(self):
        for name, (changes, fragments) in VALUES.items():
            with self.subTest(name):
                self.write("recipe.json", small(changes))
                self.refused_by_both(2, fragments, "recipe.json")

    def test_texts(self):
        for name, (content, fragments) in TEXTS.items():
            with self.subTest(name):
                self.write("recipe.json", content)
                self.refused_by_both(2, fragments, "recipe.json")

    def test_all_errors_at_once(self):
        self.write("recipe.json", small({"model.layers": 0, "batch.micro": "x", "sed": 1}))
        result = self.refused(2, ["/model/layers:", "/batch/micro:", "/sed:"], "validate", "recipe.json")
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 3)
        for line in lines:
            self.assertTrue(line.startswith("recipe.json: /"), line)

    def test_files(self):
        (self.folder / "folder").mkdir()
        (self.folder / "loop.json").symlink_to("loop.json")
        self.write("small.json", small())
        cases = {"nowhere.json": 66, "folder/nowhere.json": 66, "small.json/recipe.json": 66, "": 66}
        for file, code in cases.items():
            with self.subTest(file):
                self.refused_by_both(code, [], file)
        for file in ("folder", "loop.json", "/dev/null", "x" * 5000):
            with self.subTest(file[:20]):
                for command in ("validate", "run"):
                    result = self.run_program(command, file)
                    self.assertIn(result.returncode, (2, 65, 66), result.stderr)
                    self.assertIn(file[:20], result.stderr)

    @needs_nobody()
    def test_no_permission(self):
        self.folder.chmod(0o755)
        self.write("recipe.json", small()).chmod(0)
        for command in ("validate", "run"):
            result = self.refused(2, [], command, "recipe.json", preexec_fn=without_rights)
            self.assertEqual(result.stderr, "recipe.json: cannot be opened: Permission denied\n")

    def test_several(self):
        self.write("right.json", small())
        self.write("wrong.json", small({"model.layers": 0}))
        result = self.run_program("validate", "right.json", "wrong.json", "nowhere.json")
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stdout, r"^right\.json: ok, [0-9,]+ parameters\n$")
        self.assertIn("wrong.json: /model/layers:", result.stderr)
        self.assertIn("nowhere.json: ", result.stderr)
        self.assertEqual(self.run_program("validate", "right.json", "nowhere.json").returncode, 66)


class BadOverride(ProgramTest):
    CASES = {
        "no value": ("batch.micro", ["batch.micro"]),
        "no key": ("=3", ["=3"]),
        "nothing": ("", []),
        "empty step": ("batch..micro=1", ["batch..micro"]),
        "unknown key": ("batch.mirco=1", ["/batch/mirco:", "micro"]),
        "wrong type": ("batch.micro=[1]", ["/batch/micro:"]),
        "out of range": ("batch.micro=0", ["/batch/micro:"]),
        "word for a number": ("batch.micro=two", ["/batch/micro:"]),
        "outside the list": ("data.train.7.path=a", ["/data/train"]),
        "list by name": ("data.train.first.path=a", ["/data/train"]),
        "into a value": ("batch.micro.x=1", ["/batch/micro"]),
        "duplicates": ('batch={"micro":1,"micro":2}', ["twice"]),
        "NaN": ("training.clip_norm=NaN", ["/training/clip_norm:"]),
    }

    def test_each(self):
        self.write("recipe.json", small({"data.train": [{"path": "a.txt"}]}))
        for name, (override, fragments) in self.CASES.items():
            with self.subTest(name):
                self.refused(2, fragments, "validate", "recipe.json", "--set", override)
                self.refused(2, fragments, "run", "recipe.json", "--set", override)

    def test_no_utf8(self):
        self.write("recipe.json", small())
        self.refused(2, ["UTF-8"], b"run", b"recipe.json", b"--set", b"name=\xff")
        self.refused(2, ["UTF-8"], b"run", b"recipe.json", b"--run-dir", b"runs/\xff")

    def test_folder_without_utf8(self):
        """The folder is put before relative paths, and a run's files describe them in JSON."""
        self.write(b"caf\xe9/recipe.json".decode("utf-8", "surrogateescape"), small({"data.train": [{"path": "a.txt"}]}))
        self.refused(2, ["/data/train/0/path", "UTF-8", "rename"], b"run", b"caf\xe9/recipe.json")
        self.refused(2, ["/data/train/0/path", "UTF-8"], b"validate", b"caf\xe9/recipe.json", b"--print")

    def test_flags_are_overrides(self):
        self.write("recipe.json", small())
        for ranks in ("0", "-3", "1.5", "two", "", "99999999999999999999"):
            self.refused(2, ["/launch/ranks:"], "run", "recipe.json", "--ranks", ranks)
        self.refused(2, ["/log/directory:"], "run", "recipe.json", "--run-dir", "")


class NotExecutable(ProgramTest):
    """Keys that can be planned, and validated, but not run by this version: never ignored."""

    CASES = {
        "/model/moe": {"model.moe": {"experts": 4}, "data.fine_tuning": {}},
        "/data/curriculum/vocabulary_rarity": {"data.curriculum.vocabulary_rarity": {"steps": 5}, "data.fine_tuning": {}},
        "/data/tokenizer": {"data.tokenizer": {"sentencepiece": "nowhere.model"}, "data.fine_tuning": {}},
        "/parallel/zero_shard_ranks": {"model.moe": {"experts": 4}, "parallel.expert": 2, "parallel.data": 4,
                                       "parallel.zero_shard_ranks": 1, "batch.global": 8},
        "/precision/high_precision": {"precision.fp8_level": "O0", "model.moe": {"experts": 4},
                                      "precision.high_precision": {"parameters": ["*.ffn.*"]}},
        "/precision/fp8_products": {"precision.fp8_level": "O0", "model.moe": {"experts": 4},
                                    "precision.fp8_products": "auto"},
        "/precision/fp8_scaling/method": {"precision.fp8_level": "O0", "model.moe": {"experts": 4},
                                          "precision.fp8_scaling.method": "delayed"},
        "/log/fp8_statistics": {"precision.fp8_level": "O0", "model.moe": {"experts": 4}, "log.fp8_statistics": True},
        "/training/freeze": {"precision.fp8_level": "O1", "training.freeze": ["embedding.*"]},
        "/model/lora": {"precision.fp8_level": "O0", "model.lora": {}},
        "/launch/link_delay_microseconds": {"launch.link_delay_microseconds": 5},
        "/launch/link_megabytes_per_second": {"launch.link_megabytes_per_second": 5, "launch.backend": "mpi"},
        "/launch/link_message_microseconds": {"launch.link_message_microseconds": 5, "launch.backend": "mpi"},
        "/launch/node_link_speedup": {"launch.node_link_speedup": 5, "launch.backend": "mpi"},
        "/launch/layer_delay_microseconds": {"launch.layer_delay_microseconds": 5, "launch.backend": "mpi"},
        "/memory/arena": {"memory.arena": True, "cluster.device": "cuda"},
        "/memory/offload/optimizer": {"memory.offload.optimizer": True, "cluster.device": "cpu"},
        "/memory/offload/weights": {"memory.offload.weights": True, "memory.offload.optimizer": True,
                                    "parallel.zero_stage": 3, "cluster.device": "cpu"},
        "/memory/offload/activations": {"memory.offload.activations": True, "cluster.device": "cpu"},
    }

    def test_each(self):
        for pointer, changes in self.CASES.items():
            with self.subTest(pointer):
                self.write("recipe.json", small({"data.train": [{"path": "nowhere.txt"}], **changes}))
                result = self.run_program("validate", "recipe.json")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.refused(2, [f"recipe.json: {pointer}:"], "run", "recipe.json")

    def test_shards_that_hold_some_experts_more_often(self):
        self.write("recipe.json", small({"data.train": [{"path": "nowhere.txt"}], "model.moe": {"experts": 4},
                                         "parallel.expert": 2, "parallel.expert_tensor": 2, "parallel.data": 8,
                                         "parallel.zero_shard_ranks": 2, "batch.global": 16}))
        self.refused(2, ["/parallel/zero_shard_ranks: 2 can be planned", "use a multiple of 4"], "run", "recipe.json")
        # Two tensor ranks hold half of what eight ranks split.
        self.refused(2, ["use a multiple of 4"], "run", "recipe.json", "--set", "parallel.expert_tensor=4", "--set",
                     "parallel.tensor=2")

    def test_fp8_states_of_slices_that_are_joined(self):
        self.write("recipe.json", small({"data.train": [{"path": "nowhere.txt"}], "model.moe": {"experts": 4},
                                         "parallel.expert_slices": 2, "parallel.data": 2, "parallel.zero_stage": 3,
                                         "precision.fp8_level": "O1", "batch.global": 4}))
        self.refused(2, ["/parallel/expert_slices: 2 with FP8 states can be planned"], "run", "recipe.json")

    def test_fine_tuning_replays_no_routing(self):
        experts = {"experts": 4, "capacity_factor": 0, "balance_loss": "none", "routing_zipf": 1}
        self.write("recipe.json", small({"data.train": [{"path": "nowhere.txt"}], "model.moe": experts,
                                         "data.fine_tuning": {}}))
        self.refused(2, ["recipe.json: /model/moe: a replayed routing"], "run", "recipe.json")

    def test_all_at_once(self):
        changes = {"memory.offload.activations": True, "memory.offload.weights": True,
                   "memory.offload.optimizer": True, "parallel.zero_stage": 3, "cluster.device": "cpu"}
        self.write("recipe.json", small({"data.train": [{"path": "nowhere.txt"}], **changes}))
        result = self.refused(2, [], "run", "recipe.json")
        self.assertEqual(len(result.stderr.splitlines()), 3, result.stderr)

    def test_nodes_need_a_launcher(self):
        self.write("recipe.json", small({"data.train": [{"path": "nowhere.txt"}], "cluster.nodes": 2}))
        self.refused(2, ["recipe.json: /cluster/nodes:", "srun"], "run", "recipe.json")

    def test_run_needs_data(self):
        self.write("recipe.json", small())
        self.assertEqual(self.run_program("validate", "recipe.json").returncode, 0)
        self.refused(2, ["recipe.json: /data/train:", "missing"], "run", "recipe.json")


if __name__ == "__main__":
    unittest.main()
