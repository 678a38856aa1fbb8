# SPDX-License-Identifier: Apache-2.0
"""The processes that a program under test has started."""
import contextlib
import pathlib


def processes_below(pid):
    with contextlib.suppress(FileNotFoundError):  # it has ended
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            children = ""
            with contextlib.suppress(OSError):  # the thread has ended since it was listed
                children = (task / "children").read_text()
            for child in children.split():
                yield child
                yield from processes_below(child)


def environment_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it has ended
        return []


def rank_process(pid, rank):
    """The processes of the ranks that a program has started."""
    variable = f"OMPI_COMM_WORLD_RANK={rank}".encode()
    return next(int(child) for child in processes_below(pid)
                if variable in environment_of(child))


def is_running(pid):
    """Whether there is such a process that has not ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
