# SPDX-License-Identifier: Apache-2.0
"""Where two files of safetensors differ, tensor by tensor and bit by bit."""
import json
import struct

FORMATS = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "I32": "i", "U8": "B", "I8": "b"}


def read(path):
    """{name: (type, shape, bytes)} and the file's own entries."""
    content = path.read_bytes()
    start = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:start])
    notes = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = (start + offset for offset in entry["data_offsets"])
        tensors[name] = (entry["dtype"], entry["shape"], content[begin:end])
    return tensors, notes


def first_element(kind, before, after):
    """The first number in which two tensors of one type differ."""
    letter = FORMATS.get(kind)
    size = struct.calcsize(letter) if letter else 2 if kind == "BF16" else 1
    changed = [place for place in range(0, len(before), size) if before[place:place + size] != after[place:place + size]]
    values = [pair[changed[0]:changed[0] + size] for pair in (before, after)]
    shown = [repr(struct.unpack(f"<{letter}", each)[0]) if letter else "0x" + each[::-1].hex() for each in values]
    return f"{len(changed)} of {len(before) // size} elements, the first is {changed[0] // size}: {shown[0]}, then {shown[1]}"


def differences(before, after):
    """Yields a line for each tensor that differs between two files."""
    if before.read_bytes() == after.read_bytes():
        return
    (first, notes), (second, other_notes) = read(before), read(after)
    for name in [*first, *(name for name in second if name not in first)]:
        if name not in second or name not in first:
            yield f"{name}: only {'before' if name in first else 'after'}"
            continue
        (kind, shape, content), (other_kind, other_shape, other) = first[name], second[name]
        if (kind, shape) != (other_kind, other_shape):
            yield f"{name}: {kind} {shape}, then {other_kind} {other_shape}"
        elif content != other:
            yield f"{name}: {first_element(kind, content, other)}"
    if list(first) != list(second) and set(first) == set(second):
        yield "tensors are in another order"
    if notes != other_notes:
        yield f"__metadata__: {notes}, then {other_notes}"
