# SPDX-License-Identifier: Apache-2.0
"""Tries llmtrain on this machine's GPU: its tests, its speed beside PyTorch's, its plans.

Takes at most a quarter of an hour, and needs no network and no package but PyTorch for CUDA, whose Python
LLMTRAIN_PYTHON names. Works in a checkout with a build folder and in an unpacked pack of scripts/pack-gpu. Writes
result.json, table.md, first-failure.log and what all commands have said to --output. Ends with 0, with 1 if something
failed, and with 77 where there is no GPU. What could not be done is named in the table and is no failure.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import time
import traceback

import gpu_tests
import machine as machines
import shapes
import short_parts
import speed
import table

ROOT = pathlib.Path(__file__).resolve().parents[2]
# (function, seconds at most). Plans of the timed shapes use what calibrate has measured.
PARTS = {"roofs": (short_parts.roofs, 60), "calibrate": (short_parts.calibrate, 120), "speed": (speed.run, 480),
         "ranks": (short_parts.ranks, 120), "tests": (gpu_tests.run, 360), "sanitizer": (short_parts.sanitizer, 150)}


def choose_parts(only, skip):
    return [name for name in PARTS if (not only or name in only) and name not in skip]


def run_part(name, machine, end):
    """One part within its limit; whatever goes wrong in it is a failure of it alone."""
    function, limit = PARTS[name]
    found, start = {"status": "passed", "notes": [], "failures": []}, time.monotonic()
    machine.deadline = min(start + limit, end)
    print(f"{name}: at most {machine.left():.0f} s", flush=True)
    try:
        if machine.left() < 5:
            raise machines.NotDone("no time left for it")
        function(machine, found)
    except machines.NotDone as reason:
        found["status"] = "not done"
        found["notes"].append(str(reason))
    except Exception:  # noqa: BLE001 - the other parts are still worth their time
        found["failures"].append({"name": name, "code": None, "log": traceback.format_exc()})
    if found["failures"]:
        found["status"] = "failed"
    found["seconds"] = time.monotonic() - start
    print(f"{name}: {found['status']} after {found['seconds']:.0f} s {table.summary(name, found)}", flush=True)
    return found


def write(result, folder):
    """After each part, so that a run that is cut off leaves what it has found."""
    (folder / "result.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    (folder / "table.md").write_text(table.table(result), encoding="utf-8")
    failure = table.first_failure(result)
    if failure:
        text = f"{failure[0]}: {failure[1]['name']} ({failure[1]['code']})\n{failure[1]['log']}\n"
        (folder / "first-failure.log").write_text(text, encoding="utf-8")


def join(files):
    """One result with the parts of several, of which the last one that was done counts."""
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    joined = {**results[0], "parts": {}}
    for name in PARTS:
        found = [result["parts"][name] for result in results if name in result["parts"]]
        if found:
            joined["parts"][name] = ([part for part in found if part["status"] != "not done"] or found)[-1]
    return joined


def revision():
    named = ROOT / "REVISION"
    if named.exists():
        return named.read_text(encoding="utf-8").strip()
    said = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return said.stdout.strip()


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/prove-gpu", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder (default: build)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[], help="do these parts alone")
    parser.add_argument("--skip", nargs="+", choices=PARTS, default=[], help="leave these parts out")
    parser.add_argument("--models", nargs="+", choices=shapes.MODELS, default=list(shapes.MODELS),
                        help="shapes to time")
    parser.add_argument("--limit", type=float, default=870, metavar="SECONDS", help="for all parts (default: 870)")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "runs" / "prove-gpu", metavar="FOLDER")
    parser.add_argument("--join", nargs="+", type=pathlib.Path, metavar="JSON",
                        help="print the table of several results and do nothing")
    parser.add_argument("--rehearse", action="store_true", help="try all of this on a processor, which proves nothing")
    return parser.parse_args()


def prepare(options, gpu):
    options.output.mkdir(parents=True, exist_ok=True)
    device = "cpu" if options.rehearse else "cuda"
    machine = machines.Machine(ROOT, options.build.resolve(), options.output.resolve(), device)
    if not machine.program.exists():
        sys.exit(f"scripts/prove-gpu: there is no {machine.program}; run scripts/build, or name a folder with --build")
    shutil.rmtree(machine.folder / "runs", ignore_errors=True)
    machine.gpu, machine.profile = gpu, None
    machine.models = list(shapes.REHEARSAL) if options.rehearse else options.models
    return machine


def main():
    options = parse_arguments()
    if options.join:
        print(table.table(join(options.join)), end="")
        return 0
    gpu = None if options.rehearse else machines.describe_gpu()
    if gpu is None and not options.rehearse:
        print("no GPU: nothing proven")
        return 77
    end = time.monotonic() + options.limit
    machine = prepare(options, gpu)
    result = {"gpu": gpu, "revision": revision(), "parts": {}}
    for name in choose_parts(options.only, options.skip):
        result["parts"][name] = run_part(name, machine, end)
        write(result, machine.folder)
    print(f"\n{table.table(result)}\n{machine.folder}/table.md, result.json and log have all of it")
    if options.rehearse:
        print("no GPU: nothing proven")
        return 77
    return 1 if table.first_failure(result) else 0


if __name__ == "__main__":
    sys.exit(main())
