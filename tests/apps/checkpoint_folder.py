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
