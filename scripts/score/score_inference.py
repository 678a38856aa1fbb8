# SPDX-License-Identifier: Apache-2.0
"""Plans every row of recipes/published/serving/aiconfigurator.csv, as llmtrain plan --inference does, and prints the
errors of time per token and time to first token by program, model and device, in per cent."""
import argparse
import collections
import csv
import json
import pathlib
import statistics
import subprocess
import sys

RECIPES = pathlib.Path(__file__).resolve().parents[2] / "recipes"
ROWS = RECIPES / "published" / "serving" / "aiconfigurator.csv"
WEIGHTS = {"bf16": "compute", "fp8": "fp8", "fp4": "fp4"}
# Rows do not say in what type keys and values are cached: these programs' benchmarks of quantised models take FP8, and
# SGLang's on B200, which ran more sequences at a time than have room in 16 bits.
FP8_CACHE = {"vllm", "tensorrt-llm"}
FP8_CACHE_ON = {("sglang", "b200")}


def read_rows():
    with open(ROWS, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def states_layout(row):
    """Some rows say 0 of how many devices share an expert and of how many have others; they count nowhere."""
    return int(row["expert_tensor"]) > 0 or int(row["expert"]) > 0


def ran_fewer(row, plan):
    """Rows of a server that was told how many requests it may run at once, which no column says: by the times of the
    row (Little's law) less than a quarter of them ran, though all have room. They count nowhere."""
    answer = float(row["per_token_ms"]) * (int(row["generated"]) - 1)
    share = answer / (answer + float(row["first_token_ms"]))
    return plan["running"] == int(row["batch"]) and share < 1 / 4


def wait_passes(row):
    """TensorRT-LLM served Llama 3 70B with batch_wait_timeout_iters 20 for these lengths on fewer than eight devices
    (SemiAnalysisAI/InferenceX up to October 2025, benchmarks/70b_*_trt_*.sh)."""
    served = row["program"] == "tensorrt-llm" and row["model"] == "llama3-70b" and int(row["tensor"]) < 8
    return 20 if served and row["prompt"] == row["generated"] == "1024" else 0


def has_fp8_cache(row):
    return row["program"] in FP8_CACHE or (row["program"], row["hardware"]) in FP8_CACHE_ON


def devices_of(row):
    """Attention may be on fewer devices than the experts, each of which then has its own sequences."""
    return max(int(row["tensor"]), int(row["expert_tensor"]) * int(row["expert"]))


def line_of(row):
    """What inference_tool reads: the bundled model on one node of so many devices, and the requests."""
    recipe = json.loads((RECIPES / "models" / f"{row['model']}.json").read_text(encoding="utf-8"))
    devices = devices_of(row)
    recipe["model"]["max_sequence_length"] = int(row["prompt"]) + int(row["generated"])
    recipe["batch"]["sequence_length"] = 128
    recipe["parallel"] = {}
    recipe.pop("pipeline", None)
    recipe["cluster"] = {"profile": row["hardware"], "program": row["program"], "nodes": 1, "devices_per_node": devices,
                         "device": "cuda"}
    is_small = row["precision"] != "bf16"
    attention = "batch" if int(row["tensor"]) == 1 and 1 < devices <= int(row["batch"]) else "heads"
    request = {"batch": row["batch"], "prompt": row["prompt"], "generated": row["generated"], "batching": "continuous",
               "weights": WEIGHTS[row["precision"]], "devices": devices, "prefill.weights": "1d",
               "decode.weights": "1d", "prefill.attention": "heads", "decode.attention": attention,
               "cache": "fp8" if is_small and has_fp8_cache(row) else "compute"}
    if wait_passes(row):
        request["wait_passes"] = wait_passes(row)
    if "moe" in recipe["model"]:
        request["experts"] = "experts" if int(row["expert"]) > 1 else "features"
    return json.dumps({"recipe": recipe, "request": ",".join(f"{key}={value}" for key, value in request.items())})


def plans_of(tool, rows):
    result = subprocess.run([tool, RECIPES], input="\n".join(map(line_of, rows)), capture_output=True, text=True,
                            check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def errors_of(pairs):
    """Mean error and median ratio, in per cent and as a factor."""
    ratios = [plan / measured for plan, measured in pairs]
    return 100 * statistics.mean(abs(ratio - 1) for ratio in ratios), statistics.median(ratios)


def figures(entries):
    token, ratio = errors_of([(plan["per_token_seconds"] * 1e3, float(row["per_token_ms"])) for row, plan in entries])
    first, first_ratio = errors_of([(plan["first_token_seconds"] * 1e3, float(row["first_token_ms"]))
                                    for row, plan in entries])
    return [len(entries), f"{token:.1f}", f"{ratio:.2f}", f"{first:.1f}", f"{first_ratio:.2f}"]


def table(planned):
    groups = collections.defaultdict(list)
    for row, plan in planned:
        groups[row["program"], row["model"], row["hardware"], row["precision"]].append((row, plan))
    lines = [[*key, *figures(entries)] for key, entries in sorted(groups.items())]
    for name, chosen in (("all fitted", [each for each in planned if not each[0]["held_out"]]),
                         ("all held out", [each for each in planned if each[0]["held_out"]]), ("all", planned)):
        lines.append([name, "", "", "", *figures(chosen)])
    return lines


def markdown(planned):
    """The lines of the table of docs/inference.md."""
    return ["| " + " | ".join(map(str, line)) + " |" for line in table(planned)]


def planned_rows(tool):
    """The rows that count, each with its plan."""
    rows = [row for row in read_rows() if states_layout(row)]
    places = collections.Counter()
    for row in rows:
        # Every third row of a program decided no constant.
        row["held_out"] = places[row["program"]] % 3 == 2
        places[row["program"]] += 1
    planned = []
    for row, plan in zip(rows, plans_of(tool, rows), strict=True):
        if "refused" in plan:
            print(f"refused: {row}: {plan['refused']}", file=sys.stderr)
        elif not ran_fewer(row, plan):
            planned.append((row, plan))
    return planned


def main():
    parser = argparse.ArgumentParser(prog="scripts/score_planner --inference", description=__doc__)
    parser.add_argument("--tool", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print each row with its plan, one per line")
    arguments = parser.parse_args()
    planned = planned_rows(arguments.tool)
    if arguments.json:
        for row, plan in planned:
            print(json.dumps({"row": row, "plan": plan}))
        return
    print("| program | model | device | weights | rows | per token: mean | ratio | first token: mean | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    for line in markdown(planned):
        print(line)


if __name__ == "__main__":
    main()
