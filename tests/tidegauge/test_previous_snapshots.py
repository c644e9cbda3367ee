"""`--previous auto`: the snapshot that was captured last before, of those that were audited and are still there."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.store.helpers import report
from tidegauge import store
from tidegauge.audit.future_snapshots import Met
from tidegauge.audit.judged_snapshots import not_yet
from tidegauge.audit.previous_snapshots import earlier_of
from tidegauge.snapshots.manifest import MANIFEST_NAME, BrokerCapture, Consistency, Manifest, Mode, Source, to_json


def snapshot(root: Path, name: str, day: int, *, cluster: str = "", hashed: bool = False) -> Path:
    """A snapshot without a file, captured on a day of January; each test has a cluster of its own."""
    cluster = cluster or root.name
    directory = root / cluster / name
    directory.mkdir(parents=True)
    at = int(datetime(2026, 1, day, tzinfo=UTC).timestamp() * 1000)
    broker = BrokerCapture(
        broker_id=1, directory="broker-1", rack=None, log_dirs=(), read_started_at_ms=at,
        read_finished_at_ms=at, files=(),
    )  # fmt: skip
    manifest = Manifest(
        cluster=cluster, cluster_id=None, snapshot_id=name, source=Source.CAPTURED, mode=Mode.FULL,
        consistency=Consistency.FUZZY, brokers=(broker,), left_out=(), hashed_topics=hashed,
    )  # fmt: skip
    (directory / MANIFEST_NAME).write_text(to_json(manifest), encoding="utf-8")
    return directory


def audited(url: str, directory: Path, day: int, *, place: str = "") -> None:
    new = store.NewRun(
        key=store.RunKey(cluster=directory.parent.name, snapshot_id=directory.name, ruleset_version="1"),
        consistency="fuzzy",
        source="captured",
        started_at=datetime.now(UTC),
        captured_at=datetime(2026, 1, day, tzinfo=UTC),
        place=place or str(directory),
    )
    (run_id,) = store.open_runs(url, [new])
    store.publish(url, run_id, report())


def compared(url: str, *given: Path) -> dict[str, str]:
    said: list[str] = []
    found = earlier_of([str(g) for g in given], url=url, cluster=None, say=said.append)
    assert len(said) == len(given)
    return {Path(new).name: Path(old).name for new, old in found.items()}


@pytest.fixture
def week(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[int, Path]:
    """Seven days, of which the first six were audited, the later ones first."""
    store.migrate(store_url)
    monkeypatch.setenv("TIDEGAUGE_SNAPSHOTS", str(tmp_path))
    days = {day: snapshot(tmp_path, f"day-{day}", day) for day in range(1, 8)}
    for day in (6, 5, 4, 3, 2, 1):
        audited(store_url, days[day], day)
    return days


def test_it_is_the_newest_before_whatever_was_audited_last(store_url: str, week: dict[int, Path]) -> None:
    assert compared(store_url, week[7]) == {"day-7": "day-6"}
    # A backfill of an old day, audited before or not, compares with the day before it.
    assert compared(store_url, week[3]) == {"day-3": "day-2"}
    assert compared(store_url, week[1]) == {}


def test_what_is_gone_is_passed_over(store_url: str, week: dict[int, Path]) -> None:
    shutil.rmtree(week[6])
    assert compared(store_url, week[7]) == {"day-7": "day-5"}
    for day in range(1, 6):
        shutil.rmtree(week[day])
    assert compared(store_url, week[7]) == {}


def test_what_cannot_be_compared_is_passed_over(store_url: str, week: dict[int, Path], tmp_path: Path) -> None:
    hashed = snapshot(tmp_path, "hashed", 8, hashed=True)
    audited(store_url, hashed, 8)
    assert compared(store_url, snapshot(tmp_path, "day-9", 9)) == {"day-9": "day-6"}


def test_it_may_have_moved_below_the_snapshots_directory(store_url: str, week: dict[int, Path]) -> None:
    audited(store_url, week[7], 7, place="/nowhere/day-7")
    assert compared(store_url, snapshot(week[1].parents[1], "day-8", 8)) == {"day-8": "day-7"}


def test_another_cluster_s_are_not_asked(store_url: str, week: dict[int, Path], tmp_path: Path) -> None:
    assert compared(store_url, snapshot(tmp_path, "day-9", 9, cluster="other")) == {}


def test_snapshots_of_one_audit_are_compared_with_each_other(
    store_url: str, week: dict[int, Path], tmp_path: Path
) -> None:
    eighth = snapshot(tmp_path, "day-8", 8)
    assert compared(store_url, eighth, week[7]) == {"day-8": "day-7", "day-7": "day-6"}


def test_an_interval_is_compared_with_what_lies_before_it_audited_or_not(
    store_url: str, week: dict[int, Path], tmp_path: Path
) -> None:
    later, eighth = snapshot(tmp_path, "day-9-late", 9), snapshot(tmp_path, "day-8", 8)
    said: list[str] = []
    since = datetime(2026, 1, 9, tzinfo=UTC)
    found = earlier_of([str(later)], url=store_url, cluster=None, say=said.append, since=since)
    assert found == {str(later): str(eighth)}


def test_one_that_cannot_be_used_leaves_the_others_their_earlier_snapshot(
    store_url: str, week: dict[int, Path], tmp_path: Path
) -> None:
    given = [str(tmp_path / "nothing"), str(snapshot(tmp_path, "day-8", 8, cluster="other")), str(week[7])]
    said: list[str] = []
    found = earlier_of(given, url=store_url, cluster=tmp_path.name, say=said.append)
    assert found == {str(week[7]): str(week[6])}
    assert not_yet(given, url=store_url, cluster=tmp_path.name) == tuple(given), "told of where they are audited"


def test_what_is_dated_in_the_future_is_nobody_s_earlier_one(
    store_url: str, week: dict[int, Path], tmp_path: Path
) -> None:
    said: list[str] = []
    now = datetime(2026, 1, 4, tzinfo=UTC)  # by which the fifth day and those after it are forged
    met = Met(said.append)
    of_a_store = earlier_of([str(week[7])], url=store_url, cluster=None, say=said.append, now=now, met=met)
    assert {snapshot_id for _, snapshot_id in met.found} == {"day-5", "day-6", "day-7"}, "itself among them"
    assert of_a_store == {str(week[7]): str(week[4])}
    told = "is passed over: it is dated 2026-01-06 00:00:00 UTC, and here it is 2026-01-04 00:00:00 UTC"
    assert any(f"day-6 {told}" in line for line in said)
    since = datetime(2026, 1, 7, tzinfo=UTC)
    of_an_interval = earlier_of([str(week[7])], url=store_url, cluster=None, say=said.append, since=since, now=now)
    assert of_an_interval == of_a_store


@pytest.mark.parametrize("since", [None, datetime(2026, 1, 9, tzinfo=UTC)], ids=["auto", "before"])
def test_a_cluster_s_name_too_long_for_a_directory_has_nothing_before_it(
    store_url: str, week: dict[int, Path], tmp_path: Path, since: datetime | None
) -> None:
    odd = snapshot(tmp_path, "odd", 9)
    made_up = "c" * 300
    text = (odd / MANIFEST_NAME).read_text(encoding="utf-8")
    (odd / MANIFEST_NAME).write_text(text.replace(f'"cluster": "{odd.parent.name}"', f'"cluster": "{made_up}"'))
    run = store.NewRun(
        key=store.RunKey(cluster=made_up, snapshot_id="before", ruleset_version="1"), consistency="fuzzy",
        source="captured", started_at=datetime.now(UTC), captured_at=datetime(2026, 1, 8, tzinfo=UTC), place="/nowhere",
    )  # fmt: skip
    (run_id,) = store.open_runs(store_url, [run])
    store.publish(store_url, run_id, report())
    given = [str(odd), str(week[7])]
    found = earlier_of(given, url=store_url, cluster=None, say=lambda _: None, since=since)
    assert str(odd) not in found
    assert str(week[7]) in found
