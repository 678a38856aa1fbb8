# SPDX-License-Identifier: Apache-2.0
"""Where two JSON values differ. Times may differ in their last bits, everything else may not."""
import math
import re

# Figures that are computed from times, by the last name on their path or one above it.
TIMES = re.compile(r"seconds|per_second|tflops|mfu|hfu|hours|price|fraction|goodput|saving|percent")
TOLERANCE = 1e-12


def is_time(path):
    return any(TIMES.search(part) for part in path)


def same_number(first, second, path):
    if first == second or (math.isnan(first) and math.isnan(second)):
        return True
    return is_time(path) and math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=0)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def name_of(path):
    return ".".join(path) or "the value"


def differences(first, second, path=()):
    """Yields a line for each place where the values differ."""
    if is_number(first) and is_number(second):
        if not same_number(first, second, path):
            yield f"{name_of(path)}: {first!r}, then {second!r}"
    elif type(first) is not type(second):
        yield f"{name_of(path)}: {short(first)}, then {short(second)}"
    elif isinstance(first, dict):
        for key in [*first, *(key for key in second if key not in first)]:
            if key in first and key in second:
                yield from differences(first[key], second[key], (*path, key))
            else:
                yield f"{name_of((*path, key))}: only {'before' if key in first else 'after'}"
    elif isinstance(first, list):
        if len(first) != len(second):
            yield f"{name_of(path)}: {len(first)} elements, then {len(second)}"
        for index, (left, right) in enumerate(zip(first, second)):
            yield from differences(left, right, (*path, str(index)))
    elif first != second:
        yield f"{name_of(path)}: {short(first)}, then {short(second)}"


def short(value):
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def first_difference(before, after):
    """Of two texts, the first line that differs; None where none does."""
    left, right = before.splitlines(), after.splitlines()
    for number, (one, other) in enumerate(zip(left, right), 1):
        if one != other:
            return f"line {number}: {short(one)}, then {short(other)}"
    return f"{len(left)} lines, then {len(right)}" if len(left) != len(right) else None
