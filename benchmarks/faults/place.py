"""A place of its own for one attempt: its directories in, commands in them and what they leave behind out.

    <root>/home, out, postgres   TIDEGAUGE_HOME, the audit's --out, TIDEGAUGE_ROOT_POSTGRES
    <root>/tmp                   TMPDIR; whatever stands there when all is over was left behind
    <root>/snapshot              the copy of a cluster's log directories that is audited

Whatever a command started is found again, as each process has the place's mark in its environment, whoever its parent
is by then.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from tidegauge.embedded.archive import unpack
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.manifest import Consistency

ROOT: Final = Path(__file__).resolve().parents[2]
CLUSTER: Final = "faults"
MARK: Final = "HOME"
"""By it the processes of a place are known: every child is told it, whatever else is kept from it."""
PATIENCE_S: Final = 600
"""An audit that is not done by then hangs."""
_GRACE_S: Final = 30
"""So long may what a command told to end take until it has ended."""
_FOR_UNAVOIDABLE_S: Final = 5
_RUN: Final = "from tidegauge.cli.start import run; run()"
NOBODY: Final = 65534
_OPEN: "Final[list[Place]]" = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended: its exit code (below 0: by that signal) and what it said on standard error."""

    code: int
    said: str


@dataclass(slots=True, kw_only=True)
class Place:
    """See above. `user`: who runs the commands, None for who asks. `spark`: whether audits run on Spark, which one of a
    snapshot so small would not choose. `more` goes into their environment.
    """

    root: Path
    spark: bool = False
    user: int | None = None
    more: dict[str, str] = field(default_factory=dict)
    until_its_end: ExitStack = field(default_factory=ExitStack)

    @property
    def home(self) -> Path:
        """TIDEGAUGE_HOME."""
        return self.root / "home"

    @property
    def out(self) -> Path:
        """The run directory."""
        return self.root / "out"

    @property
    def tmp(self) -> Path:
        """TMPDIR."""
        return self.root / "tmp"

    @property
    def snapshot(self) -> Path:
        """The copy that is audited."""
        return self.root / "snapshot"

    @property
    def postgres(self) -> Path:
        """Where the server's data lie."""
        as_root = self.user is None and os.geteuid() == 0
        return self.root / "postgres" if as_root else self.home

    def environment(self) -> dict[str, str]:
        """What commands see."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGAUGE_")}
        return kept | {
            "TIDEGAUGE_HOME": str(self.home), "TIDEGAUGE_ROOT_POSTGRES": str(self.root / "postgres"),
            "TIDEGAUGE_SPARK_MASTER": "local[2]" if self.spark else "", "TMPDIR": str(self.tmp),
            "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", MARK: str(self.root), **self.more,
        }  # fmt: skip

    def started(self, program: str, *arguments: object, before: tuple[str, ...] = (), **options: Any) -> "Running":
        """A Python program with arguments, begun; `before`: the command that runs it."""
        if self.user is not None:
            options |= {"user": self.user, "group": self.user, "extra_groups": ()}
        command = [*before, sys.executable, "-c", program, *map(str, arguments)]
        log = self.root / f"said-{time.monotonic_ns()}"
        with log.open("w") as said:
            process = subprocess.Popen(
                command, env=self.environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=said, start_new_session=True, **options,
            )  # fmt: skip
        return Running(process=process, log=log)

    def audit(
        self, *, program: str = _RUN, snapshot: Path | None = None, out: Path | None = None, **how: Any
    ) -> "Running":
        """`tidegauge audit`, begun."""
        return self.started(program, "audit", snapshot or self.snapshot, "--out", out or self.out, **how)

    def asked(self, program: str, *arguments: object) -> str:
        """What a Python program prints. Raises `RuntimeError` if it fails."""
        options: dict[str, Any] = {}
        if self.user is not None:
            options = {"user": self.user, "group": self.user, "extra_groups": ()}
        done = subprocess.run(
            [sys.executable, "-c", program, *map(str, arguments)], env=self.environment(), cwd="/", check=False,
            capture_output=True, text=True, timeout=PATIENCE_S, **options,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"the store could not be read: {done.stderr[-2000:]}")
        return done.stdout

    def processes(self) -> dict[str, list[psutil.Process]]:
        """What runs in this place, by kind: audit, validation, java, python, postgres."""
        found: dict[str, list[psutil.Process]] = {}
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == str(self.root):
                    found.setdefault(kind_of(process), []).append(process)
        return found

    def left(self, unavoidable: frozenset[str] = frozenset()) -> set[str]:
        """What is still there that should not be, once what is ending has had time for it. For what is `unavoidable`
        alone nobody waits so long.
        """
        now = time.monotonic()
        while running := self.processes():
            patience_s = _GRACE_S if {f"process {kind}" for kind in running} - unavoidable else _FOR_UNAVOIDABLE_S
            if time.monotonic() > now + patience_s:
                break
            time.sleep(0.2)
        found = {f"process {kind}" for kind in running}
        found |= {f"temporary {_sort(path.name)}" for path in self.tmp.iterdir()} if self.tmp.is_dir() else set()
        for run in self.root.glob("out*"):
            with suppress(OSError):
                found |= {f"{_sort(p.name)} in the run directory" for p in run.rglob("*") if _is_passing(p, run)}
        return found

    def end(self) -> None:
        """Kills what is left, and removes the place."""
        self.until_its_end.close()
        for processes in self.processes().values():
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        shutil.rmtree(self.root, ignore_errors=True)


def kind_of(process: psutil.Process) -> str:
    """Which part of an audit a process is. Raises `psutil.Error` if it has ended."""
    name = process.name()
    if "postgres" in name or name in ("initdb", "pg_ctl"):
        return "postgres"
    if "java" in name:
        return "java"
    command = process.cmdline()
    if "tidegauge.audit.validate_apart" in command:
        return "validation"
    return "audit" if _RUN in command else "python"


def _sort(name: str) -> str:
    """A name without what is random in it."""
    for known in ("tidegauge-postgres-", "tidegauge-spark-", "spark-", "blockmgr-", "artifacts-", "liblz4", "libzstd"):
        if name.startswith(known):
            return f"{known.rstrip('-')}-*"
    if name.startswith(".part-") and name.endswith(".partial"):
        return ".part-*.partial"
    return name if not name.startswith("tmp") else "tmp*"


def _is_passing(path: Path, run: Path) -> bool:
    """Whether it is of a run that is under way only."""
    return path.name.endswith((".partial", ".judged")) or path == run / "work"


@dataclass(slots=True, kw_only=True)
class Running:
    """A command that was begun."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def ended(self) -> Ended:
        """Waits for its end. Raises `subprocess.TimeoutExpired` and kills it if that takes for ever."""
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return Ended(code=code, said=self.said)

    @property
    def said(self) -> str:
        """What it said until now."""
        return self.log.read_text(errors="replace")

    def until(self, holds: Callable[[], bool]) -> bool:
        """Waits until something holds; False if the command ends before."""
        while not holds():
            if self.process.poll() is not None:
                return False
            time.sleep(0.02)
        return True

    def send(self, number: signal.Signals) -> None:
        """A signal to the command alone."""
        self.process.send_signal(number)


