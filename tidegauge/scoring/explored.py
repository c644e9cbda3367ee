"""Whole explored spaces: every state that a model reaches, rendered and audited; is what violates StrongIsr reported?

In: models and their constants. Out: an `Explored` of each, counts. What is audited is bytes, as brokers would have left
them; whether a state violates StrongIsr is asked of the specification's own predicate.

States whose disks are the same, byte for byte, are audited once, whichever of the models reaches them: of the five,
with two replicas, each four out of five are another's, too. They are derived in this machine's processes and
judged a thousand together, since handing a state of a few kilobytes to Spark takes longer than deriving it. With three
brokers or more, disks that differ only in the brokers' names are one, too.

StrongIsr looks at what brokers have declared committed that take themselves for the leader. A state can have lost
such a record without violating it: the broker that declared it has learned of its successor meanwhile, and will cut it.
That is an `aftermath`: what StrongIsr says, said of every replica. A report there is right, too.
"""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import permutations
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegauge import store
from tidegauge.audit.evaluate import judge
from tidegauge.derivation.in_process import derive_here
from tidegauge.expectations.registry import RULESET_VERSION
from tidegauge.progress import working
from tidegauge.relations import RELATIONS
from tidegauge.runs.run import AuditedSnapshot
from tidegauge.sim_engine.explore.layout import END, ENTRIES, HIGH_WATERMARK, QUORUM_ISR, Constants, Layout, layout_of
from tidegauge.sim_engine.explore.render_state import STARTED_AT_MS, disks_of, image_of
from tidegauge.sim_engine.explore.rules import Model, breaks_strong_isr
from tidegauge.sim_engine.explore.search import Explorer
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.snapshots.manifest import Consistency

Fields = NDArray[np.int64]
_Disks = tuple[Any, ...]
"""What `image_of` says of a state: equal where the disks are, byte for byte."""

REPORTING: Final = frozenset({"D06", "D10"})
"""A member of the ISR lacks what was declared committed (D10); or a replica that declared it will cut it (D06), where
it is not the leader that the metadata log names."""

_TOGETHER: Final = 1000
_SAME_NAMES_UP_TO: Final = 2
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - directories below it are made by tempfile


@dataclass(slots=True, kw_only=True)
class _Image:
    """Disks that one or more states have."""

    fields: Fields
    violating: int = 0
    other: int = 0
    aftermath: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """What the audit said of a whole space. Counts are of states; `besides`: other alarms, by invariant."""

    model: str
    constants: tuple[int, int, int, int]
    states: int
    images: int
    violating: int
    reported: int
    missed: int
    aftermath: int
    """States that do not violate, and are reported, since a committed record is lost in them all the same."""
    indistinguishable: int
    """States reported that lost nothing, whose disks are byte for byte those of one that violates."""
    false: int
    """States reported without any of these reasons."""
    besides: Mapping[str, int] = field(default_factory=dict)


def explored(models: Sequence[Model], constants: Constants, *, url: str) -> tuple[Explored, ...]:
    """Explores and audits a space of each model. `url` is a store that was migrated; nothing of this stays there."""
    spaces = [_images(model, constants) for model in models]
    distinct: dict[_Disks, Fields] = {}
    for images in spaces:
        for disks, image in images.items():
            distinct.setdefault(disks, image.fields)
    audited = _audited(list(distinct.values()), layout_of(constants), url)
    reports = dict(zip(distinct, audited, strict=True))
    return tuple(_counted(model, constants, images, reports) for model, images in zip(models, spaces, strict=True))


def _counted(
    model: Model, constants: Constants, images: Mapping[_Disks, _Image], reports: Mapping[_Disks, frozenset[str]]
) -> Explored:
    count: Counter[str] = Counter()
    besides: Counter[str] = Counter()
    for disks, image in images.items():
        codes = reports[disks]
        reported = bool(codes & REPORTING)
        states = image.violating + image.other
        count["states"] += states
        count["violating"] += image.violating
        count["reported"] += image.violating * reported
        count["missed"] += image.violating * (not reported)
        count["aftermath"] += image.aftermath * reported
        others = (image.other - image.aftermath) * reported
        count["indistinguishable" if image.violating else "false"] += others
        besides.update(dict.fromkeys(codes - REPORTING, states))
    return Explored(
        model=model.name,
        constants=(constants.replicas, constants.log_size, constants.max_records, constants.max_leader_epoch),
        states=count["states"],
        images=len(images),
        violating=count["violating"],
        reported=count["reported"],
        missed=count["missed"],
        aftermath=count["aftermath"],
        indistinguishable=count["indistinguishable"],
        false=count["false"],
        besides=dict(sorted(besides.items())),
    )


