# SPDX-License-Identifier: Apache-2.0
"""The parts that are one or two commands: roofs, calibration, ranks that share a GPU, and compute-sanitizer."""
import json
import pathlib
import shutil

from machine import NotDone

HERE = pathlib.Path(__file__).resolve().parent
TEXT = "The quick brown fox jumps over the lazy dog.\n" * 400
LLAMA = {"architecture": "llama", "layers": 4, "hidden_size": 256, "heads": 4, "vocab_size": 256,
         "max_sequence_length": 128}
EXPERTS = {**LLAMA, "layers": 2, "moe": {"experts": 4, "top_k": 2, "ffn_hidden_size": 256}}
GPT2 = {**LLAMA, "architecture": "gpt2", "layers": 2, "dropout": 0.1}
DELAYED = {"fp8_scaling": {"method": "delayed"}}
CHECKED = {"gpt2": (GPT2, {"compute": "fp32"}), "bf16": (GPT2, {"compute": "bf16"}),
           "fp8": (LLAMA, {"compute": "bf16", "fp8_level": "O3", **DELAYED}), "experts": (EXPERTS, {"compute": "bf16"})}
RANKS = 4
LOSS_TOLERANCE = 1e-4


def require(found, done):
    """Whether a command succeeded; its failure is kept."""
    if done.code != 0:
        found["failures"].append(done.failure())
    return done.code == 0


def roofs(machine, found):
    done = machine.run("roofs", [machine.has_python(), HERE / "torch_roofs.py", machine.device], 60,
                       machine.python_environment)
    if require(found, done):
        found.update(json.loads(done.output.strip().splitlines()[-1]))
    command = [machine.program, "bench", "kernels", "--device", machine.device, "--json", "--quick"]
    done = machine.run("operators", command, 60)
    if require(found, done):
        found["operators"] = json.loads(done.output[done.output.index("{"):])["kernels"]


def calibrate(machine, found):
    profile = machine.folder / "calibrated.json"
    command = [machine.program, "calibrate", "--device", machine.device, "--output", profile]
    done = machine.run("calibrate", command, 120)
    if require(found, done):
        machine.profile = profile
        found["profile"] = json.loads(profile.read_text(encoding="utf-8"))


def write_run(machine, name, model, precision, steps):
    (machine.folder / "text.txt").write_text(TEXT, encoding="utf-8")
    recipe = {"name": name, "model": model, "batch": {"global": 8, "micro": 2}, "training": {"steps": steps},
              "data": {"train": [{"path": "text.txt"}]}, "precision": precision, "cluster": {"device": machine.device},
              "log": {"tensorboard": False}}
    path = machine.folder / f"run-{name}.json"
    path.write_text(json.dumps(recipe), encoding="utf-8")
    return path


def rows(machine, name):
    text = (machine.folder / "runs" / name / "metrics.jsonl").read_text(encoding="utf-8")
    return [row for row in map(json.loads, text.splitlines()) if "loss" in row]


def ranks(machine, found):
    """Four ranks on one GPU, whose messages go through pinned memory and MPI, learn what one rank learns."""
    recipe = write_run(machine, "ranks", LLAMA, {"compute": "fp32"}, steps=20)
    runs = {"one": [], "four": ["--ranks", str(RANKS), "--set", "launch.backend=mpi", "--set", "parallel.zero_stage=3"]}
    for name, flags in runs.items():
        command = [machine.program, "run", recipe, "--run-dir", f"runs/{name}", *flags]
        if not require(found, machine.run(f"ranks-{name}", command, 90)):
            return
    one, four = (rows(machine, name) for name in runs)
    found["largest_difference"] = max(abs(a["loss"] - b["loss"]) / b["loss"] for a, b in zip(four, one))
    found["losses"] = {"one": [row["loss"] for row in one], "four": [row["loss"] for row in four]}
    found["step_seconds"] = {name: sorted(row["step_seconds"] for row in of[5:])[len(of[5:]) // 2]
                             for name, of in (("one", one), ("four", four))}
    if len(one) != len(four) or not found["largest_difference"] <= LOSS_TOLERANCE:
        found["failures"].append({"name": "ranks", "code": None, "log": json.dumps(found["losses"])})


def sanitizer(machine, found):
    """compute-sanitizer over short trainings that reach all kernels: the tests of kernels run on an emulated GPU."""
    tool = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if tool is None:
        raise NotDone("there is no compute-sanitizer")
    for name, (model, precision) in CHECKED.items():
        recipe = write_run(machine, f"checked-{name}", model, precision, steps=2)
        command = [machine.program, "run", recipe, "--run-dir", f"runs/checked-{name}", "-q"]
        # Without the errors that calls of CUDA return: LibTorch asks for kinds of memory that a driver may refuse, and
        # does without them.
        checks = ["--tool", "memcheck", "--report-api-errors", "no", "--error-exitcode", "9"]
        done = machine.run(f"sanitizer-{name}", [tool, *checks, *command], 60)
        if "Device not supported" in done.output:
            raise NotDone("compute-sanitizer does not support this device")
        if done.code == "limit":
            found["notes"].append(f"{name}: not finished after {done.seconds:.0f} s")
        else:
            require(found, done)
