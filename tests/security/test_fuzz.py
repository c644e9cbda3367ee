"""Some thousand damaged inputs for every reader, of a fixed seed; `make fuzz` reads others each day.

And of the tool itself: it makes the same input of the same number, and it notices what it is there to notice.
"""

import json
import os
import signal
from functools import cache
from pathlib import Path
from random import Random

import pytest

from benchmarks.fuzz import table
from benchmarks.fuzz.corpus import loaded
from benchmarks.fuzz.decoders import decoders
from benchmarks.fuzz.kinds import Kind, generator
from benchmarks.fuzz.mutate import damaged, damaged_json, damaged_lines
from benchmarks.fuzz.run import Asked, Finding, Row, attempt, fuzzed
from benchmarks.fuzz.snapshots import whole
from tests.sampling import one_in

SEED = "test"
QUICK = 2000
DEAR = 150
"""Of those that take milliseconds: whole segments are scanned twice, a frame of a headers file may claim megabytes."""
_DEAR_KINDS = ("segment", "segment, formats 0 and 1", "headers file")


@cache
def kinds() -> dict[str, Kind]:
    return {kind.name: kind for kind in decoders(loaded())}


NAMES = (
    "names", "offset-index", "time-index", "transaction-index", "producer-snapshot", "offset-checkpoint",
    "epoch-checkpoint", "meta.properties", "partition.metadata", "quorum-state", "clean-shutdown", "control records",
    "records of __cluster_metadata", "records of __consumer_offsets", "records of __remote_log_metadata",
    "records of __share_group_state", "records of __transaction_state", "records, none", "records, gzip",
    "records, snappy", "records, lz4", "records, zstd", "entries, formats 0 and 1", "manifest", "cluster's answers",
    "hashed names", *_DEAR_KINDS,
)  # fmt: skip


def test_every_kind_is_read_here() -> None:
    assert set(NAMES) == set(kinds())


@pytest.mark.parametrize("name", one_in(3, NAMES))
def test_damaged_bytes_end_no_decoder_with_an_error_of_its_own(name: str) -> None:
    numbers = range(DEAR if name in _DEAR_KINDS else QUICK)
    found = [finding for number in numbers for finding in attempt(kinds()[name], SEED, [number])]
    assert found == [], found[0].trace


@pytest.mark.slow
def test_damaged_snapshots_end_no_derive_with_an_error_of_its_own(tmp_path: Path) -> None:
    derive, _ = whole(tmp_path)
    found = [finding for number in range(15) for finding in attempt(derive, SEED, [number])]
    assert found == [], found[0].trace


@pytest.mark.slow
@pytest.mark.jvm
@pytest.mark.postgres
def test_damaged_snapshots_are_audited_together(tmp_path: Path) -> None:
    _, audit = whole(tmp_path)
    assert attempt(audit, SEED, range(3)) == []


# ---------------------------------------------------------------------------------------------------------- the tool


@pytest.mark.parametrize("name", NAMES)
def test_a_number_makes_the_same_input_again_and_another_one_another(name: str) -> None:
    made = [repr(kinds()[name].make(generator(name, SEED, number))) for number in (*range(20), *range(20))]
    assert made[:20] == made[20:]
    assert len(set(made)) > 10


def test_damage_is_damage() -> None:
    text = b"0\n2\norders 0 7\norders 1 8\n"
    for damage in (damaged, damaged_lines):
        changed = [damage(Random(number), text, [b"0\n1\nx 0 1\n"]) for number in range(200)]
        assert sum(data != text for data in changed) > 180
    value = {"a": [1, {"b": None}], "c": "d"}
    assert sum(damaged_json(Random(n), json.loads(json.dumps(value))) != value for n in range(200)) > 180


def _fuzzed(tmp_path: Path, read: object, inputs: int = 10) -> Row:
    kind = Kind(name="a kind", make=lambda rng: rng.random(), read=read, keep=print)  # type: ignore[arg-type]
    asked = Asked(seed=SEED, first=5, inputs=inputs, seconds=None, findings=tmp_path)
    (row,) = fuzzed([kind], asked, jobs=1, say=lambda row: None)
    return row


def test_what_is_raised_is_counted_and_kept(tmp_path: Path) -> None:
    def read(value: float) -> None:
        raise ValueError(f"{value} is not below 0")

    row = _fuzzed(tmp_path, read)
    assert (row.inputs, row.crashes, row.first) == (10, 10, 5)
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == 3, "of one place in the code three are kept"
    first = Finding(**json.loads(min(kept, key=lambda path: int(path.stem.rpartition("-")[2])).read_text()))
    assert (first.kind, first.seed, first.number) == ("a kind", SEED, 5)
    assert first.what == f"ValueError: {generator('a kind', SEED, 5).random()} is not below 0"
    assert "in read" in first.trace


def test_a_process_that_dies_takes_no_other_input_along(tmp_path: Path) -> None:
    dies = generator("a kind", SEED, 8).random()

    def read(value: float) -> None:
        if value == dies:
            os.kill(os.getpid(), signal.SIGKILL)

    row = _fuzzed(tmp_path, read)
    assert (row.inputs, row.crashes) == (10, 1)
    (path,) = tmp_path.iterdir()
    finding = Finding(**json.loads(path.read_text()))
    assert (finding.number, finding.what) == (8, "the process ended by SIGKILL")


def test_a_run_that_is_broken_off_tells_what_it_has_read(tmp_path: Path) -> None:
    """Here by a signal that its tenth input sends."""

    def break_off(number: int, frame: object) -> None:
        raise InterruptedError

    def read(value: float) -> None:
        if value == tenth:
            os.kill(os.getppid(), signal.SIGUSR1)

    tenth, told = generator("endless", SEED, 10).random(), list[Row]()
    kind = Kind(name="endless", make=lambda rng: rng.random(), read=read, keep=print)
    asked = Asked(seed=SEED, first=0, inputs=1 << 40, seconds=None, findings=tmp_path)
    before = signal.signal(signal.SIGUSR1, break_off)
    try:
        with pytest.raises(InterruptedError):
            fuzzed([kind], asked, jobs=1, say=told.append)
    finally:
        signal.signal(signal.SIGUSR1, before)
    (row,) = told
    assert row.inputs >= 10


def test_memory_without_end_is_a_finding(tmp_path: Path) -> None:
    row = _fuzzed(tmp_path, lambda value: bytearray(64 << 30), inputs=2)
    assert row.crashes == 2
    assert {json.loads(path.read_text())["what"].split(":")[0] for path in tmp_path.iterdir()} == {"MemoryError"}


def test_the_page_is_made_from_the_figures() -> None:
    rows = [Row(**row) for row in json.loads(table.KEPT.read_text(encoding="utf-8"))]
    assert table.PAGE.read_text(encoding="utf-8") == table.page(rows)
    assert {row.kind for row in rows} == {*NAMES, "derive", "audit"}
    assert sum(row.crashes for row in rows) == 0
