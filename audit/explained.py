"""A breach with all that is known about it: from an audit's directory, or from a store.

In: a breach id. Out: `Explained`. Both ways give the same, but for what a store does not keep.
"""

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.derivation.fact_files import relation_at
from tidegauge.expectations.incidents.model import ToldIncident
from tidegauge.expectations.model import Severity
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.runs import report_file
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.location import Location, local

_SEVERITIES: Final = frozenset(severity.value for severity in Severity)
Row = Mapping[str, Any]

_BREACH: Final = """
SELECT b.breach_id, b.code, b.name, b.severity, b.subject, b.start_offset, b.end_offset, b.records, b.explanation,
       b.evidence, b.implied_by, b.next, b.points_to, coalesce(b.believe, '{}') AS believe, b.diagnosis,
       b.last_seen_run, b.cluster
FROM tidegauge.v_breach b WHERE b.breach_id = %s ORDER BY b.last_seen_at DESC LIMIT 1
"""
_CONSEQUENCES: Final = """
SELECT breach_id, code, name, subject FROM tidegauge.finding
WHERE run_id = %s AND implied_by = %s
"""


_INCIDENT: Final = """
SELECT i.*, m.because FROM tidegauge.v_incident_member m JOIN tidegauge.v_incident i USING (incident_id)
WHERE m.cluster = %s AND m.kind = 'breach' AND m.member = %s
"""


_TEXT_OR_NONE: Final = (str, type(None))
_WHOLE_OR_NONE: Final = (int, type(None))
_FIELDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "breach_id": str, "code": str, "name": str, "severity": str, "subject": dict, "explanation": str, "evidence": dict,
    "implied_by": _TEXT_OR_NONE, "next": _TEXT_OR_NONE, "points_to": _TEXT_OR_NONE, "diagnosis": _TEXT_OR_NONE,
    "believe": list,
}  # fmt: skip
"""What is told of a breach, as a report has it (`expectations.verdicts.Breach`)."""
_OF_LATER: Final = frozenset({"points_to", "diagnosis", "believe"})
"""Of which an older report has none."""
_ANCHORS: Final = (
    "metadata_offset", "unclean_election_offset", "newer_epoch", "leader_last_leader_epoch", "last_leader_epoch",
)  # fmt: skip
"""Numbers, of subject or evidence, by which a breach is found in the metadata log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfIncident:
    """The incident that a breach belongs to, and why."""

    incident_id: str
    headline: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A breach with a report's keys, what follows from it, the metadata log on its partition and its brokers."""

    breach: Row
    consequences: Sequence[Row]
    incident: OfIncident | None = None
    """None in a report of before there were incidents."""
    partition_changes: Sequence[Row] = ()
    broker_changes: Sequence[Row] = ()


def incident_in_report(incident_id: str, directory: Location) -> ToldIncident:
    """The incident of that id in any report below the directory. Raises `SnapshotError` if there is none."""
    for path in sorted(_reports_below(directory), key=str) if directory.is_dir() else []:
        for incident in _told_in(path)[1]:
            if incident["incident_id"] == incident_id:
                return incident
    raise SnapshotError(
        f"{directory} holds no report with an incident {incident_id}. Name the --out directory of an audit: incident "
        "ids stand in brackets in what it prints."
    )


def from_report(breach_id: str, directory: Location) -> Explained:
    """The breach of that id in any report below the directory. Raises `SnapshotError` if there is none."""
    reports = sorted(_reports_below(directory), key=str) if directory.is_dir() else []
    if not reports:
        raise SnapshotError(f"{directory} holds no report.json. Name the --out directory of an audit.")
    for path in reports:
        breaches, incidents = _told_in(path)
        for breach in breaches:
            if breach["breach_id"] == breach_id:
                return _with_facts(breach, breaches, _of_incident(breach_id, incidents), path.parent / "facts")
    raise SnapshotError(
        f"{directory} holds no breach {breach_id}. Breach ids stand in brackets in what an audit prints, "
        "and as breach_id in report.json."
    )


def _told_in(path: Location) -> tuple[Sequence[Row], Sequence[ToldIncident]]:
    """The breaches and the incidents of a report. Raises `SnapshotError` for what is no report of ours."""
    try:
        whole = local(path.parent) / path.name if isinstance(path, Path) else path
        report = json.loads(whole.read_text(encoding="utf-8"))
        breaches, incidents = report["breaches"], report.get("incidents", [])
        if not isinstance(breaches, list) or not isinstance(incidents, list):
            raise TypeError("breaches and incidents must be lists")
        for breach in breaches:
            _check(breach)
        for incident in incidents:
            _check_incident(incident)
    except (OSError, KeyError, TypeError, ValueError, RecursionError, AttributeError) as error:
        raise SnapshotError(
            f"{path} is not a report that can be used ({type(error).__name__}: {error}). Name the --out directory of "
            "an audit that went to its end, or audit the snapshot again."
        ) from error
    return breaches, incidents


def _check_incident(incident: ToldIncident) -> None:
    """Raises `KeyError` or `TypeError` for what is no incident as a report has it."""
    told: list[object] = [incident["incident_id"], incident["headline"]]
    told += [text for member in incident["members"] for text in (member["breach_id"] or "", member["because"])]
    for step in incident["steps"]:
        told += [step["step"], step["sentence"], step["command"] or "", step["to_complete"] or ""]
    for text in told:
        if not isinstance(text, str):
            raise TypeError(f"an incident is told of in text, not by a {type(text).__name__}")