def table(found: Iterable[Explored]) -> Iterator[str]:
    """A row a space, Markdown."""
    yield (
        "| model | replicas, log, records, epochs | states | violate StrongIsr | reported | missed | reported besides: "
        "a committed record is lost all the same | the same disks as one that violates | false |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for one in found:
        numbers = (one.states, one.violating, one.reported, one.missed, one.aftermath, one.indistinguishable, one.false)
        yield f"| {one.model} | {', '.join(map(str, one.constants))} | {' | '.join(f'{n:,}' for n in numbers)} |"


def _images(model: Model, constants: Constants) -> dict[_Disks, _Image]:
    """Every distinct set of disks, with how many states have them."""
    explorer = Explorer(model, constants)
    explorer.explore()
    layout = explorer.layout
    found: dict[_Disks, _Image] = {}
    for fields in explorer.states():
        key = image_of(layout, fields)
        if constants.replicas > _SAME_NAMES_UP_TO:
            key = _nameless(key, constants.replicas)
        image = found.setdefault(key, _Image(fields=fields))
        if breaks_strong_isr(fields, constants.replicas, layout.replicas_at, layout.replica_fields):
            image.violating += 1
        else:
            image.other += 1
            image.aftermath += _lost(layout, fields)
    return found


def _lost(layout: Layout, fields: Fields) -> bool:
    """A member of the ISR lacks an entry that some replica holds below its own high watermark."""
    logs = []
    for number in range(layout.constants.replicas):
        at = layout.replicas_at + number * layout.replica_fields
        entries = [tuple(fields[at + ENTRIES + 2 * i : at + ENTRIES + 2 * i + 2]) for i in range(int(fields[at + END]))]
        logs.append((entries, int(fields[at + HIGH_WATERMARK])))
    members = [entries for number, (entries, _) in enumerate(logs) if int(fields[QUORUM_ISR]) >> number & 1]
    return any(member[: len(held[:mark])] != held[:mark] for held, mark in logs for member in members)


def _nameless(image: _Disks, replicas: int) -> _Disks:
    """The image with the brokers named in the one of all ways that comes first."""
    requests, isr, disks = image

    def renamed(names: tuple[int, ...]) -> tuple[Any, ...]:
        def members(bits: int) -> int:
            return sum(1 << names[i] for i in range(replicas) if bits >> i & 1)

        asked = tuple(
            members(value) if at % 2 else (names[value - 1] + 1 if value else 0) for at, value in enumerate(requests)
        )
        return asked, members(isr), tuple(disks[names.index(i)] for i in range(replicas))

    return min((renamed(names) for names in permutations(range(replicas))), key=repr)


def _audited(states: Sequence[Fields], layout: Layout, url: str) -> Iterator[frozenset[str]]:
    """The codes of each state's alarms."""
    root = Path(tempfile.mkdtemp(prefix="tidegauge-explored-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        with (
            working("judge", "distinct disks", parts=len(states)) as advance,
            get_context("spawn").Pool(os.cpu_count()) as pool,
        ):
            for at in range(0, len(states), _TOGETHER):
                numbers = range(at, min(at + _TOGETHER, len(states)))
                tasks = [(layout, states[n], str(root / str(n))) for n in numbers]
                yield from _judged(list(pool.imap(_derived, tasks, chunksize=20)), url)
                advance(len(numbers))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _derived(task: tuple[Layout, Fields, str]) -> dict[str, pa.Table]:
    """Renders a state, reads it back, and derives its facts."""
    layout, fields, place = task
    directory = Path(place)
    snapshot = write_snapshot(
        directory,
        disks_of(layout, fields),
        cluster="explored",
        snapshot_id=directory.name,
        consistency=Consistency.ATOMIC,
        truth={},
        at_ms=STARTED_AT_MS,
    )
    try:
        derived = derive_here(AuditedSnapshot(root=snapshot.root, manifest=snapshot.manifest, target=directory))
        return dict(derived.tables)
    finally:
        shutil.rmtree(directory)


def _judged(facts: list[dict[str, pa.Table]], url: str) -> Iterator[frozenset[str]]:
    """What both judges say of each, all at once."""
    new = store.NewRun(
        key=store.RunKey(cluster="explored", snapshot_id="state", ruleset_version=RULESET_VERSION),
        consistency=Consistency.ATOMIC.value,
        source="simulated",
        started_at=datetime.now(UTC),
    )
    run_ids = store.open_runs(url, [new] * len(facts))
    try:
        for name in RELATIONS:
            rows: dict[str, pa.Table] = {
                run_id: one[name] for run_id, one in zip(run_ids, facts, strict=True) if name in one
            }
            if rows:
                store.stage_together(url, name, rows)
        judged = judge(url, run_ids)
    finally:
        store.discard(url, *run_ids)
    for run_id in run_ids:
        yield frozenset(b.code for b in judged[run_id].breaches if b.severity != "info")
