# SPDX-License-Identifier: Apache-2.0
"""Where two JSON values differ. Times may differ in their last bits, everything else may not.

What is left of a time after another one is taken away, such as communication that nothing hides, has errors of the
times: it is compared with the longest one beside it."""
import math
import re

# Figures that are computed from times, by the last name on their path or one above it.
TIMES = re.compile(r"seconds|per_second|tflops|mfu|hfu|hours|price|fraction|goodput|saving|percent")
TOLERANCE = 1e-12


def is_time(path):
    return any(TIMES.search(part) for part in path)


def longest_time(value, path=()):
    """The largest number of seconds in a JSON value."""
    if isinstance(value, dict):
        return max((longest_time(each, (*path, key)) for key, each in value.items()), default=0)
    if isinstance(value, list):
        return max((longest_time(each, path) for each in value), default=0)
    return abs(value) if is_number(value) and path and path[-1].endswith("seconds") and math.isfinite(value) else 0


def same_number(first, second, path, longest):
    if first == second or (math.isnan(first) and math.isnan(second)):
        return True
    if not is_time(path):
        return False
    largest = longest if path[-1].endswith("seconds") else 1 if path[-1].endswith("fraction") else 0
    return math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=TOLERANCE * largest)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def name_of(path):
    return ".".join(path) or "the value"


def differences(first, second, path=(), longest=None):
    """Yields a line for each place where the values differ."""
    longest = longest_time(first) if longest is None else longest
    if is_number(first) and is_number(second):
        if not same_number(first, second, path, longest):
            yield f"{name_of(path)}: {first!r}, then {second!r}"
    elif type(first) is not type(second):
        yield f"{name_of(path)}: {short(first)}, then {short(second)}"
    elif isinstance(first, dict):
        for key in [*first, *(key for key in second if key not in first)]:
            if key in first and key in second:
                yield from differences(first[key], second[key], (*path, key), longest)
            else:
                yield f"{name_of((*path, key))}: only {'before' if key in first else 'after'}"
    elif isinstance(first, list):
        if len(first) != len(second):
            yield f"{name_of(path)}: {len(first)} elements, then {len(second)}"
        for index, (left, right) in enumerate(zip(first, second)):
            yield from differences(left, right, (*path, str(index)), longest)
    elif first != second:
        yield f"{name_of(path)}: {short(first)}, then {short(second)}"


def short(value):
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def first_difference(before, after):
    """The first line in which two texts differ; None where none does."""
    left, right = before.splitlines(), after.splitlines()
    for number, (one, other) in enumerate(zip(left, right), 1):
        if one != other:
            return f"line {number}: {short(one)}, then {short(other)}"
    return f"{len(left)} lines, then {len(right)}" if len(left) != len(right) else None
