# SPDX-License-Identifier: Apache-2.0
"""Writes checkpoint folders (documented in core/checkpoint/manifest.h) with only Python's standard library."""
import hashlib
import json
import struct


def safetensors(tensors):
    """The bytes of a safetensors file of F32 tensors, given as {name: shape}; all values are 0.5."""
    header, offset = {}, 0
    for name, shape in tensors.items():
        count = 1
        for size in shape:
            count *= size
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + 4 * count]}
        offset += 4 * count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + struct.pack("<f", 0.5) * (offset // 4)


def seal(manifest):
    """The manifest's text with its own hash."""
    text = json.dumps(manifest)[:-1]
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f'{text},\n"sha256": "{digest}"\n}}\n'


def manifest_of(tensors, content, recipe, step):
    listed = [{"name": name, "dtype": "F32", "shape": shape, "scale": 1,
               "slices": [{"file": "part.safetensors", "offset": [0] * len(shape), "shape": shape}]}
              for name, shape in tensors.items()]
    return {"format": "llmtrain checkpoint", "version": 1, "step": step, "data_position": 2 * step, "seed": 1,
            "recipe": recipe, "tensors": listed,
            "files": [{"name": "part.safetensors", "bytes": len(content),
                       "sha256": hashlib.sha256(content).hexdigest()}]}


def write(folder, recipe, step=7, tensors=None, edit=None):
    """A complete checkpoint; `edit` may change the manifest before its hash is computed."""
    tensors = tensors or {"a.weight": [3, 4], "a.weight.m": [3, 4], "a.weight.v": [3, 4], "b": [5]}
    content = safetensors(tensors)
    manifest = manifest_of(tensors, content, recipe, step)
    if edit:
        edit(manifest)
    folder.mkdir(parents=True)
    (folder / "part.safetensors").write_bytes(content)
    (folder / "manifest.json").write_text(seal(manifest), encoding="utf-8")


def change_values(folder, change):
    """Rewrites the F32 tensors of a checkpoint: `change(name, values)` edits a list of floats in place."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    del manifest["sha256"]
    for entry in manifest["files"]:
        content = bytearray((folder / entry["name"]).read_bytes())
        start = 8 + struct.unpack("<Q", content[:8])[0]
        for name, tensor in json.loads(content[8:start]).items():
            if name == "__metadata__" or tensor["dtype"] != "F32":
                continue
            begin, end = (start + offset for offset in tensor["data_offsets"])
            values = list(struct.unpack(f"<{(end - begin) // 4}f", content[begin:end]))
            change(name, values)
            content[begin:end] = struct.pack(f"<{len(values)}f", *values)
        (folder / entry["name"]).write_bytes(content)
        entry["sha256"] = hashlib.sha256(content).hexdigest()
    (folder / "manifest.json").write_text(seal(manifest), encoding="utf-8")
