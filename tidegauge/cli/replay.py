"""A replay in words and as JSON, and the loss that it closes.

In: the plan, and what was produced. Out: lines, the object of `--json` (docs/guides/replay.md has its keys), a decision
in the ledger.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from tidegauge.cli.by_hand import migrated_store, user
from tidegauge.cli.losses_command import decision_words, refusal_words
from tidegauge.recovery.replay import Plan, Replayed
from tidegauge.recovery.replay_plan import GO_WITHOUT, UNFIT, LeftOut, unfit_words
from tidegauge.recovery.salvaged import Salvage
from tidegauge.store import decide
from tidegauge.store.loss_decision import LONGEST_NOTE
from tidegauge.store.loss_reading import losses
from tidegauge.terminal import plain

SCHEMA_VERSION: Final = 1
_WORDS: Final = {
    LeftOut.PRODUCED_BEFORE: "produced by an earlier replay of this directory",
    LeftOut.ABORTED: "of aborted transactions (--with-aborted produces them)",
    LeftOut.OPEN_TRANSACTION: "of transactions that had not ended (--with-open produces them)",
    LeftOut.SURVIVED: "had survived on another copy when they were salvaged",
    LeftOut.PRESENT: "on the partition already",
    LeftOut.PRESENT_OPEN: "on the partition in a transaction that has not ended: run this again when it has",
    LeftOut.NEWER_VALUE: "of keys that have a newer value (--newer-values produces them)",
    LeftOut.TOO_LARGE: "larger than max.message.bytes",
    LeftOut.NO_KEY: "without a key, which no compacted topic takes",
    LeftOut.TIMESTAMP: "with a timestamp that the topic does not take",
}
_WAYS: Final = {
    "place": "in their old place",
    "sequence": "by producer and sequence",
    "timestamp": "by content and timestamp",
    "content": "by content",
}


def plan_lines(salvage: Salvage, plan: Plan) -> Iterator[str]:
    """What would be produced, what is left out and why, and what to know before."""
    origin, place = salvage.origin, plan.target.place
    span = f" [{salvage.start_offset}, {salvage.end_offset})" if salvage.start_offset is not None else ""
    yield (
        f"{plan.salvaged:,} records of {origin.topic}-{origin.partition}{span}, salvaged from broker "
        f"{salvage.broker_id} of {origin.cluster}. To produce to {place} of cluster {plan.target.cluster_id}: "
        f"{plan.to_produce:,}."
    )
    for why, count in sorted(plan.counts.items(), key=lambda item: list(LeftOut).index(item[0])):
        ways = ", ".join(f"{n:,} {_WAYS[way]}" for way, n in sorted(plan.ways.items()) if n)
        yield f"  left out: {count:,} {_WORDS[why]}{f' ({ways})' if why is LeftOut.PRESENT and ways else ''}"
    unsettled = sum(len(batch.offsets) for _, batch in plan.unsettled)
    if unsettled:
        yield (
            f"  An earlier replay stopped before it knew whether {unsettled:,} of these had arrived. They are sent "
            "first, as the same batch, which the leader takes once."
        )
    yield f"  Compared with [{plan.compared_from}, {plan.compared_to}) of {place}."
    for text in plan.warnings:
        yield f"  Warning: {text}"


def dry_run_lines(directory: Path, plan: Plan) -> Iterator[str]:
    """What to do next, where nothing was produced."""
    for text in unfit_words(plan.counts, plan.target.place, plan.limits):
        yield f"  Brokers will refuse records. {text} {GO_WITHOUT}"
    if plan.to_produce:
        yield f"Nothing was produced. To produce: the same command with --produce, {shlex.quote(str(directory))} first."
    else:
        yield "Nothing is left to produce."


def finished_lines(plan: Plan, done: Replayed) -> Iterator[str]:
    """What was produced, and how to close the loss."""
    where = f" at [{done.first_offset}, {done.end_offset})" if done.first_offset is not None else ""
    yield f"Produced {done.records:,} records to {plan.target.place}{where}, acknowledged by all in-sync replicas."
    if plan.is_whole:
        yield "When consumers have them, close the loss: tidegauge losses close ID --as produced-again --note TEXT"
    else:
        yield "Some records still wait, see above: give the same command again when they can be produced."


def result(salvage: Salvage, plan: Plan, done: Replayed | None) -> dict[str, object]:
    """What `--json` prints. `done` is None for a dry run."""
    target = plan.target
    return {
        "schema_version": SCHEMA_VERSION,
        "salvaged": str(salvage.directory),
        "cluster_id": target.cluster_id,
        "topic": target.place.topic,
        "topic_id": target.topic_id,
        "partition": target.place.partition,
        "records": plan.salvaged,
        "to_produce": plan.to_produce,
        "unsettled": sum(len(batch.offsets) for _, batch in plan.unsettled),
        "left_out": {why.value: plan.counts.get(why, 0) for why in LeftOut},
        "present_by": {way: plan.ways.get(way, 0) for way in _WAYS},
        "compared_from": plan.compared_from,
        "compared_to": plan.compared_to,
        "warnings": list(plan.warnings),
        "dry_run": done is None,
        "finished": done is not None and plan.is_whole,
        "produced": 0 if done is None else done.records,
        "produced_bytes": 0 if done is None else done.size_bytes,
        "first_offset": None if done is None else done.first_offset,
        "end_offset": None if done is None else done.end_offset,
        "loss": None,
    }


def check_loss(loss_id: str, salvage: Salvage, store: str | None) -> None:
    """Raises `UsageError` where the ledger has no such loss, or it is not of what was salvaged."""
    origin = salvage.origin
    with migrated_store(store) as url:
        known = [loss for loss in losses(url, with_decided=True).losses if loss["loss_id"] == loss_id]
    if not known:
        raise click.UsageError(
            f"There is no loss {plain(loss_id)} in this store. Nothing was produced. `tidegauge losses list --all` "
            "lists them."
        )
    (loss,) = known
    here = (salvage.start_offset or 0, salvage.end_offset or 0)
    covers = here[0] <= loss["start_offset"] and loss["end_offset"] <= here[1]
    if (loss["topic"], loss["partition"]) != (origin.topic, origin.partition) or not covers:
        raise click.UsageError(
            f"{plain(loss_id)} is of {plain(loss['topic'])}-{loss['partition']} "
            f"[{loss['start_offset']}, {loss['end_offset']}), and {salvage.directory} holds "
            f"{plain(origin.topic)}-{origin.partition} [{here[0]}, {here[1]}). Nothing was produced. Name the loss "
            "that these records make good, or leave --loss out."
        )


def close_loss(loss_id: str, salvage: Salvage, plan: Plan, done: Replayed, *, by: str | None, store: str | None) -> str:
    """Records in the ledger that its records were produced again; what became of it. Raises `UsageError`."""
    place = plan.target.place
    where = f"[{done.first_offset}, {done.end_offset}) of " if done.first_offset is not None else ""
    note = (
        f"tidegauge replay: {done.records} of {plan.salvaged} salvaged records produced to {where}{place}, cluster "
        f"{plan.target.cluster_id}; left out: "
        + (", ".join(f"{count} {why.value}" for why, count in plan.counts.items()) or "none")
    )
    with migrated_store(store) as url:
        decision = decide(url, loss_id, "produced_again", by=user() if by is None else by, note=note[:LONGEST_NOTE])
    if decision.outcome not in ("decided", "already"):
        raise click.UsageError(f"All is produced, but the loss is not closed. {refusal_words(loss_id, decision)}")
    return decision_words(loss_id, decision)


def why_not_closed(salvage: Salvage, plan: Plan) -> str | None:
    """Why a loss is not made good by what was produced; None where it is."""
    missing = sum(plan.counts.get(why, 0) for why in (*UNFIT, LeftOut.PRESENT_OPEN))
    if missing:
        return f"{missing:,} records were not produced, so the loss stays open."
    if salvage.unreadable:
        return f"{salvage.unreadable:,} batches could not be salvaged, so the loss stays open."
    return None
