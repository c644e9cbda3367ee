"""Whoever spoils yesterday's snapshot makes no loss of today green: what cannot be compared is not known."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.derivation.damage import segments
from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived
from tests.derivation.rejoined import CUTS, later_copy, old_leader_rejoined

pytestmark = pytest.mark.postgres


def zeros(replica: Path) -> None:
    for log in segments(replica):
        log.write_bytes(bytes(log.stat().st_size))


def noise(replica: Path) -> None:
    for log in segments(replica):
        log.write_bytes(os.urandom(log.stat().st_size))


def nothing(replica: Path) -> None:
    for log in segments(replica):
        os.truncate(log, 0)


def a_broken_head(replica: Path) -> None:
    for log in segments(replica):
        log.write_bytes(bytes(100) + log.read_bytes()[100:])


def pipes(replica: Path) -> None:
    for log in segments(replica):
        log.unlink()
        os.mkfifo(log)


def no_logs(replica: Path) -> None:
    for log in segments(replica):
        log.unlink()


@pytest.mark.parametrize("spoil", [zeros, noise, nothing, a_broken_head, pipes, no_logs, shutil.rmtree])
def test_no_damage_of_an_earlier_log_makes_its_loss_green(
    golden: Golden, tmp_path: Path, judge: Judge, spoil: Callable[[Path], None]
) -> None:
    now = old_leader_rejoined(golden("unclean-before"), tmp_path / "now")
    before = later_copy(golden("unclean-before"), tmp_path / "before", "__cluster_metadata-0", *CUTS, "safe-0")
    sound, _ = judge.verdicts(derived(now, previous=before), {"C"})
    assert sound["C10"].breached == len(CUTS)
    for partition in CUTS:
        spoil(before / "broker-1" / partition)
    spoilt, _ = judge.verdicts(derived(now, previous=before), {"C"})
    assert spoilt["C10"].breached + spoilt["C10"].unknown == len(CUTS) + sound["C10"].unknown
    assert spoilt["C11"].unknown == len(CUTS) + sound["C11"].unknown
