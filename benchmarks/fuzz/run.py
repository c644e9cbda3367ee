"""Kinds of inputs, each in a process of its own that may fail, hang or die; what happened to it is told all the same.

In: kinds, a seed, how many inputs or how many seconds. Out: a `Row` a kind, and a file for each finding. The rules that
must hold: an input is made from its kind, the seed and its number alone; a process that dies is followed by another
that begins behind the input that it died of; and no input goes uncounted.
"""

import ctypes
import json
import logging
import mmap
import os
import re
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.fuzz.kinds import Kind, generator

ADDRESSES: Final = 8 << 30
"""Bytes of addresses that a process may have. A reader that wants more gets no memory, and that is a finding."""
HANGS_AFTER_S: Final = 120
"""An input that is not done by then hangs."""
_OF_ONE_PLACE: Final = 3
"""Findings of one kind and one place in the code that are kept: the others are counted."""
_MAXRSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What came of one kind. Times are the processor's, but those of audits, which have processes of their own.

    `peak_mib` is the largest that a process was, `born_mib` what it was before the first input.
    """

    kind: str
    seed: str
    first: int
    inputs: int = 0
    crashes: int = 0
    slowest_ms: float = 0.0
    slowest_number: int = 0
    peak_mib: float = 0.0
    born_mib: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An input that was not read as it should be, and all that it takes to make it again."""

    kind: str
    seed: str
    number: int
    what: str
    trace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How far to go with each kind. `seconds` None: as long as the inputs take. Findings go to a directory."""

    seed: str
    first: int
    inputs: int
    seconds: float | None
    findings: Path


def fuzzed(kinds: Iterable[Kind], asked: Asked, *, jobs: int, say: Callable[[Row], None]) -> list[Row]:
    """Runs every kind, `jobs` processes at a time; returns their rows in the order of the kinds."""
    kinds = list(kinds)
    waiting, running, rows = list(kinds), list[_Process](), dict[str, Row]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_Process(waiting.pop(0), asked))
            time.sleep(0.02)
            for process in [p for p in running if p.ended()]:
                running.remove(process)
                rows[process.kind.name] = process.row
                say(process.row)
    finally:
        for process in running:
            process.stop()
            say(process.row)  # What it has read is read, also where it was not done.
    return [rows[kind.name] for kind in kinds]


class _State(ctypes.Structure):
    """Where a process stands, in memory that outlives it."""

    _fields_ = [(name, ctypes.c_int64) for name in ("number", "done", "crashes", "slowest_ns", "slowest", "born")]


class _Process:
    """One kind under way, in a process that is born again as often as it dies."""

    def __init__(self, kind: Kind, asked: Asked) -> None:
        self.kind = kind
        self.row = Row(kind=kind.name, seed=asked.seed, first=asked.first)
        self._asked = asked
        self._deadline = None if asked.seconds is None else time.monotonic() + asked.seconds
        self._state = _State.from_buffer(mmap.mmap(-1, ctypes.sizeof(_State)))
        self._state.number = asked.first
        self._begin()

    def _begin(self) -> None:
        """A process that goes on with the number that the state tells."""
        self._seen, self._since, self._hung = self._state.number, time.monotonic(), False
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid:
            return
        os.setpgid(0, 0)  # What it starts ends with it.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            _read_inputs(self.kind, self._asked, self._state, self._deadline)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)

    def ended(self) -> bool:
        """Whether it is done. One that died is followed by the next; one that hangs is killed, which is the same."""
        pid, status, used = os.wait4(self._pid, os.WNOHANG)
        if pid == 0:
            self._kill_if_it_hangs()
            return False
        self._account(used.ru_maxrss)
        if os.WIFSIGNALED(status):
            how = (
                f"was not done in {HANGS_AFTER_S} s" if self._hung else f"ended by {signal.Signals(status & 0x7F).name}"
            )
            keep(self._asked, self.kind.name, self._state.number, f"the process {how}", "")
            self._state.done += self.kind.together
            self._state.crashes += 1
            self._state.number += self.kind.together
            self._begin()
            return False
        if status:
            raise RuntimeError(f"{self.kind.name}: the process failed outside of any input; what it said stands above")
        return True

    def _account(self, maxrss: int) -> None:
        state = self._state
        self.row = replace(
            self.row,
            inputs=state.done,
            crashes=state.crashes,
            slowest_ms=round(state.slowest_ns / 1e6, 1),
            slowest_number=state.slowest,
            peak_mib=max(self.row.peak_mib, _mib(maxrss)),
            born_mib=_mib(state.born),
        )

    def _kill_if_it_hangs(self) -> None:
        if self._state.number != self._seen:
            self._seen, self._since = self._state.number, time.monotonic()
        elif time.monotonic() - self._since > HANGS_AFTER_S * self.kind.together:
            self._hung = True
            self._end()

    def stop(self) -> None:
        """Ends it where it stands, and waits for it."""
        self._end()
        _, _, used = os.wait4(self._pid, 0)
        self._account(used.ru_maxrss)

    def _end(self) -> None:
        # Not by SIGKILL: an audit ends what it started when it is asked to.
        os.killpg(self._pid, signal.SIGTERM)


def _mib(maxrss: int) -> float:
    return round(maxrss * _MAXRSS_UNIT / (1 << 20), 1)


# -------------------------------------------------------------------------------------------------- inside the process


def _read_inputs(kind: Kind, asked: Asked, state: _State, deadline: float | None) -> None:
    if not kind.own_processes:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    logging.disable(logging.WARNING)  # Of each file that is gone there would be a line.
    # Numbers that overflow where numpy computes with them are wrong afterwards, and it only warns of them.
    warnings.simplefilter("error", RuntimeWarning)
    if not kind.own_processes:
        attempt(kind, asked.seed, [state.number])  # What is compiled or imported at the first input costs no input.
    state.born = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clock = time.monotonic_ns if kind.own_processes else time.process_time_ns
    places: Counter[str] = Counter()
    end = asked.first + asked.inputs
    while state.number < end and (deadline is None or time.monotonic() < deadline):
        numbers = range(state.number, min(end, state.number + kind.together))
        began = clock()
        found = attempt(kind, asked.seed, numbers)
        took = (clock() - began) // len(numbers)
        if took > state.slowest_ns:
            state.slowest_ns, state.slowest = took, numbers[0]
        for finding in found:
            frames = [line for line in finding.trace.splitlines() if line.startswith("  File ")]
            place = frames[-1] if frames else finding.what
            places[place] += 1
            if places[place] <= _OF_ONE_PLACE:
                keep(asked, kind.name, finding.number, finding.what, finding.trace)
        state.crashes += len(found)
        state.done += len(numbers)
        state.number = numbers[-1] + 1


def attempt(kind: Kind, seed: str, numbers: Iterable[int]) -> list[Finding]:
    """Makes inputs and reads them; returns what came to light."""
    made = {number: kind.make(generator(kind.name, seed, number)) for number in numbers}
    if kind.together > 1:
        read: dict[int, str] = kind.read(made)
        return [
            Finding(kind=kind.name, seed=seed, number=number, what=text.strip().splitlines()[-1], trace=text)
            for number, text in read.items()
        ]
    ((number, value),) = made.items()
    try:
        kind.read(value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # What Rust's codecs panic with is no Exception.
        what = f"{type(error).__name__}: {error}"[:500]
        trace = "".join(traceback.format_exception(error))
        return [Finding(kind=kind.name, seed=seed, number=number, what=what, trace=trace)]
    return []


def keep(asked: Asked, kind: str, number: int, what: str, trace: str) -> Path:
    """A finding as a file from which it can be made again."""
    asked.findings.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-")
    path = asked.findings / f"{name}-{number}.json"
    finding = Finding(kind=kind, seed=asked.seed, number=number, what=what, trace=trace)
    path.write_text(json.dumps(asdict(finding), indent=1) + "\n", encoding="utf-8")
    return path
