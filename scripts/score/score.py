# SPDX-License-Identifier: Apache-2.0
"""Scores the planner against the published measurements in recipes/published.

Every row is planned as `llmtrain plan` plans it, with the profile and the program that its file names. Prints the mean
and the largest absolute error per source, for the rows that the constants were fitted to and for the third of each
source that is held out of every fit. Errors are those of step times and of the fullest rank's memory, in percent; for
bubble fractions they are differences in hundredths, for volumes those of the bytes.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = ("calibration.csv", "programs.csv", "llmtrain.csv", "trainers.csv", "megatron-bridge.csv")
NOT_TIME = ("bubble_fraction", "data_parallel_communication", "peak_memory")
SHORT_NAMES = {
    "arXiv 2205.05198 Table 5": "arXiv 2205.05198, recompute",
    "SC21 Megatron-LM Table 1": "Megatron-LM (SC21), table 1",
    "SC21 Megatron-LM Table 2": "Megatron-LM (SC21), table 2, pipelines and DeepSpeed's ZeRO-3",
    "FP8-LM (arXiv 2310.18313v2) Table 5": "FP8-LM, table 5",
    "Zero Bubble (arXiv 2401.10241) Tables 4-5": "Zero Bubble",
    "Megatron-LM README H100 table (2024)": "Megatron-LM README, H100",
    "vTrain ground truth (multi-node, MIT)": "vTrain, several nodes",
    "vTrain ground truth (single node, MIT)": "vTrain, one node",
    "llm-foundry benchmarking README (Apache-2.0)": "llm-foundry",
    "torchtitan benchmarks/llama3_h100_202412 (H100 96 GB HBM2e 500 W)": "torchtitan, H100",
    "NeMo 24.12 performance summary (H100 FP8)": "NeMo, H100, FP8",
    "Megatron MoE model zoo / Core MoE README": "Megatron-Core with experts, H100",
    "BigScience tr11-176B chronicles (A100 80 GB, 4 x 100 Gb/s)": "BLOOM, A100",
    "BigScience chronicles, further runs (tr11-176B, A100 80 GB, 4 x 100 Gb/s)": "BLOOM, A100, further runs",
    "IBM fms-fsdp README": "fms-fsdp, 12 nodes of H100",
    "Fast-LLM docs": "Fast-LLM",
    "FlashAttention training README (8 x A100 80 GB)": "flash-attention's trainer, A100",
    "llmtrain on one H200 (1,024-token sequences, random tokens, 12 steps, median)": "llmtrain, one H200",
    "nanotron ultrascale-playbook benchmarks_interactive.html (H100, AWS EFA; settings of huggingface/nanotron scripts/scaling_benchmarks.py)": "nanotron, best runs, H100",
    "nanotron sweep (ultrascale-playbook benchmarks_interactive.html; H100, AWS EFA)": "nanotron, further runs, H100",
    "IST-DASLab/llmq benchmarks/H100x1.md, H100x8.md": "llmq, one and eight H100",
    "NVIDIA/dgxc-benchmarking v24.11.1 llama3.1 (NeMo 24.09, DGX H100)": "NeMo, Llama 3.1, H100",
    "NVIDIA/dgxc-benchmarking v24.11.1 nemo_megatron 175B (H100)": "NeMo, GPT-3, H100",
    "karpathy/llm.c scripts/run_gpt2_*.sh; modded-nanogpt records 2024-10-13_llmc": "llm.c, A100 and H100",
    "pytorch/torchtune README optimization flags (A100, Llama 3.2 3B)": "torchtune, A100",
    "fms-fsdp, 12 nodes of H100, A100": "fms-fsdp, 16 nodes of A100",
    "Aleph-Alpha/NeurIPS-WANT-submission-efficient-parallelization-layouts (arXiv 2311.05610, DGX A100)": "Efficient Parallelization Layouts, A100",
    "MT-NLG (arXiv 2201.11990) section 2.4": "MT-NLG, A100",
    "GPT-NeoX-20B (arXiv 2204.06745) and configs/20B.yml": "GPT-NeoX-20B, A100",
    "NVIDIA-NeMo/Automodel docs/performance-summary.md (October 2025, DGX H100)": "NeMo AutoModel with experts, H100",
    "NVIDIA/JAX-Toolbox docs/frameworks/maxtext (DGX H100)": "MaxText, H100",
    "QwenLM/Qwen README, profiling of memory and speed (A100-SXM4-80G, PEFT)": "Qwen with PEFT's LoRA, A100",
    "NVIDIA-NeMo/Automodel LoRA benchmarks (docs/performance-summary, October 2025, DGX H100)": "NeMo AutoModel with LoRA, H100",
    "Megatron Bridge, dense models (NVIDIA-NeMo/Megatron-Bridge docs/performance-summary.md, containers 25.09 to 26.06)": "Megatron Bridge, dense models",
    "Megatron Bridge, experts (NVIDIA-NeMo/Megatron-Bridge docs/performance-summary.md, containers 25.09 to 26.04.01)": "Megatron Bridge, experts",
    ", h100-sxm-80gb": ", H100",
    ", a100-80gb": ", A100",
    ": bubble_fraction": ", bubble fraction",
    ": data_parallel_communication": ", bytes of data-parallel traffic",
    ": peak_memory": ", memory",
}
FEWEST_ROWS = 4  # of a program, that say how far its plans are off
RATES = (
    "samples_per_second",
    "samples_per_second_per_device",
    "tokens_per_second_per_device",
    "model_tflops_per_device",
)


def read_rows(command):
    """The score tool's output for each row."""
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def error_of(row):
    """Signed error in percent, positive where the prediction is slower or larger."""
    predicted, value = row["predicted"], row["value"]
    if row["metric"] == "bubble_fraction":
        return 100 * (predicted - value)
    return 100 * ((value / predicted if row["metric"] in RATES else predicted / value) - 1)


