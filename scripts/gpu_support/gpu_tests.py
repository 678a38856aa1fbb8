# SPDX-License-Identifier: Apache-2.0
"""The tests labelled gpu, each test method as a process of its own with a limit: some share a GPU well."""
import ast
import concurrent.futures
import os
import re

import machine as machines

# Seven on an H200 with 16 cores took four times as long each as alone.
AT_A_TIME = 4
TEST_SECONDS = 240
LAYOUTS = 3  # of the random ones
# Those that took longest, which start first.
SLOW = ("gpus_learn_what_the_cpu", "same_bits", "a_rank_that_fails", "checkpoints", "numbers_that_change", "stop",
        "exchanges_that", "nccl", "evaluation", "ranks_that", "random_layouts")


def test_files(root):
    apps = root / "tests" / "apps"
    return [*sorted((apps / "emulated_gpu").glob("*_test.py")), apps / "ranks" / "gpu_ranks_test.py"]


def methods(path):
    """The tests of a file as unittest names them: Class.test_something."""
    classes = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]
    return [f"{each.name}.{node.name}" for each in classes for node in each.body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def choose_tests(root):
    """(name, file, method) of each, the slow ones first."""
    found = [(f"{path.stem}.{method.split('.')[1]}", path, method)
             for path in test_files(root) for method in methods(path)]
    return sorted(found, key=lambda test: next((i for i, word in enumerate(SLOW) if word in test[2]), len(SLOW)))


def outcome(done):
    """passed, failed, or skipped, as some are where a machine has one GPU."""
    if done.code == 77 or (done.code == 0 and re.search(r"^OK \(skipped=1\)", done.output, re.MULTILINE)):
        return "skipped"
    return "passed" if done.code == 0 else "failed"


def environment_of(machine):
    return {"LLMTRAIN_PROGRAM": str(machine.program), "LLMTRAIN_EMULATED_PROGRAM": str(machine.program),
            "LLMTRAIN_REAL_GPU": "1", "LLMTRAIN_LAYOUTS": str(LAYOUTS), "PYTHONPATH": str(machine.root / "tests" / "apps")}


def commands_of(machine):
    """(name, command) of each test."""
    commands = [(name, ["python3", path, "-v", method]) for name, path, method in choose_tests(machine.root)]
    nccl = machine.build / "tests" / "parallel_comm_nccl_test"
    return commands + ([("parallel_comm_nccl_test", [nccl])] if nccl.exists() else [])


def run(machine, found):
    if machine.device != "cuda":
        raise machines.NotDone("needs a GPU")
    counts, environment = {"passed": 0, "failed": 0, "skipped": 0}, environment_of(machine)
    found["seconds_by_test"] = {}
    at_a_time = max(1, min(AT_A_TIME, (os.cpu_count() or 2) // 2))
    with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
        waiting = {}
        for name, command in commands_of(machine):
            waiting[pool.submit(run_one, machine, name, command, environment)] = name
        for future in concurrent.futures.as_completed(waiting):
            done, name = future.result(), waiting[future]
            if done is None:
                found["notes"].append(f"{name}: no time left for it")
                continue
            result = outcome(done)
            counts[result] += 1
            found["seconds_by_test"][name] = done.seconds
            print(f"  {result:<8} {name} {done.seconds:.0f} s", flush=True)
            if result == "failed":
                found["failures"].append(done.failure())
    found["counts"] = counts


def run_one(machine, name, command, environment):
    """One test; none when the time of all is over."""
    return machine.run(name, command, TEST_SECONDS, environment) if machine.left() > 1 else None
