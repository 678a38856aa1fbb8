# SPDX-License-Identifier: Apache-2.0
"""Judges what runs leave: checkpoints, metrics and processes. Shares no code with the program: hashes are hashlib's,
tensors are read by the safetensors package, processes by /proc."""
import hashlib
import json
import math
import pathlib

import numpy
from safetensors import safe_open


class Loss(Exception):
    """Something that a run has promised to keep is lost or different."""


def manifest_of(folder):
    """The manifest, after its own hash and those of all files have been compared."""
    text = (folder / "manifest.json").read_text(encoding="utf-8")
    content, separator, seal = text.rpartition(',\n"sha256": "')
    if not separator or hashlib.sha256(content.encode()).hexdigest() != seal.split('"')[0]:
        raise Loss(f"{folder}: the manifest's hash is wrong")
    manifest = json.loads(text)
    for entry in manifest["files"]:
        data = (folder / entry["name"]).read_bytes()
        if len(data) != entry["bytes"] or hashlib.sha256(data).hexdigest() != entry["sha256"]:
            raise Loss(f"{folder / entry['name']}: size or hash is not the manifest's")
    return manifest


def slice_name(tensor, part):
    """The name of a slice in its file: the tensor's own if it is the whole tensor."""
    if part["shape"] == tensor["shape"]:
        return tensor["name"]
    bounds = (f"{first}:{first + length}" for first, length in zip(part["offset"], part["shape"]))
    return f"{tensor['name']}[{','.join(bounds)}]"


def read_state(folder):
    """{name: array} of a whole checkpoint, assembled from its slices, and the manifest. Every element of every tensor is
    there exactly once."""
    folder = pathlib.Path(folder)
    manifest = manifest_of(folder)
    files = {entry["name"]: safe_open(folder / entry["name"], framework="numpy") for entry in manifest["files"]}
    state = {}
    for tensor in manifest["tensors"]:
        whole, seen = None, numpy.zeros(tensor["shape"], dtype=numpy.uint8)
        for part in tensor["slices"]:
            values = files[part["file"]].get_tensor(slice_name(tensor, part))
            if list(values.shape) != part["shape"]:
                raise Loss(f"{folder}: {tensor['name']}: a slice has shape {values.shape}, not {part['shape']}")
            if whole is None:
                whole = numpy.zeros(tensor["shape"], dtype=values.dtype)
            place = tuple(slice(first, first + length) for first, length in zip(part["offset"], part["shape"]))
            whole[place] = values
            seen[place] += 1
        if whole is None or not (seen == 1).all():
            raise Loss(f"{folder}: {tensor['name']}: its slices do not cover it once")
        state[tensor["name"]] = whole
    return state, manifest


def require_same_state(folder, expected):
    """Raises Loss unless both checkpoints have bitwise the same tensors, step and data position."""
    (state, manifest), (wanted, other) = read_state(folder), read_state(expected)
    if sorted(state) != sorted(wanted):
        raise Loss(f"{folder}: has other tensors than {expected}")
    for name, values in state.items():
        if values.dtype != wanted[name].dtype or values.tobytes() != wanted[name].tobytes():
            raise Loss(f"{folder}: {name} differs from {expected}")
    for key in ("step", "data_position", "seed"):
        if manifest[key] != other[key]:
            raise Loss(f"{folder}: {key} is {manifest[key]}, not {other[key]}")


def rows_of(run):
    """The training rows of a run, by step. A row that is still being written does not count."""
    path = pathlib.Path(run) / "metrics.jsonl"
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    rows = (json.loads(line) for line in lines)
    return {row["step"]: row for row in rows if "loss" in row}


def require_same_losses(run, expected, tolerance=0.0):
    """Raises Loss unless the run has every step once and its losses: equal, or to a relative tolerance."""
    rows, wanted = rows_of(run), rows_of(expected)
    if list(rows) != list(range(1, max(wanted) + 1)):
        raise Loss(f"{run}: has {len(rows)} rows that are not steps 1 to {max(wanted)}")
    for step, row in rows.items():
        loss = wanted[step]["loss"]
        if not math.isclose(row["loss"], loss, rel_tol=tolerance, abs_tol=0):
            raise Loss(f"{run}: step {step} has loss {row['loss']!r} instead of {loss!r}")


def newest_checkpoint(run):
    """The folder that `latest` names, or None."""
    latest = pathlib.Path(run) / "checkpoints" / "latest"
    return latest.parent / latest.read_text().strip() if latest.exists() else None


def running(identity):
    """Whether a process (pid, start time) has not ended."""
    return identity_of(identity[0]) == identity


def identity_of(pid):
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else (int(pid), fields[19])


def processes_below(pid):
    """The processes that a process has started, and those that these have, as (pid, start time)."""
    try:
        tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return
    for child in children:
        identity = identity_of(child)
        if identity:
            yield identity
        yield from processes_below(child)


def rank_of(pid):
    """The rank that mpirun has given a process; None for others."""
    try:
        variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    prefix = b"OMPI_COMM_WORLD_RANK="
    return next((int(each[len(prefix):]) for each in variables if each.startswith(prefix)), None)
