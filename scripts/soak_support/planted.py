# SPDX-License-Identifier: Apache-2.0
"""Losses that are planted in what a good run has left: the checker must find each."""
import hashlib
import json
import shutil
import subprocess

import checker


def seal(folder, manifest):
    manifest.pop("sha256")
    text = json.dumps(manifest)[:-1]
    digest = hashlib.sha256(text.encode()).hexdigest()
    (folder / "manifest.json").write_text(f'{text},\n"sha256": "{digest}"\n}}\n')


def change_file(folder, change):
    """Changes the first file's bytes, and makes the hashes those of the changed file."""
    manifest = json.loads((folder / "manifest.json").read_text())
    entry = manifest["files"][0]
    content = bytearray((folder / entry["name"]).read_bytes())
    change(content)
    (folder / entry["name"]).write_bytes(content)
    entry["sha256"] = hashlib.sha256(content).hexdigest()
    seal(folder, manifest)


def flip_last_bit(content):
    content[-1] ^= 1


def in_manifest(folder, change):
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    seal(folder, manifest)


def flip_without_hash(folder):
    path = next(folder.glob("*.safetensors"))
    content = bytearray(path.read_bytes())
    flip_last_bit(content)
    path.write_bytes(content)


def edit_metrics(run, change):
    path = run / "metrics.jsonl"
    path.write_text(change(path.read_text()))


def plants(run):
    """[(what is planted, how)], each for a run's folder."""
    checkpoint = checker.newest_checkpoint(run).name
    folder = lambda copy: copy / "checkpoints" / checkpoint  # noqa: E731
    return [
        ("a flipped bit", lambda copy: flip_without_hash(folder(copy))),
        ("another weight", lambda copy: change_file(folder(copy), flip_last_bit)),
        ("another step", lambda copy: in_manifest(folder(copy), lambda manifest: manifest.update(step=1))),
        ("a missing tensor", lambda copy: in_manifest(folder(copy), lambda manifest: manifest["tensors"].pop())),
        ("a missing slice", lambda copy: in_manifest(folder(copy),
                                                     lambda manifest: manifest["tensors"][0]["slices"].pop())),
        ("a missing row", lambda copy: edit_metrics(copy, lambda text: text.split("\n", 1)[1])),
        ("another loss", lambda copy: edit_metrics(copy, lambda text: text.replace('"loss":', '"loss":1', 1)))]


def is_found(copy, run):
    try:
        checker.require_same_state(checker.newest_checkpoint(copy), checker.newest_checkpoint(run))
        checker.require_same_losses(copy, run)
    except checker.Loss:
        return True
    return False


def finds_orphan():
    child = subprocess.Popen(["sleep", "60"])
    try:
        return checker.running(checker.identity_of(child.pid))
    finally:
        child.kill()
        child.wait()


def planted(runs, _):
    run = runs.finish("planted", {"training.steps": 4, "launch.ranks": 2, "launch.backend": "local"})
    if is_found(run, run):
        raise checker.Loss("the checker finds a loss where there is none")
    missed = [] if finds_orphan() else ["a running process"]
    cases = plants(run)
    for what, plant in cases:
        copy = runs.folder / "planted-copy"
        shutil.copytree(run, copy)
        plant(copy)
        if not is_found(copy, run):
            missed.append(what)
        shutil.rmtree(copy)
    if missed:
        raise checker.Loss(f"the checker does not find {', '.join(missed)}")
    return f"{len(cases) + 1} of {len(cases) + 1} found"
