"""`tidegauge audit` over many snapshots at once, and which of them it failed of.

In: snapshots to write, by their numbers. Out: number -> what went wrong. The rules that must hold: an exit code of 0, 1
or 2 is a result, and any other is somebody's fault, also 3: nothing around the command is wrong here. A snapshot whose
fault is not told by the command's own notes is found by auditing halves.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
_SECONDS_EACH: Final = 100
_RESULTS: Final = (0, 1, 2)

Write = Callable[[Any, Path], Path]


def audited(scratch: Path, write: Write, made: Mapping[int, Any]) -> dict[int, str]:
    """Audits them together; returns what is wrong, by number."""
    directories = {}
    try:
        for number, value in made.items():
            directory = scratch / "snapshots" / f"n{number}"
            shutil.rmtree(directory, ignore_errors=True)
            directories[number] = write(value, directory)
        return _audited(scratch, directories)
    finally:
        shutil.rmtree(scratch / "snapshots", ignore_errors=True)


def _audited(scratch: Path, directories: Mapping[int, Path]) -> dict[int, str]:
    out = scratch / "out"
    shutil.rmtree(out, ignore_errors=True)
    code, said = _command(scratch, directories.values(), out)
    told = _notes(out, directories)
    if "Traceback (most recent call last)" not in said:
        faults = {number for number, (kind, _) in told.items() if kind != "unusable"}
        done = len(told) + len(list(out.glob("**/report.json")))
        explained = code in _RESULTS or bool(faults)
        if explained and (len(directories) == 1 or done == len(directories)):
            return {number: told[number][1] for number in sorted(faults)}
    if len(directories) == 1:
        (number,) = directories
        return {number: f"{said}\nexit code {code}"} if code not in _RESULTS or "Traceback" in said else {}
    numbers = sorted(directories)
    halves = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
    found: dict[int, str] = {}
    for half in halves:
        found |= _audited(scratch, {number: directories[number] for number in half})
    return found


def _command(scratch: Path, directories: Any, out: Path) -> tuple[int, str]:
    """The exit code, and what was said. One that does not end is ended, which is no result either."""
    command = [sys.executable, "-m", "tidegauge", "audit", *map(str, directories), "--cluster", "c"]
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TIDEGAUGE_HOME": str(scratch / "home"),
        "TIDEGAUGE_STORE_URL": "",
    }
    scratch.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(
        [*command, "--out", str(out), "--store", "none"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", env=environ, cwd=scratch,
    ) as process:  # fmt: skip
        try:
            _, said = process.communicate(timeout=_SECONDS_EACH * (2 + len(list(directories))))
        except subprocess.TimeoutExpired:
            process.terminate()
            _, said = process.communicate()
            said += "\nit did not end"
    return process.returncode, said


def _notes(out: Path, directories: Mapping[int, Path]) -> dict[int, tuple[str, str]]:
    """Which snapshots the command could not audit, of what kind that was, and where it was raised."""
    found: dict[int, tuple[str, str]] = {}
    for path in sorted(out.glob("failed/*/*.json")):
        note = json.loads(path.read_text(encoding="utf-8"))
        for number, directory in directories.items():
            if note["snapshot"] == str(directory) or note["snapshot"].endswith(f"/{directory.name}"):
                found.setdefault(number, (note["kind"], note["trace"]))
    return found
