"""A capture of what nobody writes to any more: when it read each file is no evidence, and neither is its clock."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from tests.conftest import Golden
from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived
from tidegauge.cli.main import main
from tidegauge.derivation.gathering.read_instants import read_long_after, without_instants
from tidegauge.facts.metadata.history import MetadataHistory
from tidegauge.snapshots.adopt import open_snapshot

COPIES = ("soak-01", "healthy", "epochs", "unclean-before", "streams-unclean")
"""Plain copies that were made while the brokers ran, but for the brokers that had died."""
FAMILIES = "ABCDEFGHJK"
AT, MINUTE = 1_795_000_000_000, 60_000


@pytest.fixture
def judge(store_url: str) -> Iterator[Judge]:
    engine = sa.create_engine(store_url)
    with engine.begin() as connection:
        yield Judge(connection)
    engine.dispose()


def captured(copy: Path, out: Path, *options: str) -> Path:
    """By the command, today: long after the copy was made, and years after, for all it knows."""
    brokers = [
        word
        for broker in open_snapshot(copy).manifest.brokers
        for word in (
            "--broker",
            f"{broker.broker_id}=" + ",".join(str(copy / broker.directory / d.name) for d in broker.log_dirs),
        )
    ]
    given = ["capture", "--cluster", "c", "--id", "s", "--out", str(out), *brokers, *options]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 0, done.output
    return out / "c" / "s"


@pytest.mark.slow
@pytest.mark.parametrize("name", COPIES)
def test_a_capture_of_a_copy_finds_what_the_copy_shows_and_nothing_more(
    name: str, golden: Golden, tmp_path: Path, judge: Judge
) -> None:
    """Its order of reading is none of the cluster's: a transaction "without its marker" was a critical breach."""
    late = derived(captured(golden(name), tmp_path / "out"))
    plain = derived(golden(name))
    assert late.context.captured_at_ms == plain.context.captured_at_ms
    assert {row["read_started_at_ms"] for row in late.all("brokers")} == {None}
    found, expected = (judge.verdicts(facts, FAMILIES)[0] for facts in (late, plain))
    assert {code: v.breached for code, v in found.items()} == {code: v.breached for code, v in expected.items()}
    assert {code: v.unknown for code, v in found.items()} == {code: v.unknown for code, v in expected.items()}
    (told,) = [each.what for each in late.context.evidence if each.evidence.value == "instants"]
    assert "nobody wrote to these files any more" in told


@pytest.mark.slow
def test_what_was_stopped_is_judged_as_of_when_it_stopped(golden: Golden, tmp_path: Path) -> None:
    """Not as of when it was read: nothing is overdue for what could not have been deleted since."""
    late = derived(captured(golden("pair-clean-b1"), tmp_path / "out", "--consistency", "quiesced"))
    assert late.context.captured_at_ms == derived(golden("pair-clean-b1")).context.captured_at_ms
    assert late.context.captured_at_ms is not None


@pytest.mark.parametrize(
    ("last", "idle", "started", "late"),
    [
        (AT, AT, AT + 2 * MINUTE, True),
        (AT, AT - 500, AT + MINUTE + 1, True),
        (AT, AT, AT + MINUTE, False),
        (AT, AT, AT - 5 * MINUTE, False),
        (AT, None, AT + 1000 * MINUTE, False),
        (AT, AT - 2 * MINUTE, AT + 1000 * MINUTE, False),
        (None, None, AT, False),
        (AT, AT, None, False),
    ],
)
def test_a_controller_that_has_stopped_writing_when_idle_shows_it(
    last: int | None, idle: int | None, started: int | None, late: bool, golden: Golden
) -> None:
    plain = open_snapshot(golden("hanging-txn")).manifest
    first, *others = plain.brokers
    manifest = replace(plain, brokers=(replace(first, read_started_at_ms=started), *others))
    history = MetadataHistory(last_record_at_ms=last, last_idle_record_at_ms=idle)
    assert read_long_after(manifest, history) == (started if late else None)


def test_without_instants_a_manifest_is_that_of_a_plain_copy(golden: Golden) -> None:
    plain = open_snapshot(golden("hanging-txn")).manifest
    timed = replace(
        plain,
        brokers=tuple(
            replace(
                broker,
                read_started_at_ms=AT,
                read_finished_at_ms=AT + 1,
                files=tuple(replace(file, read_at_ms=AT, read_again_at_ms=AT) for file in broker.files),
            )
            for broker in plain.brokers
        ),
    )
    assert without_instants(timed) == replace(
        plain, brokers=tuple(replace(broker, files=tuple(broker.files)) for broker in plain.brokers)
    )