def short_name(source):
    """A source's name without what is in parentheses, as tables have it."""
    for long, short in SHORT_NAMES.items():
        source = source.replace(long, short)
    return source


def source_of(row):
    """The line of the table that a row counts in."""
    name = row["source"]
    if name.startswith("llm-foundry"):
        name += ", " + row["hardware"]
    return name + (f": {row['metric']}" if row["metric"] in NOT_TIME else "")


def nodes_of(row):
    """The line of the table by nodes that a row counts in."""
    nodes = row["recipes"][0]["cluster"]["nodes"]
    return f"{source_of(row)}, {nodes} node{'s' if nodes > 1 else ''}"


def describe(row):
    """A row's recipe in a few words."""
    recipe = row["recipes"][0]
    model, batch, parallel = recipe["model"], recipe["batch"], recipe["parallel"]
    recompute = "half" if len(row["recipes"]) > 1 else recipe["memory"]["recompute"]
    return (
        f"layers {model['layers']} hidden {model['hidden_size']} sequence {model['max_sequence_length']} "
        f"batch {batch['global']}/{batch['micro']} tensor {parallel['tensor']} pipeline {parallel['pipeline']} "
        f"loops {recipe['pipeline']['loops']} data {parallel['data']} zero {parallel['zero_stage']} "
        f"recompute {recompute} fp8 {recipe['precision']['fp8_level']} program {recipe['cluster']['program']}"
    )


def line_of(errors):
    """Rows, mean and largest error."""
    if not errors:
        return f"{0:5d} {'-':>6} {'-':>6}"
    absolute = [abs(error) for error in errors]
    return f"{len(errors):5d} {sum(absolute) / len(absolute):6.2f} {max(absolute):6.1f}"


def print_table(rows, name_of, with_rows):
    """One line per name: fitted rows, held-out rows and all rows, each with mean and largest error."""
    names = {row_name: [row for row in rows if name_of(row) == row_name] for row_name in map(name_of, rows)}
    width = 2 + max(map(len, names))
    print(f"{'':{width}}{'fitted':>19}  {'held out':>19}  {'all':>19}")
    print(f"{'source':{width}}" + "  ".join([f"{'rows':>5} {'mean':>6} {'max':>6}"] * 3))
    for name, of_name in names.items():
        fitted = [error_of(row) for row in of_name if not row["held_out"]]
        held_out = [error_of(row) for row in of_name if row["held_out"]]
        print(f"{name:{width}}{line_of(fitted)}  {line_of(held_out)}  {line_of(fitted + held_out)}")
        for row in of_name if with_rows else ():
            mark = "held out" if row["held_out"] else "fitted"
            print(f"  {error_of(row):7.1f}  {mark:8}  {row['value']:>9g} {row['predicted']:10.4g}  {describe(row)}")


