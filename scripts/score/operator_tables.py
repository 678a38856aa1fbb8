# SPDX-License-Identifier: Apache-2.0
"""Derives the section "operators" of cluster profiles from measured times of single operators, and says how far lookups
are from measurements.

PRODUCTS is a CSV file of columns device, rows, columns, inner and a time in microseconds by type (bf16, fp8,
fp8_block, nvfp4), ATTENTION one of columns device, program, head_dim, batch, sequence, heads, kv_heads and microseconds, the
forward of causal attention in bf16, EXPERTS one that scripts/score/grouped_products.py describes, and COLLECTIVES one of
columns device, collective, ranks, bytes and microseconds, of NCCL in one node. `device` is the name of a cluster
profile. Of attention the faster of two programs counts. Errors are those of shapes that a table was fitted to, of every
fifth shape, left out of another table, and of every fifth pair of columns and inner size (of attention: of heads and
heads per key; of experts: of the model's and their width), left out of a third.
"""

import argparse
import csv
import json
import math
import pathlib
import sys

import grouped_products
import operator_grid
from measured import Measured, device_of, profile_file

PRODUCT_AXES = {
    "rows": (512, 1024, 2048, 4096, 8192, 16384, 32768),
    "columns": (512, 1024, 2048, 4096, 8192, 16384, 65536),
    "inner": (512, 1024, 2048, 4096, 8192, 16384, 65536),
}
ATTENTION_AXES = {
    "sequence": (512, 1024, 2048, 4096, 8192, 16384),
    "heads": (1, 4, 16, 64, 256, 1024, 4096),
    "heads_per_key": (1, 32),
    "head_size": (64, 128),
}
COLLECTIVE_AXES = {"ranks": (2, 4, 8), "bytes": tuple(512 * 4**i for i in range(11))}
# The time of an operator grows with each of its sizes; of a collective among more ranks each sends another share.
PRODUCT_STEEPEST = operator_grid.steepest((1, 1, 1))
ATTENTION_STEEPEST = operator_grid.steepest((2, 1, None, 1))
COLLECTIVE_STEEPEST = operator_grid.steepest((None, 1))
COLLECTIVE_NAMES = {"alltoall": "all_to_all"}
TYPES = ("bf16", "fp8", "fp8_block", "nvfp4")
SHORTEST_LINE = 5  # numbers; of less than these two axes are in a line
# What a profile states beside tables, with AIConfigurator's values for passes over memory of all devices.
NUMBERS = {"training_speed": 1, "memory_fraction": 0.8, "memory_seconds": 3e-06, "fp8_cast_seconds": 0}
# Profiles of devices that were not measured, with the nearest that was.
BORROWED = {"a100-40gb": "a100-80gb", "a100-80gb-800gbps": "a100-80gb", "v100-32gb": "a100-80gb"}
SOURCE_END = "from the same source, all of them"
SOURCE = (
    "measured one by one (AIConfigurator, NVIDIA, Apache-2.0: medians of TensorRT-LLM and vLLM), as a grid that "
    "scripts/operator_tables derives from 80 % of the shapes; grouped products are what forwards of experts take beside "
    "their passes over memory; collectives are those of NCCL in one node " + SOURCE_END
)


def numbers_of(name):
    """What a profile states beside its tables, or would."""
    known = json.loads(profile_file(name).read_text()).get("operators", {})
    return {key: known.get(key, value) for key, value in NUMBERS.items()}


def peaks(name):
    """The dense peak by type, in FLOP/s."""
    peak = device_of(name)["peak_flops"]
    return {"bf16": peak["bf16"], "fp8": peak["fp8"], "fp8_block": peak["fp8"], "nvfp4": peak.get("fp4")}


def read_products(file):
    """{(device, type): {(rows, columns, inner): seconds}}"""
    found = {}
    for row in csv.DictReader(file.open()):
        shape = tuple(int(row[key]) for key in PRODUCT_AXES)
        for kind in TYPES:
            if row[kind]:
                found.setdefault((row["device"], kind), {})[shape] = float(row[kind]) * 1e-6
    return found


def read_attention(file):
    """{device: {(sequence, heads, heads per key, head size): seconds}} of the faster of two programs, heads counted over
    the batch; shapes that one program alone has are left out."""
    times = {}
    for row in csv.DictReader(file.open()):
        batch, heads = int(row["batch"]), int(row["heads"])
        shape = (int(row["sequence"]), batch * heads, heads / int(row["kv_heads"]), int(row["head_dim"]), batch)
        times.setdefault((row["device"], shape), []).append(float(row["microseconds"]) * 1e-6)
    found = {}
    for (device, shape), seconds in times.items():
        if len(seconds) == 2:
            found.setdefault(device, {}).setdefault(shape[:4], []).append(min(seconds))
    # The same heads in other batches are the same work.
    return {device: {shape: sum(list_) / len(list_) for shape, list_ in of.items()} for device, of in found.items()}


def read_collectives(file):
    """{(device, collective): {(ranks, bytes of the whole tensor): seconds}}"""
    found = {}
    for row in csv.DictReader(file.open()):
        kind = COLLECTIVE_NAMES.get(row["collective"], row["collective"])
        shape = (int(row["ranks"]), int(row["bytes"]))
        found.setdefault((row["device"], kind), {})[shape] = float(row["microseconds"]) * 1e-6
    return found


def sent_bytes(kind):
    """Bytes that one rank sends of a tensor around a ring, by shape, which efficiencies count."""
    directions = 2 if kind == "all_reduce" else 1
    return lambda shape: directions * (shape[0] - 1) / shape[0] * shape[1]