def _of_incident(breach_id: str, incidents: Iterable[ToldIncident]) -> OfIncident | None:
    return next(
        (
            OfIncident(incident_id=incident["incident_id"], headline=incident["headline"], because=member["because"])
            for incident in incidents
            for member in incident["members"]
            if member["breach_id"] == breach_id
        ),
        None,
    )


def _reports_below(directory: Location) -> Iterator[Location]:
    """Every report there. Raises `OSError` for a folder that nobody lets us into: the breach may be told of in it."""

    def refused(error: OSError) -> None:
        raise error

    if not isinstance(directory, Path):
        yield from (directory / name for name in directory.sizes_below() if name.rpartition("/")[2] == report_file.NAME)
        return
    for folder, _, names in os.walk(directory, onerror=refused):
        if report_file.NAME in names:
            yield Path(folder, report_file.NAME)


def _check(breach: Row) -> None:
    """Raises `KeyError`, `TypeError` or `ValueError` for what is no breach as `expectations.verdicts.Breach` has it."""
    told = {name: breach[name] for name in _FIELDS if name in breach or name not in _OF_LATER}
    for name, value in told.items():
        if not isinstance(value, _FIELDS[name]):
            raise TypeError(f"{name} of a breach must not be a {type(value).__name__}")
    if "points_to" in told:
        _ = breach["believe"]
    if breach["severity"] not in _SEVERITIES:
        raise ValueError(f"{breach['severity']!r} is no severity")
    for name in _ANCHORS:
        for value in (breach["subject"].get(name), breach["evidence"].get(name)):
            if not isinstance(value, _WHOLE_OR_NONE):
                raise TypeError(f"{name} of a breach must not be a {type(value).__name__}")
    _partition(breach["subject"])
    _brokers(breach)


def in_order(consequences: Iterable[Row]) -> list[Row]:
    """By code, then by id: the same wherever they come from."""
    return sorted(consequences, key=lambda b: (b["code"], b["breach_id"]))


def _with_facts(breach: Row, breaches: Sequence[Row], incident: OfIncident | None, facts: Location) -> Explained:
    consequences = in_order(b for b in breaches if b["implied_by"] == breach["breach_id"])
    place = _partition(breach["subject"])
    if place is None:
        return Explained(
            breach=breach,
            consequences=consequences,
            incident=incident,
            broker_changes=_of_brokers(facts, _brokers(breach)),
        )
    of_partition = (pc.field("topic") == place[0]) & (pc.field("partition") == place[1])
    changes = _facts(facts, "partition_changes", of_partition)
    concerned = {b for c in changes for b in c["replicas"]} | _brokers(breach)
    return Explained(
        breach=breach,
        consequences=consequences,
        incident=incident,
        partition_changes=changes,
        broker_changes=_of_brokers(facts, concerned),
    )


def _of_brokers(facts: Location, brokers: Collection[int]) -> list[Row]:
    return _facts(facts, "broker_changes", pc.field("broker_id").isin(sorted(brokers)))


def _facts(facts: Location, relation: str, condition: pc.Expression) -> list[Row]:
    """Rows of a relation; none where the facts were not kept beside the report."""
    folder = facts / relation
    if not folder.is_dir():
        return []
    try:
        rows: list[Row] = relation_at(facts, relation).to_table(filter=condition).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise SnapshotError(f"{folder} cannot be read ({error}). Audit the snapshot again.") from error
    return rows


def from_store(breach_id: str, url: str) -> Explained:
    """The breach as the last run that saw it put it. Raises `SnapshotError` if no run has, `StoreError`."""
    from tidegauge.store import by_column, connect, migrate
    from tidegauge.store.incident_reading import IncidentRow, headline

    migrate(url)
    with connect(url, f"explain {breach_id}") as connection, connection.cursor() as cursor:

        def rows(query: str, *values: object) -> Sequence[Row]:
            cursor.execute(query, values)
            return list(by_column(cursor))

        found = rows(_BREACH, breach_id)
        if not found:
            raise SnapshotError(
                f"The store holds no breach {breach_id}. Breach ids stand in brackets in what an audit prints; "
                "--report DIR looks in an audit's directory instead."
            )
        breach, run = found[0], found[0]["last_seen_run"]
        changes: Sequence[Row] = ()
        concerned = _brokers(breach)
        if (place := _partition(breach["subject"])) is not None:
            changes = rows(
                "SELECT * FROM tidegauge.partition_changes WHERE run_id = %s AND topic = %s AND partition = %s",
                *(run, *place),
            )
            concerned |= {b for c in changes for b in c["replicas"]}
        return Explained(
            breach=breach,
            consequences=in_order(rows(_CONSEQUENCES, run, breach_id)),
            incident=next(
                (
                    OfIncident(
                        incident_id=row["incident_id"],
                        headline=headline(cast(IncidentRow, row)),
                        because=row["because"],
                    )
                    for row in rows(_INCIDENT, breach["cluster"], breach_id)
                ),
                None,
            ),
            partition_changes=changes,
            broker_changes=rows(
                "SELECT * FROM tidegauge.broker_changes WHERE run_id = %s AND broker_id = ANY(%s)",
                *(run, sorted(concerned)),
            ),
        )


def _partition(subject: Mapping[str, Any]) -> TopicPartition | None:
    topic, partition = subject.get("topic"), subject.get("partition")
    return TopicPartition(topic, int(partition)) if topic is not None and partition is not None else None


def _brokers(breach: Row) -> set[int]:
    named = (breach["subject"].get(name) for name in ("broker_id", "leader_id", "follower_id"))
    return {int(broker) for broker in named if broker is not None}