def print_inexact(rows):
    """The rows that no recipe states, with the reason and the error of the nearest recipe."""
    for row in rows:
        print(f"not counted: {error_of(row):6.1f}  {row['source']}: {describe(row)}: {row['inexact']}")


def markdown(rows):
    """The table of docs/planner.md."""
    yield "| source | rows | fitted: mean, largest | held out: mean, largest | all: mean |"
    yield "|---|---|---|---|---|"
    for name in dict.fromkeys(map(source_of, rows)):
        errors = {key: [] for key in (False, True)}
        for row in rows:
            if source_of(row) == name:
                errors[row["held_out"]].append(abs(error_of(row)))
        both = errors[False] + errors[True]
        cells = [f"{sum(part) / len(part):.1f}, {max(part):.1f}" if part else "–" for part in errors.values()]
        yield f"| {short_name(name)} | {len(both)} | {cells[0]} | {cells[1]} | {sum(both) / len(both):.1f} |"


def accuracy(rows):
    """What recipes/scores/accuracy.json states of step times and of memory."""
    table = {"description": "Errors of plans against published runs; written by scripts/score_planner --accuracy."}
    for quantity in ("step", "memory"):
        of_quantity = [row for row in rows if quantity_of(row) == quantity]
        programs = {}
        for row in of_quantity:
            programs.setdefault(row["recipes"][0]["cluster"]["program"], []).append(row)
        by_program = {program: accuracy_line(programs[program]) for program in sorted(programs)}
        table[quantity] = {"all": accuracy_line(of_quantity), "by_program": by_program}
    return json.dumps(table, indent=2) + "\n"


def quantity_of(row):
    """What a row says of plans' accuracy: "step", "memory", or nothing that plans state an error of."""
    if row["metric"] == "peak_memory":
        return "memory"
    return None if row["metric"] in NOT_TIME else "step"


def accuracy_line(rows):
    """Number of rows, their stated error as a fraction, and the most devices of one."""
    return {"rows": len(rows), "error": round(stated_error(rows), 4), "devices": max(map(devices_of, rows))}


def stated_error(rows):
    """The root mean square of errors, or where more than a tenth of them are larger than twice that, what makes twice
    the stated error hold nine tenths."""
    errors = sorted(abs(error_of(row)) / 100 for row in rows)
    largest_of_nine_tenths = errors[math.ceil(0.9 * len(errors)) - 1]
    return max(math.sqrt(sum(error**2 for error in errors) / len(errors)), largest_of_nine_tenths / 2)


def coverage(rows, stated):
    """A table with, for each source, how many rows lie within twice the error that plans of their programs state."""
    yield "| source | rows | stated error | within twice |"
    yield "|---|---|---|---|"
    within = {"step": [], "memory": []}
    for name in dict.fromkeys(source_of(row) for row in rows if quantity_of(row)):
        of_source = [row for row in rows if source_of(row) == name]
        errors = [stated_of(row, stated) for row in of_source]
        inside = [abs(error_of(row)) <= 200 * error for row, error in zip(of_source, errors)]
        within[quantity_of(of_source[0])] += inside
        least, most = (f"{100 * error:.1f}" for error in (min(errors), max(errors)))
        error = least if least == most else f"{least} to {most}"
        yield f"| {short_name(name)} | {len(inside)} | {error} | {sum(inside)} |"
    for quantity, inside in within.items():
        yield f"| all, {quantity} | {len(inside)} | | {sum(inside)}, {100 * sum(inside) / len(inside):.0f} % |"


