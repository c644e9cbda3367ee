"""A file read whole: its text to a `WrittenScenario`.

In: a path, or text and the name under which errors cite it; the codes of invariants that may be named, if the caller
knows them. Out: the scenario. Raises `ScenarioFileError`, and then nothing has been played.
"""

import textwrap
from collections.abc import Collection
from pathlib import Path
from typing import Final

from tidegauge.sim_engine.actions import StartProducer
from tidegauge.sim_engine.scenarios.scenario import Finding, LostRange
from tidegauge.sim_engine.scenarios.written.cast import LONGEST_MS, Cast, clients_of, cluster_of, topics_of
from tidegauge.sim_engine.scenarios.written.form import (
    SaidOfClient,
    SaidOfPartition,
    SaidOfReplica,
    Step,
    WrittenMoment,
    WrittenScenario,
)
from tidegauge.sim_engine.scenarios.written.places import Place, read_text, root_of, shown_ms
from tidegauge.sim_engine.scenarios.written.steps import MOST_RECORDS, WORDS, act_of, records_in

_MOST_STEPS: Final = 1_000
_MOST_MOMENTS: Final = 20
_MOST_SAID: Final = 200
_TIMES: Final = ("at", "after")
_MOMENT: Final = ("what", "compare_with", "lost", "find", "unseen", "check")
_WIDTH: Final = 118


def read_scenario(path: Path, *, codes: Collection[str] | None = None) -> WrittenScenario:
    """A file's scenario. `codes`: invariants that may be expected; None accepts any word."""
    return scenario_of(read_text(path), file=str(path), codes=codes)


def scenario_of(text: str, *, file: str, codes: Collection[str] | None = None) -> WrittenScenario:
    """A text's scenario; `file` is what errors call it."""
    root = root_of(text, file)
    said = root.mapping(
        ("scenario", "about", "cluster", "topics", "play"), ("clients", "story", "truth", "audit_finds")
    )
    brokers, settings = cluster_of(said["cluster"])
    topics = topics_of(said["topics"], brokers)
    clients = clients_of(said.get("clients"), brokers, topics)
    cast = Cast(brokers=brokers, topics=topics, clients=clients)
    # Kafka's own topics come first, as they do where they are created before anybody writes.
    ordered = sorted(topics.values(), key=lambda topic: not topic.name.startswith("__"))
    ids = [c.producer_id for c in clients.values() if isinstance(c, StartProducer) and c.producer_id is not None]
    return WrittenScenario(
        name=said["scenario"].name(),
        about=" ".join(said["about"].text(200).split()),
        text="\n\n".join(_paragraph(said[key]) for key in ("story", "truth", "audit_finds") if key in said),
        brokers=brokers,
        settings=settings,
        topics=tuple(ordered),
        steps=_steps(said["play"], cast, codes),
        highest_producer_id=max(ids, default=None),
    )


def _paragraph(place: Place) -> str:
    return textwrap.fill(" ".join(place.text().split()), _WIDTH)


def _steps(place: Place, cast: Cast, codes: Collection[str] | None) -> tuple[Step, ...]:
    steps: list[Step] = []
    moments: list[str] = []
    records = 0
    for each in place.items(_MOST_STEPS):
        named = each.named()
        words = [key for key in named if key in WORDS or key == "moment"]
        if len(words) != 1:
            # `mapping` says which word is meant, if one is misspelt; else two stand there, or none does.
            each.mapping((), (*_TIMES, *WORDS, "moment", *(_MOMENT if "moment" in named else _beside(words))))
            told = f"has {' and '.join(words)}" if words else f"says nothing. The words are {', '.join(WORDS)}, moment"
            raise each.error(f"a step does one thing, and this one {told}.")
        at_ms = _time(each, steps)
        if words == ["moment"]:
            moment = _moment(each, cast, codes, moments)
            moments.append(moment.name)
            steps.append(Step(place=each, at_ms=at_ms, does=moment))
            continue
        word = WORDS[words[0]]
        act = act_of(words[0], each.mapping((words[0], *word.required), (*word.optional, *_TIMES)), cast)
        records += records_in(act)
        if records > MOST_RECORDS:
            raise each.error(
                f"with this step the scenario sends {records:,} records; at most {MOST_RECORDS:,} are played."
            )
        steps.append(Step(place=each, at_ms=at_ms, does=act))
    if not moments:
        raise place.error("has no moment, so nothing would be copied. End with `- moment: end`.")
    if not isinstance(steps[-1].does, WrittenMoment):
        raise steps[-1].place.error("nothing is copied after this step. End with a moment, or take it out.")
    return tuple(steps)


def _beside(words: list[str]) -> tuple[str, ...]:
    return tuple(key for word in words for key in (*WORDS[word].required, *WORDS[word].optional))


def _time(place: Place, before: list[Step]) -> int:
    named = place.named()
    if "at" in named and "after" in named:
        raise named["after"].error("the step has at, too. Leave one of them.")
    last = before[-1] if before else None
    last_ms = last.at_ms if last is not None else 0
    if "at" in named:
        at_ms = named["at"].duration(LONGEST_MS)
        if last is not None and at_ms < last_ms:
            raise named["at"].error(
                f"{shown_ms(at_ms)} is before the step above it (line {last.place.line}, {shown_ms(last_ms)}). "
                "Steps stand in the order in which they happen."
            )
        return at_ms
    at_ms = last_ms + (named["after"].duration(LONGEST_MS) if "after" in named else 0)
    if at_ms > LONGEST_MS:
        raise place.error(f"is {shown_ms(at_ms)} after the beginning; at most {shown_ms(LONGEST_MS)} are played.")
    return at_ms


