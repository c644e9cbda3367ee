"""What an audit read of a snapshot, and what it did not and why.

In: what was gathered of the snapshot, its rows of the index step, its facts. Out: `coverage.json`. A file that could
not be read is named with the reason; nothing is left out in silence.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tidegauge.derivation.fact_files import digest_of_parts
from tidegauge.derivation.gathering.gather import SnapshotContext
from tidegauge.derivation.index_row import IndexRow
from tidegauge.derivation.located_parquet import dataset_at
from tidegauge.relations import RELATIONS
from tidegauge.runs.failures import Failure, reason_of
from tidegauge.runs.missing_evidence import UnreadSegment, kept, unread_segments
from tidegauge.runs.run import ReadSnapshot
from tidegauge.runs.run_places import COVERAGE_FILE, FACTS_DIGEST
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.manifest import LeftOut
from tidegauge.snapshots.whole_files import write_whole

_LOGS: Final = (".log", ".headers")
"""How the name of a segment's file ends, in a full copy and in one without records."""


def coverage_of(snapshot: ReadSnapshot, context: SnapshotContext, segments: Iterable[IndexRow]) -> dict[str, Any]:
    """All but the batches. `segments`: the index step's rows of this snapshot, with `path`, `directory`, `error`,
    `bytes_read`, `reused`. Raises `SnapshotError` if there are replicas, and not one log of theirs could be read: of
    such a copy every verdict would be "not known", and the audit would end as one that found nothing.
    """
    rows = list(segments)
    unread = [*context.unread, *(LeftOut(path=r["path"], reason=r["error"]) for r in rows if r["error"])]
    if any(context.replicas.values()) and all(row["error"] for row in rows):
        raise SnapshotError(_no_log_read(snapshot, unread))
    return {
        "brokers": len(context.nodes.brokers),
        "controllers": len(context.nodes.controllers),
        "replicas": sum(len(of_partition) for of_partition in context.replicas.values()),
        "segments": sum(not row["error"] for row in rows),
        "segments_reused": sum(bool(row["reused"]) for row in rows),
        "bytes": sum(row["bytes_read"] or 0 for row in rows),
        "captured_at_ms": context.captured_at_ms,
        "missing": kept((*context.missing, *unread_segments(rows))),
        "evidence": [{"evidence": each.evidence.value, "what": each.what} for each in context.evidence],
        "unread": [{"path": each.path, "reason": each.reason} for each in unread],
    }


def _no_log_read(snapshot: ReadSnapshot, unread: Sequence[LeftOut]) -> str:
    logs = [each for each in unread if each.path.endswith(_LOGS)]
    if not logs:
        return (
            f"{snapshot.key} has directories of replicas and not one log in them, so nothing can be said. Copy the "
            ".log files too."
        )
    return (
        f"Not one of the {len(logs):,} logs of {snapshot.key} could be read, so nothing can be said about it. "
        f"{logs[0].path}: {logs[0].reason}. Make them readable for who audits, on every machine that works on it, or "
        "copy them again."
    )


def forget_coverage(target: Location) -> None:
    """Removes that of an earlier try."""
    (target / COVERAGE_FILE).unlink(missing_ok=True)


def write_coverage(target: Location, coverage: Mapping[str, Any], failed: Sequence[Failure] = ()) -> None:
    """Writes it, with the batches that the facts count, and with what tells whether they are all there later.
    `failed`: the partitions whose facts could not be derived.
    """
    facts = target / "facts"
    segments = dataset_at(facts / "segments", RELATIONS["segments"].arrow_schema)
    batches = sum(segments.to_table(columns=["batch_count"]).column("batch_count").to_pylist())
    told = _without(coverage, failed) if failed else coverage
    write_whole(target / COVERAGE_FILE, json.dumps({**told, "batches": batches, FACTS_DIGEST: digest_of_parts(facts)}))


def _without(coverage: Mapping[str, Any], failed: Sequence[Failure]) -> dict[str, Any]:
    """The coverage where segments that were read count as unread after all."""
    known = {entry["path"] for entry in coverage["unread"]}
    rows: list[UnreadSegment] = [
        {"path": path, "directory": path.rpartition("/")[0], "error": reason_of(failure)}
        for failure in failed
        for path in failure.unread
        if path not in known
    ]
    return {
        **coverage,
        "segments": coverage["segments"] - len(rows),
        "missing": [*coverage["missing"], *kept(unread_segments(rows))],
        "unread": [*coverage["unread"], *({"path": row["path"], "reason": row["error"]} for row in rows)],
    }
