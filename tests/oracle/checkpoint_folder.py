# SPDX-License-Identifier: Apache-2.0
"""Writes and reads checkpoint folders (documented in core/checkpoint/manifest.h) with the safetensors package."""
import hashlib
import json

import safetensors.torch
import torch

DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16"}


def write(folder, weights, recipe):
    """A checkpoint without optimizer state, as `training.init_from` accepts it."""
    folder.mkdir(parents=True)
    file = folder / "weights.safetensors"
    safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in weights.items()}, file)
    content = file.read_bytes()
    tensors = [{"name": name, "dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "scale": 1,
                "slices": [{"file": file.name, "offset": [0] * tensor.dim(), "shape": list(tensor.shape)}]}
               for name, tensor in weights.items()]
    manifest = {"format": "llmtrain checkpoint", "version": 1, "step": 0, "data_position": 0, "seed": 0,
                "recipe": recipe, "tensors": tensors,
                "files": [{"name": file.name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}]}
    text = json.dumps(manifest)[:-1]
    digest = hashlib.sha256(text.encode()).hexdigest()
    (folder / "manifest.json").write_text(f'{text},\n"sha256": "{digest}"\n}}\n', encoding="utf-8")


def slice_name(tensor, part):
    """What a slice is called in its file (core/checkpoint/tensor_slice.h)."""
    if part["shape"] == tensor["shape"]:
        return tensor["name"]
    ranges = (f"{start}:{start + size}" for start, size in zip(part["offset"], part["shape"], strict=True))
    return f"{tensor['name']}[{','.join(ranges)}]"


def read(folder):
    """Every logical tensor of the checkpoint, assembled from its slices."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    files = {file["name"]: safetensors.torch.load_file(folder / file["name"]) for file in manifest["files"]}
    tensors = {}
    for tensor in manifest["tensors"]:
        parts = [(part, files[part["file"]][slice_name(tensor, part)]) for part in tensor["slices"]]
        whole = torch.empty(tensor["shape"], dtype=parts[0][1].dtype)
        for part, values in parts:
            box = tuple(slice(start, start + size) for start, size in zip(part["offset"], part["shape"], strict=True))
            whole[box] = values
        tensors[tensor["name"]] = whole
    return tensors
