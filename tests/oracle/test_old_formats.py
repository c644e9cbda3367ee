"""Message formats 0 and 1 under Kafka 4: what its own cleaner makes of a log that began in them."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Golden
from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived
from tests.oracle.kafka import Oracle
from tidegauge.kafka_log.old_formats import of_old_format
from tidegauge.kafka_log.scan import scan_buffer

pytestmark = pytest.mark.slow
LATER_MS = 4_000_000_000_000


def test_what_kafka_4_cleans_of_format_1_has_no_epoch_and_is_sound(
    golden: Golden, oracle: Oracle, judge: Judge, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(golden("format-1"), tmp_path / "cleaned"))
    for broker in (1, 2, 3):
        directory = copy / f"broker-{broker}" / "accounts-0"
        config = {"cleanup.policy": "compact", "internal.segment.bytes": "16384", "file.delete.delay.ms": "0"}
        end = max(int(scan_buffer(p.read_bytes())[0]["last_offset"].max(initial=-1)) for p in directory.glob("*.log"))
        answer = oracle.ask(
            {
                "job": "clean",
                "directory": str(directory),
                "config": config,
                "log_start": 0,
                "high_watermark": end + 1,
                "checkpoint": None,
                "now_ms": LATER_MS,
            }
        )
        assert answer["dirty_bytes"] > 0, answer
    paths = sorted((copy / "broker-1" / "accounts-0").glob("*.log"))
    rows = np.concatenate([scan_buffer(path.read_bytes())[0] for path in paths])
    assert ((rows["magic"] == 2) & (rows["partition_leader_epoch"] < 0)).any()
    assert of_old_format(rows).any()
    results, _ = judge.verdicts(derived(copy), {"A"})
    assert {code: results[code].breached for code in ("A02", "A04", "A05", "A09", "A13")} == dict.fromkeys(
        ("A02", "A04", "A05", "A09", "A13"), 0
    )
