# SPDX-License-Identifier: Apache-2.0
"""Dense models on one emulated GPU: losses and weights are the CPU's, up to the rounding of other orders of summing."""
import json
import math
import shutil
import subprocess
import unittest

from emulated import EMULATED, EmulatedTest, distance, emulated_only, main, read_weights
from program import SOURCE

TEXT = "The quick brown fox jumps over the lazy dog, 12 times.\nIt barks. " * 60
FP32 = {"tolerance": 1e-6, "of_change": 2e-4}
HALF = {"tolerance": 1e-3, "of_change": 0.15}


def recipe(architecture, compute="fp32", **sections):
    """Two layers with grouped heads; `sections` are merged into the recipe's."""
    base = {
        "name": "dense",
        "model": {"architecture": architecture, "layers": 2, "hidden_size": 32, "heads": 4, "kv_heads": 2,
                  "vocab_size": 256, "max_sequence_length": 32},
        "batch": {"global": 4, "micro": 2},
        "training": {"steps": 3, "learning_rate": {"peak": 0.003}},
        "data": {"train": [{"path": "text.txt"}]},
        "precision": {"compute": compute},
    }
    for name, section in sections.items():
        base[name] = {**base.get(name, {}), **section}
    return base


def with_model(architecture, compute="fp32", **keys):
    return recipe(architecture, compute, model={**recipe(architecture)["model"], **keys})


def conversations():
    lines = [{"messages": [{"role": "user", "content": f"How much is {n} and {n}?"},
                           {"role": "assistant", "content": f"It is {2 * n}."}]} for n in range(40)]
    return "\n".join(json.dumps(line) for line in lines)