def stated_of(row, stated):
    """The error that a plan of a row's program states (parallel/plan/accuracy): that of all programs where its own has
    too few rows and no worse program has enough."""
    quantity = stated[quantity_of(row)]
    own = quantity["by_program"][row["recipes"][0]["cluster"]["program"]]
    if own["rows"] >= FEWEST_ROWS:
        return own["error"]
    enough = [of["error"] for of in quantity["by_program"].values() if of["rows"] >= FEWEST_ROWS]
    return max([quantity["all"]["error"], *enough])


def devices_of(row):
    """On how many devices a row was measured."""
    recipe = row["recipes"][0]
    return math.prod(recipe["parallel"][axis] for axis in ("tensor", "context", "pipeline", "data"))


def main():
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="scripts/score_planner", description=__doc__)
    parser.add_argument("--tool", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--recipes", default=str(ROOT / "recipes"), help="folder of cluster profiles and programs")
    parser.add_argument("--rows", action="store_true", help="show every row; with --leave-one-out the one that says most about each constant")
    parser.add_argument("--nodes", action="store_true", help="a line per source and number of nodes")
    parser.add_argument("--markdown", action="store_true", help="print the table of docs/planner.md")
    parser.add_argument(
        "--stated", action="store_true", help="print the table of stated errors of docs/planner.md"
    )
    parser.add_argument(
        "--accuracy", action="store_true", help="write the errors that plans state to recipes/scores/accuracy.json"
    )
    parser.add_argument("--fit", type=int, metavar="ROUNDS", help="repeat the fit and print it as JSON")
    parser.add_argument(
        "--leave-one-out", action="store_true", help="refit without each source in turn, and say what decides constants"
    )
    parser.add_argument(
        "--without-programs",
        action="store_true",
        help="print the errors of sources as planned, and where nothing is known of their programs",
    )
    parser.add_argument(
        "--fits", action="store_true", help="list the runs of which plans need more memory than their devices have"
    )
    arguments = parser.parse_args()
    command = [arguments.tool, arguments.recipes]
    if arguments.fit is not None or arguments.leave_one_out:
        return print_fit(command, arguments)
    command += [str(ROOT / "recipes/published" / name) for name in FILES]
    rows = read_rows(command)
    priced = [row for row in rows if row["predicted"] is not None]
    counted = [row for row in priced if not row["inexact"]]
    if arguments.without_programs or arguments.fits:
        print("\n".join(generality_lines(command, counted, arguments)))
        return 0
    if arguments.accuracy:
        file = pathlib.Path(arguments.recipes) / "scores/accuracy.json"
        file.write_text(accuracy(counted), encoding="utf-8")
        return 0
    if arguments.stated:
        stated = json.loads((pathlib.Path(arguments.recipes) / "scores/accuracy.json").read_text(encoding="utf-8"))
        print("\n".join(coverage(counted, stated)))
        return 0
    if arguments.markdown:
        print("\n".join(markdown(counted)))
        return 0
    print_table(counted, nodes_of if arguments.nodes else source_of, arguments.rows)
    print_inexact([row for row in priced if row["inexact"]])
    print(f"{len(rows) - len(priced)} rows of parts of the memory are tested by plan_memory_test")
    return 0


def generality_lines(command, counted, arguments):
    """What --without-programs and --fits print."""
    import generality

    if arguments.fits:
        yield from generality.unfit_lines(counted)
    if arguments.without_programs:
        unnamed = read_rows(command + ["--as=" + generality.UNNAMED])
        kept = [row for row in unnamed if row["predicted"] is not None and not row["inexact"]]
        yield from generality.unnamed_table(counted, kept)


def print_fit(command, arguments):
    """The fit of the constants, or what decides them."""
    import fit
    import leave_one_out

    tool = fit.Tool(command + [str(ROOT / "recipes/published" / name) for name in fit.FITTED])
    found = fit.Fit(tool, pathlib.Path(arguments.recipes))
    if arguments.leave_one_out:
        for line in leave_one_out.tables(found, arguments.rows):
            print(line, flush=True)
        return 0
    fitted, _ = fit.fit(found, arguments.fit)
    print(json.dumps(fit.as_overrides(found, fitted), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
