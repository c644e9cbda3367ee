"""Kernels that are not compiled give what compiled ones give: `tidegauge-capture` is installed without numba."""

import io
import pickle
import random
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Golden
from tests.kafka_log.writing import batch, old_entry
from tidegauge.kafka_log import next_place
from tidegauge.kafka_log.kernels import plain_load
from tidegauge.kafka_log.scan import scan_buffer

CAPTURES = ["epochs", "hanging-txn", "format-upgraded", "format-1-unclean", "one-controller-unclean"]
MUTATED = 400


def in_plain(files: Sequence[Path]) -> Iterator[tuple[bytes, object]]:
    """What a process without numba finds in each. Numpy's warnings (a number that wraps) are errors there."""
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-m", "tests.kafka_log.plain_scans"],
        input="\n".join(map(str, files)).encode(),
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    answers = io.BytesIO(done.stdout)
    for _ in files:
        yield pickle.load(answers)


def must_be_equal(files: Sequence[Path]) -> None:
    for file, found in zip(files, in_plain(files), strict=True):
        rows, corruptions = scan_buffer(file.read_bytes())
        assert found == (rows.tobytes(), corruptions), file


def test_every_log_that_kafka_wrote_is_read_alike(golden: Golden) -> None:
    logs = [path for name in CAPTURES for path in sorted(golden(name).rglob("*.log")) if path.stat().st_size < 1 << 20]
    assert len(logs) > 100
    must_be_equal(logs)


def test_every_damaged_log_is_read_alike(golden: Golden, tmp_path: Path) -> None:
    chance = random.Random(20)
    logs = [path.read_bytes()[:20_000] for name in CAPTURES for path in sorted(golden(name).rglob("*.log"))]
    sound = [log for log in logs if len(log) > 100]
    files = []
    for number in range(MUTATED):
        files.append(tmp_path / str(number))
        files[-1].write_bytes(damaged(chance.choice(sound), chance))
    must_be_equal(files)


def damaged(log: bytes, chance: random.Random) -> bytes:
    """A few bytes, holes, pieces that are gone or too many, and magics that there are not."""
    data = bytearray(log)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data))
        match chance.randrange(5):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                data[at : at + chance.randint(1, 300)] = bytes(chance.randint(0, 300))
            case 2:
                del data[at : at + chance.randint(1, 200)]
            case 3:
                data[at:at] = chance.randbytes(chance.randint(1, 100))
            case _:
                data[at : at + 1] = bytes([chance.choice((0, 1, 2, 3, 127, 128, 255))])
        data = data or bytearray(1)
    return bytes(data)


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(b"", id="empty"),
        pytest.param(bytes(200_000) + batch(7, b"x", 1), id="zeros"),
        pytest.param(b"\x02" * 3000 + batch(7, b"x", 1), id="nothing-but-magics"),
        pytest.param(batch(0, b"x", 1) + b"\xff" * 100_000 + batch(9, b"y", 1) + bytes(60), id="between"),
        pytest.param(b"\xff" * 500 + old_entry(3, 1, b"v"), id="an-old-entry-at-the-end"),
        pytest.param(old_entry(2**63 - 1, 0, b"v") + batch(5, b"x", 1), id="an-offset-without-room"),
        pytest.param(
            (lambda data: data[:16] + b"\xc8" + data[17:])(batch(0, b"x", 1)) + batch(1, b"x", 1), id="magic-200"
        ),
    ],
)
def test_what_is_rare_in_logs_is_read_alike(log: bytes, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(log)
    must_be_equal([tmp_path / "log"])


@pytest.mark.parametrize("seed", range(20))
def test_no_place_is_passed_at_which_a_batch_may_begin(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the search byte by byte that it spares."""
    monkeypatch.setattr(next_place, "u8", plain_load(1, signed=False))
    monkeypatch.setattr(next_place, "i32", plain_load(4, signed=True))
    chance = np.random.default_rng(seed)
    data = np.where(chance.random(5000) < 0.9, 0, chance.choice([0, 1, 2, 3, 5, 128, 255], 5000)).astype(np.uint8)
    base, last = data.ctypes.data, len(data) - 61 + 1
    at = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while at < last:
            passed_to, all_zero = next_place._next_likely(base + at, base + len(data))
            end = passed_to - base
            assert at < end <= last
            assert all_zero == (not data[at:end].any())
            for place in range(at + 1, end):
                length = int.from_bytes(data[place + 8 : place + 12].tobytes(), "big", signed=True)
                assert data[place + 16] > 2 or length <= 0
            at = end