def product_flops(shape):
    """A multiply-add counts as two."""
    return 2 * math.prod(shape)


def attention_flops(shape):
    """Two products without the masked half."""
    sequence, heads, _, size = shape
    return 2 * heads * sequence * sequence * size


def efficiencies(seconds, work, peak):
    """{shape: what was done in a second, relative to the peak}"""
    return {shape: work(shape) / time / peak for shape, time in seconds.items()}


def measured(products, attention, experts, collectives):
    """{device: {operator: {type, or name of a collective: Measured}}}"""
    found = {}
    for (device, kind), seconds in products.items():
        values = efficiencies(seconds, product_flops, peaks(device)[kind])
        one = Measured(PRODUCT_AXES, PRODUCT_STEEPEST, values, lambda s: s[1:])
        of = found.setdefault(device, {key: {} for key in ("products", "attention", "grouped_products", "collectives")})
        of["products"][kind] = one
    for device, seconds in attention.items():
        values = efficiencies(seconds, attention_flops, peaks(device)["bf16"])
        found[device]["attention"]["bf16"] = Measured(ATTENTION_AXES, ATTENTION_STEEPEST, values, lambda s: s[1:3])
    for device, seconds in experts.items():
        one = grouped_products.MeasuredExperts(device, seconds, numbers_of(device))
        found[device]["grouped_products"]["bf16"] = one
    for (device, kind), seconds in sorted(collectives.items()):
        link = json.loads(profile_file(device).read_text())["node"]["link_bandwidth"]
        values = efficiencies(seconds, sent_bytes(kind), link)
        found[device]["collectives"][kind] = Measured(COLLECTIVE_AXES, COLLECTIVE_STEEPEST, values, lambda s: s[:1])
    return found


def section(device, by_operator, numbers):
    """The text of a profile's section with these numbers, its lists a line for each combination of the first sizes."""
    lines = ["  " + '"operators": {', f'    "measured_on": {json.dumps(device)},']
    lines += [f"    {json.dumps(name)}: {json.dumps(value)}," for name, value in numbers.items()]
    for operator, by_type in by_operator.items():
        first = next(iter(by_type.values()))
        entries = [f"      {json.dumps(name)}: {json.dumps(sizes)}" for name, sizes in first.axes.items()]
        for kind, one in by_type.items():
            table, run = one.fit(), len(one.grid.axes[-1])
            if run < SHORTEST_LINE:
                run *= len(one.grid.axes[-2])
            rows = [", ".join(f"{v:g}" for v in table[i : i + run]) for i in range(0, len(table), run)]
            text = ",\n".join("        " + row for row in rows)
            entries.append(f"      {json.dumps(kind)}: [\n{text}\n      ]")
        lines.append(f"    {json.dumps(operator)}: {{\n" + ",\n".join(entries) + "\n    },")
    lines[-1] = lines[-1].rstrip(",")
    return "\n".join(lines) + "\n  },\n"


def without_section(text):
    """A profile's text without its section and that section's source."""
    start = text.find('  "operators": {')
    if start >= 0:
        text = text[:start] + text[text.index('  "memory": {', start) :]
    kept = [line for line in text.splitlines(True) if not line.startswith('    "operators": "')]
    return "".join(kept)


def write(name, device, by_operator):
    """Puts the tables of a device into a profile, before its section "memory". Its other numbers stay."""
    text = profile_file(name).read_text()
    numbers = numbers_of(name)
    origin = SOURCE if name == device else f"borrowed from {device}: {SOURCE}"
    # What follows says where the numbers are from.
    origin += json.loads(text)["sources"].get("operators", "").partition(SOURCE_END)[2]
    text = without_section(text)
    text = text.replace('  "memory": {', section(device, by_operator, numbers) + '  "memory": {', 1)
    head, tail = text.split('  "sources": {\n', 1)
    tail = tail.replace('    "memory": "', f'    "operators": {json.dumps(origin)},\n    "memory": "', 1)
    profile_file(name).write_text(head + '  "sources": {\n' + tail)


def markdown(found):
    """The table of docs/planner.md: errors by device, operator and type."""
    yield "| device | operator | type | shapes | fitted | shapes left out | pairs left out |"
    yield "|---|---|---|---|---|---|---|"
    for device, by_operator in sorted(found.items()):
        for operator, by_type in by_operator.items():
            for kind, one in by_type.items():
                scores = list(one.scores())
                cells = " | ".join(f"{middle:.1f}, {most:.1f}" for _, (middle, most) in scores)
                cells += " | –" * (3 - len(scores))
                yield f"| {device} | {operator} | {kind} | {scores[0][0]:,} | {cells} |"


def main():
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="scripts/operator_tables", description=__doc__)
    parser.add_argument("products", type=pathlib.Path, metavar="PRODUCTS")
    parser.add_argument("attention", type=pathlib.Path, metavar="ATTENTION")
    parser.add_argument("experts", type=pathlib.Path, metavar="EXPERTS")
    parser.add_argument("collectives", type=pathlib.Path, metavar="COLLECTIVES")
    parser.add_argument("--write", action="store_true", help="write the tables into recipes/clusters")
    arguments = parser.parse_args()
    found = measured(
        read_products(arguments.products),
        read_attention(arguments.attention),
        grouped_products.read(arguments.experts),
        read_collectives(arguments.collectives),
    )
    if arguments.write:
        for device, by_operator in found.items():
            for name in [device] + [name for name, other in BORROWED.items() if other == device]:
                write(name, device, by_operator)
        return 0
    for line in markdown(found):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
