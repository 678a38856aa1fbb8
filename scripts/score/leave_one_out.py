# SPDX-License-Identifier: Apache-2.0
"""What decides the fitted constants: the errors of each source when it takes no part in the fit, and for each constant
the source that says most about it.

All fits start from the recipes' values and share one Jacobian, so that the whole takes a minute or two. Sources of
files that no fit reads (fit.FITTED) are left out always: their errors are those of scripts/score_planner.
"""

import math

import fit
import least_squares
import score

STEPS = 12
ON_BOUND = 0.02  # of the logarithm: as near as rounding to three digits
ALONE = 0.9  # share of what rows say about a constant from which one source decides it
UNKNOWN = 0.5  # likewise, share of the initial value


def spread(rows, predicted, chosen):
    """Mean absolute error, largest one and bias in percent over the rows with these indices."""
    errors = [score.error_of({**rows[i], "predicted": predicted[i]}) for i in chosen]
    return sum(map(abs, errors)) / len(errors), max(map(abs, errors)), sum(errors) / len(errors)


def errors_without(found, jacobian, values, source):
    """The constants fitted without a source, and the predictions that they give."""
    kept = found.without(source)
    rows = [fit.pick(row, kept) for row in jacobian]
    reached, _ = least_squares.improve(found.problem(kept), found.start, fit.pick(values, kept), rows, STEPS)
    return reached, found.predict(reached)


def leave_one_out(found, jacobian, values):
    """Per source: its name, number of rows, and its spread as stated and when it is left out, held-out rows included."""
    rows = found.tool.rows
    stated = [row["predicted"] for row in rows]
    lines, reached = [], {}
    for source in found.sources():
        of_source = [i for i, row in enumerate(rows) if row["source"] == source and fit.is_time(row)]
        reached[source], predicted = errors_without(found, jacobian, values, source)
        errors = [spread(rows, prediction, of_source) for prediction in (stated, predicted)]
        lines.append((source, len(of_source), *errors))
    return lines, reached


def information(found, jacobian, values):
    """Per constant: what each source says about it, as {source: sum of squared weighted derivatives}, what the initial
    value says, and the row that says most."""
    rows = found.tool.rows
    result = []
    for derivatives, prior in zip(jacobian, found.priors):
        by_source, best = {}, (0.0, None)
        for i, derivative, value in zip(found.chosen, derivatives, values):
            # Rows that contradict the others say less, as in the fit.
            said = derivative * derivative / (1 + value * value)
            by_source[rows[i]["source"]] = by_source.get(rows[i]["source"], 0.0) + said
            best = max(best, (said, i), key=lambda pair: pair[0])
        result.append((by_source, prior**2, best[1]))
    return result


def bound_of(found, index):
    """The bound of its range that a constant lies on, or nothing."""
    if found.start[index] - found.low[index] < ON_BOUND:
        return "lowest"
    return "highest" if found.high[index] - found.start[index] < ON_BOUND else ""


def name_of(parameter):
    """Owner and key in a few characters."""
    owner, name = parameter[0], parameter[1].strip("/").replace("/", ".")
    return {"": name, "G": f"all profiles: {name}", "A": f"A100: {name}", "H": f"H100: {name}"}.get(
        owner, f"{owner}: {name}"
    )


def verdict(by_source, prior):
    """Which sources decide a constant, in words."""
    said = sum(by_source.values())
    if prior >= UNKNOWN * (said + prior):
        return "no row: its initial value"
    ranked = sorted(by_source.items(), key=lambda item: -item[1])
    shares = [(source, share / said) for source, share in ranked if share >= 0.1 * said]
    text = "; ".join(f"{score.short_name(source)} {100 * share:.0f} %" for source, share in shares)
    return ("one source: " if shares[0][1] >= ALONE else "") + text


def constants(found, jacobian, values, reached):
    """Per constant: name, value, its range over the fits that leave a source out, bound, verdict, most telling row."""
    for index, (by_source, prior, best) in enumerate(information(found, jacobian, values)):
        others = [math.exp(found.start[index])] + [math.exp(x[index]) for x in reached.values()]
        row = "" if best is None else score.describe(found.tool.rows[best])
        yield (
            name_of(found.parameters[index]),
            math.exp(found.start[index]),
            (min(others), max(others)),
            bound_of(found, index),
            verdict(by_source, prior),
            row,
        )


def tables(found, with_rows=False):
    """Both tables as Markdown, with the row that says most about each constant if wanted."""
    problem = found.problem()
    values = problem.residuals(found.start)
    jacobian = problem.jacobian(found.start, values)
    errors, reached = leave_one_out(found, jacobian, values)
    yield "| source | rows | planned: mean, largest, bias | left out |"
    yield "|---|---|---|---|"
    for source, rows, stated, without in errors:
        cells = [f"{mean:.1f}, {largest:.1f}, {bias:+.1f}" for mean, largest, bias in (stated, without)]
        yield f"| {score.short_name(source)} | {rows} | {cells[0]} | {cells[1]} |"
    yield ""
    yield "| constant | value | without a source | bound | decided by |" + (" most telling row |" if with_rows else "")
    yield "|---|---|---|---|---|" + ("---|" if with_rows else "")
    for name, value, (least, most), bound, verdict_text, row in constants(found, jacobian, values, reached):
        line = f"| {name} | {value:.3g} | {least:.3g} – {most:.3g} | {bound} | {verdict_text} |"
        yield line + (f" {row} |" if with_rows else "")
