# SPDX-License-Identifier: Apache-2.0
"""How far plans carry to what nobody fitted: the errors of each source where it had no part in what plans are made of.

What of a source's rows the fit reads (fit.FITTED), is planned with constants that were refitted without it. All other
rows are planned as a program without a file, of which nothing is known but what all programs have: what the file of
their own program says was decided by them in part, or written by who had read them. Of programs without a file nothing
is left out.
"""

import score

UNNAMED = "megatron-lm"  # its file states no fact
ALONE = 1.0  # of the device's memory


def spread(errors):
    """Mean, largest and bias of signed errors in percent."""
    absolute = [abs(error) for error in errors]
    return f"{sum(absolute) / len(absolute):.1f}, {max(absolute):.1f}, {sum(errors) / len(errors):+.1f}"


def unnamed_lines(rows, unnamed):
    """Per source of programs with a file: its name, the number of its rows, and its errors as planned and as a program
    without a file."""
    by_source = {}
    for row, other in zip(rows, unnamed):
        if row["recipes"][0]["cluster"]["program"] == UNNAMED or not score.quantity_of(row):
            continue
        by_source.setdefault(score.source_of(row), []).append((score.error_of(row), score.error_of(other)))
    for source, errors in by_source.items():
        stated, without = zip(*errors)
        yield score.short_name(source), len(errors), spread(stated), spread(without)


def unnamed_table(rows, unnamed):
    """These lines as Markdown."""
    yield "| source | rows | planned: mean, largest, bias | without its program's file |"
    yield "|---|---|---|---|"
    for source, count, stated, without in unnamed_lines(rows, unnamed):
        yield f"| {source} | {count} | {stated} | {without} |"


def unfit(rows):
    """Rows of runs that ran and of which plans need more memory than there is, the largest share first."""
    ran = [row for row in rows if row["memory_share"] > ALONE and not row["inexact_memory"]]
    return sorted(ran, key=lambda row: -row["memory_share"])


def unfit_lines(rows):
    """A line for each of these rows, and one for all."""
    found = unfit(rows)
    for row in found:
        yield f"{row['memory_share']:6.3f} of the memory  {score.short_name(score.source_of(row))}: {score.describe(row)}"
    yield f"{len(found)} of {len(rows)} runs that ran need more memory by their plans than there is"
