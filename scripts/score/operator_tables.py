# SPDX-License-Identifier: Apache-2.0
"""Derives the section "operators" of cluster profiles from measured times of single operators, and says how far lookups
are from measurements.

PRODUCTS is a CSV file of columns device, rows, columns, inner and a time in microseconds by type (bf16, fp8,
fp8_block, nvfp4), ATTENTION one of columns device, program, head_dim, batch, sequence, heads, kv_heads and microseconds, the
forward of causal attention in bf16, and COLLECTIVES one of columns device, collective, ranks, bytes and microseconds, of
NCCL in one node. `device` is the name of a cluster profile. Of attention the faster of two programs counts. Errors are
those of shapes that a table was fitted to, of every fifth shape, left out of another table, and of every fifth pair of
columns and inner size (of attention: of heads and heads per key), left out of a third.
"""

import argparse
import csv
import json
import math
import pathlib
import sys

import operator_grid

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
PRODUCT_STEEPEST = (1, 1, 1)
ATTENTION_STEEPEST = (2, 1, None, 1)
COLLECTIVE_STEEPEST = (None, 1)
COLLECTIVE_NAMES = {"alltoall": "all_to_all"}
TYPES = ("bf16", "fp8", "fp8_block", "nvfp4")
LEFT_OUT = 5  # one shape or pair in so many
# What a profile states beside tables, with AIConfigurator's values for passes over memory of all devices.
NUMBERS = {"training_speed": 1, "memory_fraction": 0.8, "memory_seconds": 3e-06, "fp8_cast_seconds": 0}
# Profiles of devices that were not measured, with the nearest that was.
BORROWED = {"a100-40gb": "a100-80gb", "a100-80gb-800gbps": "a100-80gb", "v100-32gb": "a100-80gb"}
SOURCE = (
    "measured one by one (AIConfigurator, NVIDIA, Apache-2.0: medians of TensorRT-LLM and vLLM), as a grid that "
    "scripts/operator_tables derives from 80 % of the shapes; collectives are those of NCCL in one node from the same "
    "source, all of them"
)


def profile_file(name):
    """The file of a cluster profile."""
    return ROOT / "recipes/clusters" / f"{name}.json"


def peaks(name):
    """The dense peak by type, in FLOP/s."""
    peak = json.loads(profile_file(name).read_text())["device"]["peak_flops"]
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


class Measured:
    """The measured efficiencies of one operator and type on one device."""

    def __init__(self, axes, steepest, seconds, flops, peak, pair_of):
        self.axes, self.steepest = dict(axes), steepest
        self.shapes = sorted(seconds)
        self.efficiencies = [flops(shape) / seconds[shape] / peak for shape in self.shapes]
        self.pair_of = pair_of
        for place, (name, sizes) in enumerate(self.axes.items()):
            # Nothing beyond what was measured, but two sizes at least.
            largest = max(shape[place] for shape in self.shapes)
            kept = [size for size in sizes if size <= largest]
            self.axes[name] = kept if len(kept) > 1 else list(sizes[:2])
        self.grid = operator_grid.Grid(list(self.axes.values()))

    def fit(self, left_out=()):
        """The table, from all shapes but those with these indices."""
        kept = [i for i in range(len(self.shapes)) if i not in left_out]
        shapes, values = [self.shapes[i] for i in kept], [self.efficiencies[i] for i in kept]
        return operator_grid.fit(self.grid, shapes, values, self.steepest)

    def errors(self, table, chosen):
        """Absolute errors of times, in percent, in increasing order."""
        found = (self.efficiencies[i] / self.grid.read(table, self.shapes[i]) - 1 for i in chosen)
        return sorted(100 * abs(error) for error in found)

    def scores(self):
        """Number of shapes, and the median and the ninetieth of a hundred errors: of those that the table was fitted
        to, of shapes and of pairs that were left out."""
        everything = range(len(self.shapes))
        pairs = sorted({self.pair_of(shape) for shape in self.shapes})
        out = set(pairs[LEFT_OUT // 2 :: LEFT_OUT]) if len(pairs) >= LEFT_OUT else set()
        groups = (
            set(everything[LEFT_OUT // 2 :: LEFT_OUT]),
            {i for i in everything if self.pair_of(self.shapes[i]) in out},
        )
        yield len(self.shapes), quantiles(self.errors(self.fit(), everything))
        for group in groups:
            if group:
                yield len(group), quantiles(self.errors(self.fit(group), sorted(group)))


def quantiles(errors):
    """Median and ninetieth of a hundred."""
    return errors[len(errors) // 2], errors[len(errors) * 9 // 10]


def measured(products, attention, collectives):
    """{device: {"products": {type: Measured}, "attention": {type: Measured}, "collectives": {collective: Measured}}}"""
    found = {}
    for (device, kind), seconds in products.items():
        one = Measured(PRODUCT_AXES, PRODUCT_STEEPEST, seconds, product_flops, peaks(device)[kind], lambda s: s[1:])
        found.setdefault(device, {"products": {}, "attention": {}, "collectives": {}})["products"][kind] = one
    for device, seconds in attention.items():
        peak = peaks(device)["bf16"]
        one = Measured(ATTENTION_AXES, ATTENTION_STEEPEST, seconds, attention_flops, peak, lambda s: s[1:3])
        found[device]["attention"]["bf16"] = one
    for (device, kind), seconds in sorted(collectives.items()):
        link = json.loads(profile_file(device).read_text())["node"]["link_bandwidth"]
        axes, sent = COLLECTIVE_AXES, sent_bytes(kind)
        found[device]["collectives"][kind] = Measured(axes, COLLECTIVE_STEEPEST, seconds, sent, link, lambda s: s[:1])
    return found


def section(device, by_operator, numbers):
    """The text of a profile's section with these numbers, its lists a line for each combination of the first sizes."""
    lines = ["  " + '"operators": {', f'    "measured_on": {json.dumps(device)},']
    lines += [f"    {json.dumps(name)}: {json.dumps(value)}," for name, value in numbers.items()]
    for operator, by_type in by_operator.items():
        first = next(iter(by_type.values()))
        entries = [f"      {json.dumps(name)}: {json.dumps(sizes)}" for name, sizes in first.axes.items()]
        for kind, one in by_type.items():
            table, run = one.fit(), len(one.grid.axes[-1]) * (len(one.grid.axes[-2]) if len(one.grid.axes) > 3 else 1)
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
    known = json.loads(text).get("operators", {})
    numbers = {key: known.get(key, value) for key, value in NUMBERS.items()}
    origin = SOURCE if name == device else f"borrowed from {device}: {SOURCE}"
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
    parser.add_argument("collectives", type=pathlib.Path, metavar="COLLECTIVES")
    parser.add_argument("--write", action="store_true", help="write the tables into recipes/clusters")
    arguments = parser.parse_args()
    found = measured(
        read_products(arguments.products),
        read_attention(arguments.attention),
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
