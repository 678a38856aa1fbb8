# SPDX-License-Identifier: Apache-2.0
"""The GPUs of this machine, and what programs need to find them."""
import os
import re
import subprocess

SKIPPED = 77
# The variables by which programs find visible GPUs and the libraries of CUDA, Open MPI and llmtrain.
NEEDED = ("CUDA", "NCCL", "NVIDIA", "LD_", "OMPI_", "OPAL_", "PMIX_", "LLMTRAIN_RUNTIME", "LLMTRAIN_PROFILES")


def count_gpus():
    """The GPUs that the driver shows to this process."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    total = len(re.findall(r"^GPU \d+:", listed, re.MULTILINE))
    return total if visible is None else min(total, len([word for word in visible.split(",") if word]))


def gpu_environment():
    return {name: value for name, value in os.environ.items() if name.startswith(NEEDED)}