class Dense(EmulatedTest):
    variables = {"EMULATED_MEMORY": "1024", "EMULATED_DELAY": "0", "EMULATED_SUMMARY": "1",
                 "LLMTRAIN_PROFILES": str(SOURCE / "recipes" / "clusters")}

    def setUp(self):
        super().setUp()
        self.write("text.txt", TEXT)

    def start(self, device, *arguments):
        """Runs the command on the device, which on the GPU must have had work and no race."""
        result = self.run_emulated(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        counts = self.counts_of(result, 1 if device == "cuda" else 0)
        self.assertTrue(all(each["launches"] > 100 for each in counts), result.stderr)
        return result

    def run_on(self, device, recipe):
        recipe = {**recipe, "cluster": {**recipe.get("cluster", {}), "device": device},
                  "log": {"directory": device, "tensorboard": False}, "checkpoint": {"every": 1, "keep": 0}}
        self.write(f"{device}.json", recipe)
        shutil.rmtree(self.folder / device, ignore_errors=True)
        self.start(device, "run", f"{device}.json", "-q")
        return [row for row in self.rows(device) if "loss" in row]

    def weights(self, device, step):
        return read_weights(self.folder / device / "checkpoints" / f"step-{step:08d}")

    def compare(self, recipe, tolerance, of_change, on_cpu=None):
        """Losses to `tolerance`, relatively, and what training changed of the weights to the part `of_change`."""
        expected, got = self.run_on("cpu", on_cpu or recipe), self.run_on("cuda", recipe)
        self.assertEqual(len(expected), recipe["training"]["steps"])
        self.assertEqual(len(got), len(expected))
        for a, b in zip(expected, got):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=tolerance * a["loss"])
        last = len(expected)
        first, mine, theirs = self.weights("cpu", 1), self.weights("cuda", last), self.weights("cpu", last)
        self.assertEqual(mine.keys(), theirs.keys())
        self.assertTrue(theirs)
        change = distance(theirs, first)
        self.assertGreater(change, 0)
        self.assertLess(distance(mine, theirs), of_change * change)

    def test_types(self):
        self.compare(recipe("llama"), **FP32)
        self.compare(recipe("llama", "bf16"), **HALF)

    def test_fp16(self):
        self.compare(recipe("gpt2", "fp16"), **HALF)

    def test_dropout_has_the_same_masks(self):
        self.compare(with_model("gpt2", dropout=0.2), **FP32)
        self.compare({**with_model("gpt2", "bf16", dropout=0.2), "memory": {"recompute": "selective"}}, **HALF)

    def test_documents(self):
        documents = {**recipe("llama")["data"], "document_mask": {"end_of_text": 10}}
        self.compare(recipe("llama", data=documents), **FP32)
        self.compare(recipe("llama", "bf16", data=documents, memory={"recompute": "full"}), **HALF)

    def test_recompute(self):
        self.compare(recipe("llama", memory={"recompute": "full"}), **FP32)
        self.compare(recipe("gpt2", "bf16", memory={"recompute": "selective"}, kernels={"attention": "math"}), **HALF)

    def test_attention_by_cudnn(self):
        by_cudnn = recipe("llama", "bf16", kernels={"attention": "cudnn"})
        # The processor has none.
        on_cpu = {**by_cudnn, "kernels": {}}
        self.compare(by_cudnn, on_cpu=on_cpu, **HALF)

    @emulated_only
    def test_gpus_without_cudnn(self):
        self.write("cuda.json", {**recipe("llama", "bf16", kernels={"attention": "cudnn"}), "cluster": {"device": "cuda"}})
        run = ("run", "cuda.json", "-q", "--run-dir", "other")
        self.refused(2, ['/kernels/attention: "cudnn" needs cuDNN', 'use "auto"'], *run, program=EMULATED,
                     environment={**self.variables, "EMULATED_WITHOUT_CUDNN": "1"})
        anywhere, without_gpus = ("--set", "cluster.device=auto"), {"CUDA_VISIBLE_DEVICES": ""}
        self.refused(2, ['/kernels/attention: "cudnn" needs a GPU', 'use "auto"'], *run, *anywhere,
                     environment=without_gpus)
        # Who only reads the weights needs none.
        self.start("cuda", "run", "cuda.json", "-q", "--run-dir", "cuda")
        said = self.run_program("sample", "cuda", "--prompt", "The ", "--tokens", "2", *anywhere,
                                environment=without_gpus)
        self.assertEqual(said.returncode, 0, said.stderr)

    def test_adapters(self):
        self.compare(with_model("llama", "bf16", lora={"rank": 4}), **HALF)

    def test_optimizer_on_the_host(self):
        offloaded = recipe("llama", "bf16", memory={"offload": {"optimizer": True}})
        self.compare(offloaded, on_cpu=recipe("llama", "bf16"), **HALF)
        # A CPU reads the checkpoint, and has no other memory to which its states could go.
        to_cpu = ("--set", "cluster.device=cpu", "--set", "training.steps=4")
        said = self.run_program("sample", "cuda", "--prompt", "The ", "--tokens", "2", "--set", "cluster.device=cpu")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.refused(2, ["/memory/offload/optimizer: true on a CPU", "use false"], "run", "cuda.json", "-q", "--run-dir",
                     "cuda", *to_cpu, program=EMULATED)
        resumed = self.run_emulated("run", "cuda.json", "-q", "--run-dir", "cuda", *to_cpu, "--set",
                                    "memory.offload.optimizer=false")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)

    def test_states_on_the_host(self):
        offloaded = recipe("llama", "bf16", memory={"offload": {"optimizer": True, "weights": True}},
                           parallel={"zero_stage": 3}, pipeline={"loops": 2})
        self.compare(offloaded, on_cpu=recipe("llama", "bf16"), **HALF)
        # Whoever only reads the weights needs them nowhere else.
        said = self.run_emulated("sample", "cuda", "--prompt", "The ", "--tokens", "2")
        self.assertEqual(said.returncode, 0, said.stderr)

    @emulated_only
    def test_a_device_with_a_quarter_of_the_states(self):
        layers, width, memory = 12, 256, 40
        # Attention has half as many keys and values; weights and gradients are bf16, master weights and moments fp32.
        states = layers * (3 * width * width + 3 * width * 4 * width) * (2 + 2 + 4 + 8)
        self.assertGreater(states, 4 * memory * 2**20)
        large = recipe("llama", "bf16", model={"layers": layers, "hidden_size": width, "ffn_hidden_size": 4 * width},
                       precision={"compute": "bf16", "gradients": "bf16"}, batch={"global": 2, "micro": 1},
                       checkpoint={"every": 100}, log={"tensorboard": False})
        there = {**large, "parallel": {"zero_stage": 3}, "memory": {"offload": {"optimizer": True, "weights": True}}}
        losses = {}
        for device, keys in (("cpu", large), ("cuda", there)):
            self.write(f"{device}.json", {**keys, "cluster": {"device": device}})
            result = self.run_emulated("run", f"{device}.json", "-q", "--run-dir", device,
                                       environment={"EMULATED_MEMORY": str(memory)})
            self.assertEqual(result.returncode, 0, result.stderr)
            losses[device] = [row["loss"] for row in self.rows(device) if "loss" in row]
        for a, b in zip(losses["cpu"], losses["cuda"], strict=True):
            self.assertAlmostEqual(a, b, delta=HALF["tolerance"] * a)
        self.assertLess(losses["cpu"][-1], 0.9 * losses["cpu"][0])
        self.write("cuda.json", {**large, "cluster": {"device": "cuda"}})
        process = self.start_program("run", "cuda.json", "-q", "--run-dir", "less", program=EMULATED,
                                     stdout=subprocess.DEVNULL,
                                     environment={**self.variables, "EMULATED_MEMORY": str(memory)})
        said = process.stderr.read()
        self.assertEqual(process.wait(60), 1, said)
        self.assertIn("out of memory on the GPU", said)

    def test_within_a_limit_that_takes_the_host(self):
        base = recipe("llama", "bf16", cluster={"profile": "h100-sxm-80gb", "devices_per_node": 1})
        self.write("planned.json", {**base, "memory": {"limit": 1e12}})
        planned = self.run_emulated("plan", "planned.json", "--json")
        self.assertEqual(planned.returncode, 0, planned.stderr)
        least = min(point["peak_bytes"] for point in json.loads(planned.stdout)["limits"])
        self.compare({**base, "memory": {"limit": math.ceil(least)}}, on_cpu=recipe("llama", "bf16"), **HALF)
        settled = json.loads((self.folder / "cuda/recipe.json").read_text())
        self.assertTrue(settled["memory"]["offload"]["optimizer"], settled["memory"])
        self.refused(2, ["/memory/limit", "the least that a plan needs"], "run", "cuda.json", "-q", "--run-dir", "less",
                     "--set", f"memory.limit={math.floor(least) - 1}", program=EMULATED, environment=self.variables)

    @emulated_only
    def test_states_of_several_times_the_memory(self):
        """Under a policy of memory, to the bits of a run on a device that has room for all of them."""
        self.write("deep.json", recipe(
            "llama", "bf16", model={"layers": 12, "hidden_size": 128}, batch={"global": 2}, cluster={"device": "cuda"},
            training={"steps": 2, "clip_norm": 0}, checkpoint={"every": 2, "async": False}, log={"tensorboard": False}))

        def run(folder, mebibytes, policy):
            return self.run_emulated("run", "deep.json", "-q", "--run-dir", folder, "--set", f"memory.policy={policy}",
                                     environment={"EMULATED_MEMORY": str(mebibytes)})

        self.assertEqual(run("large", 1024, "none").returncode, 0)
        self.assertEqual(run("small", 8, "zero_infinity").returncode, 0)
        files = {folder: {path.name: path.read_bytes() for path in self.newest_checkpoint(folder).glob("*.safetensors")}
                 for folder in ("large", "small")}
        self.assertEqual([row["loss"] for row in self.rows("small")], [row["loss"] for row in self.rows("large")])
        self.assertEqual(files["small"], files["large"])
        self.assertGreater(sum(map(len, files["small"].values())), 4 * 8 * 2**20)

    def test_muon(self):
        training = {"steps": 3, "optimizer": {"name": "muon"}, "learning_rate": {"peak": 0.003}}
        # GPUs orthogonalise in bf16.
        self.compare(recipe("llama", training=training), **HALF)

    def test_curricula(self):
        data = {**recipe("llama")["data"], "document_mask": {"end_of_text": 10},
                "curriculum": {"sequence_length": {"start": 8, "steps": 3}}}
        self.compare(recipe("llama", data=data), **FP32)

    def test_token_dropping(self):
        training = {"steps": 3, "learning_rate": {"peak": 0.003},
                    "token_dropping": {"start": 8, "multiple": 8, "steps": 3, "first_layers": 0, "last_layers": 0}}
        self.compare(recipe("llama", training=training), **FP32)

    def test_query_key_norms_and_odd_heads(self):
        self.compare(with_model("llama", "bf16", qk_norm=True, head_dim=12), **HALF)

    def test_fine_tuning(self):
        self.write("chat.jsonl", conversations())
        data = {"train": [{"path": "chat.jsonl"}], "fine_tuning": {}}
        model = {**recipe("llama")["model"], "max_sequence_length": 128}
        self.compare(recipe("llama", data=data, model=model), **FP32)

    def test_evaluation_and_sampling(self):
        trained = recipe("llama", data={**recipe("llama")["data"], "validation": [{"path": "text.txt"}]},
                         training={"steps": 2, "learning_rate": {"peak": 0.01}})
        self.run_on("cuda", trained)
        said, losses = [], []
        for device in ("cpu", "cuda"):
            on = ("--set", f"cluster.device={device}")
            text = self.start(device, "sample", "cuda", "--prompt", "The ", "--tokens", "12", "--temperature", "0", *on)
            said.append(text.stdout)
            losses.append(json.loads(self.start(device, "eval", "cuda", "--batches", "2", "--json", *on).stdout)["loss"])
        self.assertEqual(said[0], said[1])
        self.assertAlmostEqual(losses[0], losses[1], delta=1e-5)


if __name__ == "__main__":
    main()