@contextmanager
def new_place(parent: Path, archive: Path, *, spark: bool, user: int | None = None) -> Iterator[Place]:
    """A place with a snapshot, until the block ends. Paths are short: Postgres's socket lies in one."""
    root = Path(tempfile.mkdtemp(prefix="p", dir=parent))
    root.chmod(0o755)
    place = Place(root=root, spark=spark, user=user)
    _OPEN.append(place)
    try:
        taken(archive, place.snapshot)
        for directory in (place.home, place.tmp):
            directory.mkdir()
        if user is not None:
            for directory in (root, place.home, place.tmp):
                os.chown(directory, user, user)
        yield place
    finally:
        place.end()
        _OPEN.remove(place)


def end_all() -> None:
    """Kills what runs in every place that is open."""
    for place in list(_OPEN):
        place.end()


def taken(archive: Path, directory: Path, *, snapshot_id: str | None = None) -> Path:
    """An archive of log directories as a snapshot of the cluster `faults`, by default called after the archive."""
    unpack(archive, directory)
    name = snapshot_id or archive.name.removesuffix(".tar.gz")
    adopt(directory, cluster=CLUSTER, consistency=Consistency.FUZZY, snapshot_id=name)
    for path in (directory, *directory.rglob("*")):
        path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
    return directory
