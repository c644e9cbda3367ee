"""What a command costs: seconds from start to end, and of each kind of its processes processor time and memory.

In: a command, the home of the Postgres that it keeps. Out: `Cost`. Processes are looked at four times a second.
"""

import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from benchmarks.faults.place import kind_of

ROOT: Final = Path(__file__).resolve().parents[1]
KINDS: Final = ("driver", "python", "java", "validation", "postgres")
"""`driver`: the command itself; `python`: Spark's workers, and the process that starts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds from start to end, and of each kind of process its processor seconds and the most bytes that one such
    process had.
    """

    whole_s: float
    processor_s: dict[str, float]
    bytes_at_most: dict[str, int]

    @property
    def all_processor_s(self) -> float:
        """Processor time of all processes."""
        return sum(self.processor_s.values())

    def __str__(self) -> str:
        return "".join(
            f"{self.processor_s.get(kind, 0.0):10.1f}{self.bytes_at_most.get(kind, 0) >> 20:5d} MB" for kind in KINDS
        )


def cost_of(command: Sequence[str], environment: Mapping[str, str], home: Path, *, makes: Path) -> Cost:
    """Runs a command to its end. Ends this process if the file that it `makes` is not there then."""
    began = time.perf_counter()
    process = psutil.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(environment), cwd=ROOT
    )
    kinds: dict[int, str] = {}  # One that has ended, and is not yet waited for, has no command that would tell.
    processor: dict[int, float] = {}
    most: dict[str, int] = defaultdict(int)
    while process.poll() is None:
        for one in _processes(process, home):
            try:
                kind = kinds.setdefault(one.pid, "driver" if one.pid == process.pid else kind_of(one))
                times, memory = one.cpu_times(), one.memory_info()
            except psutil.Error:  # It has ended since.
                continue
            processor[one.pid] = times.user + times.system
            most[kind] = max(most[kind], memory.rss)
        time.sleep(0.25)
    if not makes.exists():
        sys.exit(f"{' '.join(command)} failed with exit code {process.returncode}.")
    spent: dict[str, float] = defaultdict(float)
    for pid, seconds in processor.items():
        spent[kinds[pid]] += seconds
    return Cost(whole_s=time.perf_counter() - began, processor_s=dict(spent), bytes_at_most=dict(most))


def _processes(command: psutil.Process, home: Path) -> list[psutil.Process]:
    """The command's own, and those of the Postgres that it keeps in its home."""
    found = [command]
    try:
        found += command.children(recursive=True)
    except psutil.Error:
        return []
    for one in psutil.process_iter(["name", "cmdline"]):
        if one.info["name"] == "postgres" and str(home) in " ".join(one.info["cmdline"] or ()):
            found.append(one)
    return found
