# SPDX-License-Identifier: Apache-2.0
"""Packs a build for a machine with a GPU that has PyTorch for CUDA, a C library at least as new as this machine's, and
neither the project's packages nor a network: the program, its libraries, Open MPI, the tests labelled gpu and what
scripts/prove-gpu needs. Prints the size, which must stay below 50 MB.

There: tar -xf llmtrain-gpu.tar.xz && llmtrain-gpu/scripts/prove-gpu. `. llmtrain-gpu/env.sh` sets a shell up for
llmtrain itself. Both take the PyTorch of `python3`, prove-gpu that of LLMTRAIN_PYTHON where it is named.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_BYTES = 50_000_000
PROGRAMS = ("llmtrain", "lib*.so", "bench/step_worker", "bench/lib*.so", "tests/parallel_comm_nccl_test", "tests/libkernel_times.so")
SOURCES = ("scripts/prove-gpu", "scripts/gpu_support/*.py", "scripts/bench_support/torch_*.py",
           "scripts/bench_support/worker.py", "tests/oracle/model_settings.py", "tests/apps/*.py",
           "tests/apps/emulated_gpu/*.py", "tests/apps/ranks/gpu_ranks_test.py", "recipes/**/*.json")
# Every machine that runs PyTorch for CUDA has these, or they are its own: the C and C++ runtimes, the driver.
SYSTEM = re.compile(
    r"(linux-vdso|ld-linux.*|lib(c|m|dl|pthread|rt|util|resolv|gcc_s|stdc\+\+|gomp|cuda|nvidia-ml))\.so[.\d]*")
# Found beside PyTorch.
TORCH = re.compile(r"/(torch|nvidia|cuda[^/]*)/")
ENVIRONMENT = """# SPDX-License-Identifier: Apache-2.0
# For a shell that shall run the packed llmtrain and mpirun: . env.sh
eval "$(PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "${BASH_SOURCE[0]}")/scripts/gpu_support/pack_environment.py")"
"""


def output_of(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)  # what a link points to, not the link


def copy_open_mpi(folder):
    """mpirun and its components, as they lie below Open MPI's prefix, and PMIx's components: mpirun and ranks load both
    while they run. It needs no further program on one machine."""
    paths = dict(line.split(":")[1:] for line in output_of("ompi_info", "--parsable", "--path", "all").splitlines()
                 if line.startswith("path:"))
    prefix = pathlib.Path(paths["prefix"])
    for name in ("pkglibdir", "pkgdatadir"):
        source = pathlib.Path(paths[name])
        shutil.copytree(source, folder / source.relative_to(prefix))
    copy(pathlib.Path(paths["bindir"]) / "mpirun", folder / "bin" / "mpirun")
    (folder / "pmix").mkdir()
    for library in pathlib.Path(paths["pkglibdir"]).glob("mca_pmix_ext*.so"):
        pmix = [pathlib.Path(path).resolve() for name, path in needed(library) if name.startswith("libpmix.")]
        for component in pmix[0].parent.glob("pmix/*.so") if pmix else []:
            copy(component, folder / "pmix" / component.name)


def needed(binary):
    """(name, path) of each library that the loader finds for a binary here."""
    for line in output_of("ldd", binary).splitlines():
        found = re.match(r"\s*(\S+) => (/\S+)", line)
        if found:
            yield found[1], found[2]


def is_binary(path):
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def binaries(folder):
    return [path for path in sorted(folder.rglob("*")) if is_binary(path)]


def copy_libraries(folder):
    (folder / "lib").mkdir()
    for binary in binaries(folder):
        for name, path in needed(binary):
            target = folder / "lib" / name
            is_ours = (folder / "build" / name).exists()
            if not SYSTEM.fullmatch(name) and not TORCH.search(path) and not is_ours and not target.exists():
                copy(path, target)


def fill(folder, build):
    for pattern in PROGRAMS:
        for path in sorted(build.glob(pattern)):
            copy(path, folder / "build" / path.relative_to(build))
    for pattern in SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            copy(path, folder / path.relative_to(ROOT))
    copy_open_mpi(folder / "openmpi")
    copy_libraries(folder)
    (folder / "env.sh").write_text(ENVIRONMENT, encoding="utf-8")
    revision = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    (folder / "REVISION").write_text(revision.stdout, encoding="utf-8")
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-unneeded", *binaries(folder)], check=True)


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/pack-gpu", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder (default: build)")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "runs" / "llmtrain-gpu", metavar="FOLDER",
                        help="new folder, and FOLDER.tar.xz beside it (default: runs/llmtrain-gpu)")
    parser.add_argument("--folder-only", action="store_true", help="leave the archive out")
    return parser.parse_args()


def main():
    options = parse_arguments()
    folder = options.output.resolve()
    if not (options.build / "llmtrain").exists():
        sys.exit(f"scripts/pack-gpu: {options.build} has no llmtrain; run scripts/build, or name a folder with --build")
    if folder.exists() and not (folder / "REVISION").exists():
        sys.exit(f"scripts/pack-gpu: {folder} exists and is no pack")
    shutil.rmtree(folder, ignore_errors=True)
    fill(folder, options.build.resolve())
    if options.folder_only:
        return 0
    archive = folder.with_name(folder.name + ".tar.xz")
    subprocess.run(["tar", "-C", folder.parent, "-I", "xz -T0", "-cf", archive, folder.name], check=True)
    size = archive.stat().st_size
    print(f"{archive}: {size / 1e6:.1f} MB")
    if size >= MOST_BYTES:
        print(f"scripts/pack-gpu: more than {MOST_BYTES / 1e6:.0f} MB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
