"""A soak: live captures of a busy cluster with rolling faults. Nothing is wrong in it, so nothing may be reported.

`make test` takes the short one: the faults that no other test makes under way, one capture in each. `make soak` takes
every kind. There `TIDEGAUGE_SOAK_CAPTURES` says how many captures to take (by default as many as let each kind of fault
come once), `TIDEGAUGE_SOAK_SEED` which faults and which traffic. No election is unclean and most faults come one at a
time: whatever the auditor calls a warning or worse is a false alarm. `--basetemp DIR` keeps captures and reports for a
look.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pytest

from tests.real_kafka import soaking
from tests.real_kafka.busy import BROKERS, COMPACTED, COPIES, GROWING, SHRINKING
from tests.real_kafka.conftest import StartCluster
from tests.real_kafka.judging import REPETITION, Audited, Taken, audit, judge_records
from tests.real_kafka.ledger import Ledger
from tests.real_kafka.rolling import FAULTS, IN_SHORT, MOVING, Fault
from tests.real_kafka.traffic import SHORT_LIVED
from tidegauge.expectations.registry import CATALOGUE

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

CAPTURES: Final = int(os.environ.get("TIDEGAUGE_SOAK_CAPTURES", str(soaking.one_round(FAULTS))))
ANSWERS: Final = "L"
"""The family of invariants that hold what a cluster answers against its files."""
SEED: Final = int(os.environ.get("TIDEGAUGE_SOAK_SEED", "4"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long a soak is."""

    kinds: Sequence[Fault]
    captures: int
    headers_every: int


SHORT: Final = Length(kinds=IN_SHORT, captures=soaking.one_round(IN_SHORT), headers_every=4)
LONG: Final = Length(kinds=FAULTS, captures=CAPTURES, headers_every=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """The captures in their order, the fault that each fell into, and what the audit said."""

    length: Length
    ledger: Ledger
    taken: Mapping[str, Taken]
    faults: Mapping[str, str]
    audited: Mapping[str, Audited]


@pytest.fixture(
    scope="module",
    params=[pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.soak)],
)
def soak(request: pytest.FixtureRequest, start_cluster: StartCluster, tmp_path_factory: pytest.TempPathFactory) -> Soak:
    length: Length = request.param
    cluster, ledger = start_cluster(settings=BROKERS), Ledger()
    captures = soaking.soak(
        cluster, ledger, tmp_path_factory.mktemp("captures"), kinds=length.kinds, captures=length.captures,
        headers_every=length.headers_every, seed=SEED,
    )  # fmt: skip
    cluster.close()
    audited = audit([taken.directory for taken in captures.taken.values()], tmp_path_factory.mktemp("audited"))
    return Soak(length=length, ledger=ledger, taken=captures.taken, faults=captures.faults, audited=audited)


def test_no_capture_of_a_sound_cluster_raises_an_alarm(soak: Soak) -> None:
    # What a client itself stored twice is truly there: the ledger is asked for it below.
    cried = {
        f"{name} ({soak.faults[name]})": audited.explained("critical", "warning")
        for name, audited in soak.audited.items()
        if any(code != REPETITION for code, _, _ in audited.breaches("critical", "warning"))
    }
    assert len(soak.audited) == soak.length.captures
    assert cried == {}, "\n".join(f"{name}\n{text}" for name, text in cried.items())


def test_no_capture_of_a_sound_cluster_reports_a_loss(soak: Soak) -> None:
    assert {name: audited.losses() for name, audited in soak.audited.items() if audited.losses()} == {}


def test_the_answers_of_a_busy_cluster_never_contradict_its_files(soak: Soak) -> None:
    compared: dict[str, int] = {}
    for name, audited in soak.audited.items():
        answers = [line for line in audited.report["invariants"] if line["code"][0] == ANSWERS]
        assert [line["code"] for line in answers if line["breached"]] == [], f"{name} ({soak.faults[name]})"
        for line in answers:
            compared[line["code"]] = compared.get(line["code"], 0) + line["checked"]
    assert compared.keys() == {code for code in CATALOGUE if code[0] == ANSWERS}
    assert {code for code, checked in compared.items() if not checked} == set()


def test_only_what_kafka_deleted_or_has_just_created_is_missing_in_a_copy(soak: Soak) -> None:
    # Kafka's own doing: topics that come and go, partitions and internal topics that it was about to create, segments
    # that retention, a cleaner or DeleteRecords took, files that it was about to rename, or to remove.
    missing = {
        name: [
            entry
            for entry in audited.report["coverage"]["unread"]
            if not any(f"/{topic}" in entry["path"] for topic in (SHORT_LIVED, GROWING, "__", *SHRINKING, *COMPACTED))
            and not entry["path"].endswith((".tmp", ".deleted", "-delete"))
            and not ("/deleted-records-" in entry["path"] and "vanished while the broker was read" in entry["reason"])
        ]
        for name, audited in soak.audited.items()
    }
    assert {name: entries for name, entries in missing.items() if entries} == {}


def test_the_ledger_finds_every_acknowledged_record(soak: Soak) -> None:
    for name, taken in soak.taken.items():
        if taken.told["mode"] == "full":
            # A replica that moves may be gone from one broker before that is copied, and not yet be on the other.
            copies = {**COPIES, **dict.fromkeys(MOVING, 0)} if "reassigned" in soak.faults[name] else COPIES
            judge_records(taken, soak.audited[name], soak.ledger, at_rest=False, compacted=COMPACTED, copies=copies)


def test_the_captures_fell_into_faults_of_every_kind(soak: Soak) -> None:
    during = {fault for fault in soak.faults.values() if not fault.startswith(soaking.AFTER)}
    assert during == {fault.__name__ for fault in soak.length.kinds}
    assert len(soak.ledger.records()) > 100 * soak.length.captures


def test_some_captures_hold_headers_only(soak: Soak) -> None:
    assert {taken.told["mode"] for taken in soak.taken.values()} == {"full", "headers"}


def test_sealed_segments_were_linked_not_read_again(soak: Soak) -> None:
    assert sum(taken.told["linked_bytes"] for taken in soak.taken.values()) > 0