def _moment(place: Place, cast: Cast, codes: Collection[str] | None, before: list[str]) -> WrittenMoment:
    said = place.mapping(("moment",), (*_MOMENT, *_TIMES))
    name = said["moment"].name()
    if name in before:
        raise said["moment"].error(f"there is a moment {name} above. Give it another name: each is a directory.")
    if len(before) == _MOST_MOMENTS:
        raise place.error(f"at most {_MOST_MOMENTS} moments are copied.")
    previous = said["compare_with"].text() if "compare_with" in said else None
    if previous is not None and previous not in before:
        earlier = ", ".join(before) or "none"
        raise said["compare_with"].error(f"there is no earlier moment {previous!r}. Earlier ones: {earlier}.")
    lost = said["lost"].items(_MOST_SAID) if "lost" in said else []
    find = said["find"].items(_MOST_SAID) if "find" in said else []
    check = said["check"].items(_MOST_SAID) if "check" in said else []
    return WrittenMoment(
        name=name,
        what=" ".join(said["what"].text(400).split()) if "what" in said else name,
        previous=previous,
        losses=tuple(_lost(each, cast) for each in lost),
        findings=tuple(_finding(each, cast, codes) for each in find),
        unseen=" ".join(said["unseen"].text(400).split()) if "unseen" in said else None,
        said=tuple(_said(each, cast) for each in check),
    )


def _lost(place: Place, cast: Cast) -> LostRange:
    said = place.mapping(("partition", "offsets"), ("committed",))
    start, end = said["offsets"].closed_span()
    return LostRange(
        partition=cast.partition(said["partition"]),
        start_offset=start,
        end_offset=end,
        committed=said["committed"].flag() if "committed" in said else True,
    )


def _finding(place: Place, cast: Cast, codes: Collection[str] | None) -> Finding:
    said = place.mapping(("code",), ("partition", "broker", "offsets"))
    code = said["code"].text(20)
    if codes is not None and code not in codes:
        raise said["code"].error(
            f"there is no invariant {code!r}. Codes are such as D05; the invariants' pages have all."
        )
    start, end = said["offsets"].span(open_end=True) if "offsets" in said else (None, None)
    return Finding(
        code=code,
        partition=cast.partition(said["partition"]) if "partition" in said else None,
        broker_id=cast.broker(said["broker"]) if "broker" in said else None,
        start_offset=start,
        end_offset=end,
    )


def _said(place: Place, cast: Cast) -> SaidOfReplica | SaidOfClient | SaidOfPartition:
    named = place.named()
    if "client" in named:
        return _of_client(place, cast)
    return _of_replica(place, cast) if "broker" in named else _of_partition(place, cast)


def _of_client(place: Place, cast: Cast) -> SaidOfClient:
    said = place.mapping(("client",), ("told", "read", "partition"))
    _something(place, ("told", "read"))
    if ("read" in said) != ("partition" in said):
        raise place.error("read and partition go together. Add the one that is missing.")
    told: tuple[str, ...] | None = None
    if "told" in said:
        is_none = not said["told"].is_list
        told = () if is_none and said["told"].one_of({"nothing": True}) else _words(said["told"])
    return SaidOfClient(
        place=place,
        client=cast.client(said["client"]),
        told=told,
        read=(cast.partition(said["partition"]), *said["read"].closed_span()) if "read" in said else None,
    )


def _of_replica(place: Place, cast: Cast) -> SaidOfReplica:
    said = place.mapping(("broker", "partition"), ("log_end", "epochs", "values", "producer", "epoch", "sequences"))
    _something(place, ("log_end", "epochs", "values", "sequences"))
    epochs = None
    if "epochs" in said:
        epochs = {_epoch(key, each): each.whole() for key, each in said["epochs"].named().items()}
    sequences = None
    if "sequences" in said:
        if "producer" not in said or "epoch" not in said:
            raise place.error("sequences are a producer's, in an epoch. Add producer and epoch.")
        span = said["sequences"].closed_span()
        sequences = (said["producer"].whole(), said["epoch"].whole(0, 32_767), *span)
    return SaidOfReplica(
        place=place,
        broker_id=cast.broker(said["broker"]),
        partition=cast.partition(said["partition"]),
        log_end_offset=said["log_end"].whole() if "log_end" in said else None,
        epochs=epochs,
        values=_words(said["values"]) if "values" in said else None,
        sequences=sequences,
    )


def _of_partition(place: Place, cast: Cast) -> SaidOfPartition:
    keys = ("leader", "epoch", "high_watermark", "last_stable_offset")
    said = place.mapping(("partition",), keys)
    _something(place, keys)
    leader = None
    if "leader" in said:
        leader = -1 if said["leader"].text() == "none" else cast.broker(said["leader"])
    return SaidOfPartition(
        place=place,
        partition=cast.partition(said["partition"]),
        leader=leader,
        leader_epoch=said["epoch"].whole() if "epoch" in said else None,
        high_watermark=said["high_watermark"].whole() if "high_watermark" in said else None,
        last_stable_offset=said["last_stable_offset"].whole() if "last_stable_offset" in said else None,
    )


def _something(place: Place, keys: tuple[str, ...]) -> None:
    if not any(key in place.named() for key in keys):
        raise place.error(f"says nothing of it. Add one of {', '.join(keys)}.")


def _epoch(key: str, place: Place) -> int:
    if not key.isdecimal() or len(key) > 9:
        raise place.error(
            f"wants epochs and the offsets at which they begin, such as {{0: 0, 1: 100}}; {key!r} is none."
        )
    return int(key)


def _words(place: Place) -> tuple[str, ...]:
    return tuple(each.text() for each in place.items(10_000))
