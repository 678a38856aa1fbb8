# SPDX-License-Identifier: Apache-2.0
"""What differs between the results that two builds have left of a case."""
import json

import tensors
import values

# Names of files that depend on times, and of those that describe a run to people.
UNCOMPARED = {"metrics.prom", "report.html", "plan.json", "plan.html", ".lock", "recipe.json"}
# The console's lines say times, and names in the cache depend on when the data was written.
UNCOMPARED_FOLDERS = {"log", "data-cache"}
# Keys of metrics and of manifests that may differ: times, memory of the process, and the resolved recipe, whose keys
# may grow.
UNCOMPARED_KEYS = {"step_seconds", "tokens_per_second", "mfu", "memory_bytes", "recipe"}


def of_case(before, after):
    """Yields a line for each difference."""
    if before.codes != after.codes:
        yield f"exit codes {before.codes}, then {after.codes}: {last_line(before)} | {last_line(after)}"
        return
    for number, outputs in enumerate(zip(before.outputs, after.outputs), 1):
        yield from (f"output of command {number}: {line}" for line in of_texts(*outputs))
    if before.refused():
        difference = values.first_difference(before.errors[-1], after.errors[-1])
        if difference:
            yield f"refusal: {difference}"
        return
    yield from of_folders(before.folder, after.folder)


def last_line(result):
    lines = (result.errors[-1] if result.errors else "").strip().splitlines()
    return lines[-1] if lines else "nothing said"


def cleaned(value, uncompared=frozenset(UNCOMPARED_KEYS)):
    """A JSON value without what is not compared."""
    if isinstance(value, dict):
        return {key: cleaned(each, uncompared) for key, each in value.items() if key not in uncompared}
    return [cleaned(each, uncompared) for each in value] if isinstance(value, list) else value


def parsed(text):
    """The JSON value of a text, or the list of values of its lines; None if it is something else."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return None


def of_texts(before, after):
    if before == after:
        return
    first, second = parsed(before), parsed(after)
    if first is None or second is None:
        difference = values.first_difference(before, after)
        if difference:
            yield difference
        return
    yield from values.differences(cleaned(first, {"recipe"}), cleaned(second, {"recipe"}))


def compared_files(folder):
    for path in folder.rglob("*"):
        name = path.name
        relative = path.relative_to(folder)
        if path.is_file() and name not in UNCOMPARED and UNCOMPARED_FOLDERS.isdisjoint(relative.parts):
            yield relative


def of_folders(before, after):
    first, second = set(compared_files(before)), set(compared_files(after))
    for path in sorted(first ^ second):
        yield f"{path}: only {'before' if path in first else 'after'}"
    for path in sorted(first & second):
        yield from (f"{path}: {line}" for line in of_files(before, after, path))


def of_files(before, after, path):
    """Compares a file that both folders of a case have."""
    if path.suffix == ".safetensors":
        yield from tensors.differences(before / path, after / path)
        return
    contents = [(folder / path).read_bytes() for folder in (before, after)]
    if contents[0] == contents[1]:
        return
    # Manifests name the checkpoint that a run began from.
    first, second = (content.decode("utf-8", "replace").replace(str(folder), "FOLDER")
                     for content, folder in zip(contents, (before, after)))
    if path.name == "timeline.json":
        yield from of_timelines(json.loads(first), json.loads(second))
    elif path.name == "manifest.json":
        yield from values.differences(of_manifest(first), of_manifest(second))
    elif path.name == "metrics.jsonl":
        uncompared = UNCOMPARED_KEYS | ({"tensor_bytes"} if has_ranks((before / path).parent) else set())
        yield from values.differences(cleaned(parsed(first), uncompared), cleaned(parsed(second), uncompared))
    else:
        yield from of_texts(first, second)


def has_ranks(run):
    """Whether a run has several ranks, threads whose peaks of memory coincide or not."""
    recipe = json.loads((run / "recipe.json").read_text(encoding="utf-8"))
    return recipe["launch"]["ranks"] not in (1, "auto")


def of_manifest(text):
    """Without hashes: they are of contents, which are compared, and of the recipe."""
    manifest = cleaned(json.loads(text))
    manifest.pop("sha256", None)
    manifest["files"] = [{key: value for key, value in file.items() if key != "sha256"} for file in manifest["files"]]
    return manifest


def of_timelines(before, after):
    """Times of the events are rounded to nanoseconds, so that two that are equal to 1e-12 may differ by one."""
    for timeline in (before, after):
        timeline["events"] = timeline.pop("traceEvents")
    pairs = list(zip(before["events"], after["events"]))
    for first, second in pairs:
        for key in ("ts", "dur"):
            if key in first and key in second and abs(first[key] - second[key]) < 0.0015:
                second[key] = first[key]
    yield from values.differences(before, after)
