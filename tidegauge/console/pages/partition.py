"""A partition: its lineage drawn, its elections, and every row behind the drawing."""

from fastapi import APIRouter

from tidegauge.console.figures import Figure, figure
from tidegauge.console.leadership import leadership
from tidegauge.console.lineage import lineage
from tidegauge.console.pages.breaches import BREACH_COLUMNS
from tidegauge.console.pages.cluster import LOSS_COLUMNS, of_address
from tidegauge.console.reading import losses, partitions
from tidegauge.console.refusal import RefusalError, not_found
from tidegauge.console.web import Asked, Page, add_page

_COLUMNS = {
    "replicas": (
        "broker_id", "log_dir", "is_leader", "in_isr", "in_elr", "assigned", "is_future", "log_start_offset",
        "log_end_offset", "high_watermark", "last_stable_offset", "first_unstable_offset", "recovery_point_offset",
        "last_leader_epoch", "segment_count", "batch_count", "damaged_batches", "size_bytes",
    ),
    "lineage": (
        "broker_id", "leader_epoch", "start_offset", "end_offset", "batch_count", "checkpoint_start_offset",
        "elected_leader_id", "divergence_offset",
    ),
    "divergences": (
        "leader_id", "follower_id", "divergence_offset", "first_differing_offset", "follower_log_end_offset",
        "records_at_stake", "declared_committed", "comparable", "incomparable_reason",
    ),
    "transactions": (
        "producer_id", "producer_epoch", "transactional_id", "first_offset", "last_offset", "record_count", "outcome",
        "marker_offset", "hanging", "coordinator_state", "began_at", "last_write_at",
    ),
    "gaps": (
        "broker_id", "producer_id", "producer_epoch", "expected_sequence", "found_sequence", "offset",
        "previous_offset", "cause",
    ),
    "elections": (
        "at", "metadata_offset", "leader_id", "previous_leader_id", "leader_epoch", "partition_epoch", "isr",
        "previous_isr", "elr", "election", "records_at_stake",
    ),
    "groups": ("group", "committed_offset", "leader_epoch", "committed_at", "in_range", "lost_from_offset"),
}  # fmt: skip
_VIEWS = {
    "replicas": "v_run_replica",
    "lineage": "v_run_epoch_span",
    "divergences": "v_run_divergence",
    "losses": "v_run_loss",
    "transactions": "v_run_transaction",
    "gaps": "v_run_sequence_gap",
    "elections": "v_run_partition_change",
    "groups": "v_run_committed_offset",
}
_BREACHES_SHOWN = 50


def add(router: APIRouter) -> None:
    """`/clusters/CLUSTER/topics/TOPIC/partitions/N`"""
    add_page(router, "/clusters/{cluster}/topics/{topic}/partitions/{partition}", partition)


def partition(asked: Asked) -> Page:
    """One partition, as the latest run saw it, or the one that `run` names."""
    cluster = of_address(asked)
    name, topic = cluster["cluster"], asked.path["topic"]
    number = _number(asked.path["partition"])
    run_id = asked.query.get("run") or cluster["run_id"]
    run = partitions.run(asked.store, name, run_id)
    if run is None:
        raise not_found(f"Cluster {name!r} has no published run {run_id!r}.")
    rows = {part: partitions.of_partition(asked.store, view, run_id, topic, number) for part, view in _VIEWS.items()}
    states = partitions.of_partition(asked.store, "v_run_partition", run_id, topic, number)
    if not states and not rows["replicas"]:
        raise not_found(f"Run {run_id!r} of cluster {name!r} saw no partition {number} of a topic named {topic!r}.")
    drawing = lineage(
        replicas=rows["replicas"],
        spans=rows["lineage"],
        divergences=rows["divergences"],
        losses=rows["losses"],
        transactions=rows["transactions"],
        gaps=rows["gaps"],
    )
    breaches = partitions.breaches(asked.store, name, topic, number, resolved=False, limit=_BREACHES_SHOWN)
    return Page(
        template="partition.html.j2",
        values={
            "cluster": cluster,
            "topic": topic,
            "number": number,
            "state": states[0] if states else None,
            "run": run,
            "is_latest": run_id == cluster["run_id"],
            "runs": partitions.runs(asked.store, name),
            "drawing": drawing,
            "leadership": leadership(
                rows["elections"], dict(drawing.epochs) if drawing is not None else {}, run["captured_at"]
            ),
            "rows": rows,
            "breaches": breaches,
            "waiting": losses.headline_of(asked.store, name, topic, number),
        },
        figures={
            "breaches": figure(breaches, *BREACH_COLUMNS),
            "losses": figure(rows["losses"], *LOSS_COLUMNS),
            **{part: _figure(rows[part], columns) for part, columns in _COLUMNS.items()},
        },
    )


def _figure(rows: object, columns: tuple[str, ...]) -> Figure:
    return figure(rows, "cluster", "topic", "partition", *columns)  # type: ignore[arg-type]


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise RefusalError(404, "Not found", f"A partition is a number; {text!r} is none.")
    return int(text)
