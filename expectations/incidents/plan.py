"""The checklist of an incident: sentences, and commands with all filled in that is known.

In: an incident, its breaches and losses, where the snapshot is. Out: its steps, in the order in which they are to be
done: keep what there is, look, save, repair, decide, look again. The rules that must hold: what a step prints a shell
accepts as it stands; a step in which something is missing says what and where to find it, and names it in capitals; a
step has the same name in each run for the same thing to do.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidegauge.expectations.incidents.model import Found, Incident, Step
from tidegauge.expectations.verdicts import Breach
from tidegauge.relations import LossRow

BOOTSTRAP: Final = "HOST:PORT"
_NEEDS_BOOTSTRAP: Final = f"Put a broker's address for {BOOTSTRAP}: the snapshot does not tell one."
_MOST_LOOKED_AT: Final = 10
"""Breaches of which the next command is a step of its own: what comes after them is alike, or nobody gets there."""
_MOST_SAVED: Final = 200
_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")
_OPEN: Final = re.compile(
    r"""(?P<quoted>'[^']*'|"'")|(?P<bootstrap><host:port[^>]*>|HOST:PORT)|(?P<snapshot><snapshot>|\bSNAPSHOT\b)"""
    r"""|<(?P<gap>[^<>]*)>"""
)
"""What is to be filled in of a breach's next command. What is quoted there is somebody's name, whatever it holds."""
_IN_SNAPSHOT: Final = re.compile(r"(?:^|[ (])broker-\d+/|^find \.")
_IN_LOG_DIR: Final = re.compile(r"--files [A-Za-z0-9._]+-\d+/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where an incident's evidence is."""

    snapshot: str
    """A path or a URL."""
    has_manifest: bool = True
    """Without one there is nothing to check its files against."""
    previous: str | None = None
    """That of the earlier snapshot, if it was compared with one."""


def planned(incident: Incident, found: Found, scene: Scene) -> Incident:
    """The incident with its checklist."""
    own = {m.breach_id for m in incident.members if m.kind == "breach"}
    epochs = {(m.topic, m.partition, m.leader_epoch) for m in incident.members if m.kind == "loss"}
    roots = [b for b in found.breaches if b.breach_id in own and b.implied_by is None]
    losses = [x for x in found.losses if (x["topic"], int(x["partition"]), x["leader_epoch"]) in epochs]
    steps = _steps(incident, found.cluster, sorted(roots, key=_worth), sorted(losses, key=_offsets), scene)
    unique = {step.step: step for step in steps}
    return replace(incident, steps=tuple(unique.values()))


def with_bootstrap(command: str, bootstrap: str, to_complete: str | None) -> tuple[str, str | None]:
    """A step's command with a broker's address in it, and what is still to be filled in."""
    told = (to_complete or "").replace(_NEEDS_BOOTSTRAP, "").strip()
    if told == (to_complete or ""):
        return command, to_complete  # It asks no broker.
    return _OPEN.sub(lambda found: shlex.quote(bootstrap) if found["bootstrap"] else found[0], command), told or None


def _worth(breach: Breach) -> tuple[int, str, str]:
    return ("critical", "warning", "info").index(breach.severity), breach.code, breach.breach_id


def _offsets(loss: LossRow) -> tuple[str, int, int, int]:
    return loss["topic"], int(loss["partition"]), loss["start_offset"], loss["end_offset"]


def _steps(
    incident: Incident, cluster: str, roots: Sequence[Breach], losses: Sequence[LossRow], scene: Scene
) -> Iterator[Step]:
    yield Step(step="avoid", sentence=incident.avoid)
    if scene.has_manifest:
        yield Step(
            step="verify-snapshot",
            sentence="Check that the snapshot is whole: it is the evidence, and may hold the only copy.",
            command=_command("tidegauge", "snapshot", "verify", scene.snapshot),
        )
    yield from _salvages(losses, scene)
    looked = {}
    for group in incident.groups:
        command = f"bin/kafka-consumer-groups.sh --bootstrap-server {BOOTSTRAP} --describe --group {shlex.quote(group)}"
        looked[command] = Step(
            step=_name("group", group),
            sentence=f"See how far group {group} has read.",
            command=command,
            to_complete=_NEEDS_BOOTSTRAP,
        )
    yield from looked.values()
    yield from _looks(roots, scene, set(looked))
    yield from _replays(losses, scene)
    if losses:
        yield Step(
            step="decide-losses",
            sentence="Decide each loss: accepted, salvaged, or produced again. It stays open until somebody does.",
            command=_command("tidegauge", "losses", "list", "--cluster", cluster),
        )
    yield Step(
        step="audit-again",
        sentence="Capture the cluster again when it has recovered, and compare with this snapshot.",
        command=_command("tidegauge", "audit", "NEW_SNAPSHOT", "--previous", scene.snapshot, "--out", "audited-again"),
        to_complete="Put the path of the new capture for NEW_SNAPSHOT.",
    )


def _salvages(losses: Iterable[LossRow], scene: Scene) -> Iterator[Step]:
    """What can still be saved: from a disk in the snapshot, or from the earlier one where no disk has it."""
    for loss in list(losses)[:_MOST_SAVED]:
        topic, partition = loss["topic"], int(loss["partition"])
        start, end = loss["start_offset"], loss["end_offset"]
        where = f"{topic}-{partition} [{start}, {end})"
        holder = _holder(loss)
        name = _name("salvage", topic, partition, start, end, *(() if holder is None else (f"broker{holder}",)))
        source = _source(loss, scene)
        if source is None:
            yield Step(
                step=name,
                sentence=f"Look for {loss['records']:,} records of {where} in earlier snapshots and on disks that were "
                "taken out: nothing in this snapshot has them.",
            )
            continue
        ranges = ("--topic", topic, "--partition", partition, "--from", start, "--to", end)
        whose = () if holder is None else ("--broker", holder)
        yield Step(
            step=name,
            sentence=f"Save {loss['records']:,} records of {where}"
            + (f" from broker {holder}'s disk." if holder is not None else " from the earlier snapshot."),
            command=_command("tidegauge", "salvage", source, *ranges, *whose, "--out", _salvaged(loss)),
        )


def _replays(losses: Iterable[LossRow], scene: Scene) -> Iterator[Step]:
    """What was saved goes back: of records that may yet be cut or not, nothing does before that is known."""
    for loss in list(losses)[:_MOST_SAVED]:
        topic, partition = loss["topic"], int(loss["partition"])
        if loss["state"] == "possible" or _source(loss, scene) is None:
            continue
        yield Step(
            step=_name("replay", topic, partition, loss["start_offset"], loss["end_offset"]),
            sentence=f"See what would be produced again to {topic}-{partition}; with --produce the same command does "
            "it, each record once.",
            command=_command("tidegauge", "replay", _salvaged(loss), "--bootstrap", BOOTSTRAP),
            to_complete=_NEEDS_BOOTSTRAP,
        )


def _holder(loss: LossRow) -> int | None:
    """A broker whose disk has its records."""
    return loss["held_by"][0] if loss["held_by"] and loss["state"] != "lost" else None


def _source(loss: LossRow, scene: Scene) -> str | None:
    """The snapshot that has its records; None where none that is known has."""
    return scene.snapshot if _holder(loss) is not None else scene.previous


def _salvaged(loss: LossRow) -> str:
    """Where a loss's records are saved."""
    holder = _holder(loss)
    whose = "" if holder is None else f"-broker{holder}"
    return _NAME.sub("_", f"salvaged-{loss['topic']}-{int(loss['partition'])}-{loss['start_offset']}{whose}")


def _looks(roots: Sequence[Breach], scene: Scene, looked: set[str]) -> Iterator[Step]:
    """What each kind of breach asks for next, but for what is saved or looked at already."""
    most = len(looked) + _MOST_LOOKED_AT
    for root in roots:
        command, to_complete = _filled(root.next, scene)
        if command is None or command in looked or "tidegauge salvage" in command:
            continue
        looked.add(command)
        if len(looked) > most:
            return
        about = ", ".join(f"{n.removesuffix('_id').replace('_', ' ')} {v}" for n, v in root.subject.items())
        yield Step(
            step=_name("look", root.breach_id),
            sentence=f"Look at {root.code} {root.name} ({about}).",
            command=command,
            to_complete=to_complete,
        )


def _filled(told: str, scene: Scene) -> tuple[str | None, str | None]:
    """A breach's next command with what is known in it, and what is still to be filled in. None where it is none."""
    command = told.rpartition("down; ")[2].strip()
    needs: dict[str, None] = {}

    def fill(match: re.Match[str]) -> str:
        if match["quoted"]:
            return match[0]
        if match["snapshot"]:
            return shlex.quote(scene.snapshot)
        if match["bootstrap"]:
            needs[_NEEDS_BOOTSTRAP] = None
            return BOOTSTRAP
        placeholder = re.sub(r"[^A-Za-z0-9]+", "_", match["gap"]).strip("_").upper() or "VALUE"
        needs[f"Put the {match['gap']} for {placeholder}."] = None
        return placeholder

    command = _OPEN.sub(fill, command)
    if _IN_SNAPSHOT.search(command) and "://" not in scene.snapshot:
        command = f"cd {shlex.quote(scene.snapshot)} && {command}"
    elif _IN_SNAPSHOT.search(command) or _IN_LOG_DIR.search(command):
        needs["Run it in the log dir of a broker that holds this partition."] = None
    return command or None, " ".join(needs) or None


def _name(*parts: object) -> str:
    return _NAME.sub("_", "-".join(map(str, parts)))


def _command(*words: object) -> str:
    return shlex.join(map(str, words))
