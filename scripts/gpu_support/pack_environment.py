# SPDX-License-Identifier: Apache-2.0
"""The environment of what scripts/pack-gpu packs, where it was unpacked: env.sh there evaluates what this prints."""
import importlib.util
import os
import pathlib
import shlex

ROOT = pathlib.Path(__file__).resolve().parents[2]


def is_pack(root):
    """Whether the folder is an unpacked pack, which brings its own libraries, and not a checkout."""
    return (root / "lib").is_dir() and (root / "openmpi").is_dir()


def torch_folders(site):
    """The folders of LibTorch's and CUDA's libraries in the packages' folder of a Python that has PyTorch."""
    return [site / "torch" / "lib", *sorted(site.glob("nvidia/*/lib"))]


def packages_folder():
    """Where this Python has PyTorch, found without importing it, which takes seconds; None: nowhere."""
    found = importlib.util.find_spec("torch")
    return pathlib.Path(found.submodule_search_locations[0]).parent if found else None


def variables(root, site, environment):
    """{name: value} for programs of the pack at `root`, with LibTorch below `site`."""
    folders = [root / "build", root / "lib", *(torch_folders(site) if site else [])]
    before = environment.get("LD_LIBRARY_PATH")
    mpi = root / "openmpi"
    return {
        "LD_LIBRARY_PATH": ":".join([*map(str, folders), *([before] if before else [])]),
        "PATH": f"{root / 'build'}:{mpi / 'bin'}:{environment.get('PATH', '/usr/bin:/bin')}",
        "OPAL_PREFIX": str(mpi),
        # Without them PMIx loads those of this machine's own Open MPI, of whatever version it is.
        "PMIX_MCA_mca_base_component_path": str(mpi / "pmix"),
        # Where it looks for them nevertheless, it shall not say that their compression is missing.
        "PMIX_MCA_pcompress": "^zlib",
        "PMIX_MCA_pcompress_base_silence_warning": "1",
        "PMIX_MCA_mca_base_component_show_load_errors": "0",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_plm": "isolated",
        "LLMTRAIN_RUNTIME": str(root / "build" / "libllmtrain_runtime.so"),
        "LLMTRAIN_PROFILES": str(root / "recipes" / "clusters"),
    }


if __name__ == "__main__":
    for name, value in variables(ROOT, packages_folder(), os.environ).items():
        print(f"export {name}={shlex.quote(value)}")
