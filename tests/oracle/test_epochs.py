"""Leader epochs and the truncation exchange: `facts.epochs` against Kafka's own classes, on random vectors.

Kafka's side: `LeaderEpochFileCache` for what a cache holds and answers; for the exchange a real `Partition` that leads,
a real `AbstractFetcherThread` that follows, and two real logs, until the follower stays where it is.
"""

import random
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.oracle.kafka import Oracle
from tidegauge.facts.replicas.epochs import EpochVector, epoch_vector, truncation
from tidegauge.kafka_log.checkpoints import EpochEntry

pytestmark = pytest.mark.slow

SEED: Final = 1792
CACHES: Final = 8000
EXCHANGES: Final = 6000
AT_ONCE: Final = 500

Pairs = list[tuple[int, int]]


def entries(pairs: Pairs) -> tuple[EpochEntry, ...]:
    return tuple(EpochEntry(leader_epoch=e, start_offset=o) for e, o in pairs)


def rising(draw: random.Random, start: int, *, most: int = 7) -> Pairs:
    """Epochs and offsets that both rise, as a sound cache has them."""
    pairs: Pairs = []
    epoch, offset = draw.randint(-1, 3), start - draw.randint(0, 1)
    for _ in range(draw.randint(0, most)):
        epoch += draw.randint(1, 3)
        offset += draw.randint(1, 9)
        pairs.append((epoch, offset))
    return pairs


def disordered(draw: random.Random) -> Pairs:
    """A checkpoint file as damage or a lost write may leave it."""
    return [(draw.randint(0, 9), draw.randint(0, 60)) for _ in range(draw.randint(0, 6))]


def chunks(items: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    return (items[at : at + AT_ONCE] for at in range(0, len(items), AT_ONCE))


def test_an_epoch_cache_holds_and_answers_what_kafkas_does(oracle: Oracle) -> None:
    draw = random.Random(SEED)
    asked = []
    for at in range(CACHES):
        checkpoint = rising(draw, draw.randint(0, 20)) if at % 2 else disordered(draw)
        log_start = draw.choice((0, 0, draw.randint(0, 40)))
        newest = max((offset for _, offset in checkpoint), default=log_start)
        asked.append(
            {
                "checkpoint": checkpoint,
                "recovered": rising(draw, newest + 1) if at % 3 == 0 else [],
                "log_start": log_start,
                "log_end": log_start + draw.randint(1, 60),
                "epochs": list(range(-1, 24)),
                "offsets": list(range(0, 100, 7)),
            }
        )
    answers = [a for chunk in chunks(asked) for a in oracle.ask({"job": "epochs", "vectors": chunk})["answers"]]
    for given, kafka in zip(asked, answers, strict=True):
        ours = epoch_vector(
            checkpoint=entries(given["checkpoint"]),
            batch_epochs=entries(given["recovered"]),
            log_start_offset=given["log_start"],
            log_end_offset=given["log_end"],
        )
        where = f"seed {SEED}: {given}"
        # Loading drops an epoch that begins at the very end (LeaderEpochFileCache#truncateFromEnd); a leader that runs
        # has it there from its election to its first record, so a vector keeps it.
        kept = [e for e in ours.entries if e.start_offset < given["log_end"]]
        assert [[e.leader_epoch, e.start_offset] for e in kept] == kafka["entries"], where
        loaded = EpochVector(
            entries=tuple(kept), log_start_offset=ours.log_start_offset, log_end_offset=ours.log_end_offset
        )
        answered = [loaded.end_offset_for(epoch) for epoch in given["epochs"]]
        assert [[_or_none(a.leader_epoch), _or_none(a.end_offset)] for a in answered] == kafka["ends"], where
        assert [_or_none(loaded.epoch_at(offset)) for offset in given["offsets"]] == kafka["at"], where


def _or_none(value: int | None) -> int:
    return -1 if value is None else int(value)


def parted(draw: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two replicas that shared a history and then led, or followed, apart from each other."""
    shared = rising(draw, 0, most=4) or [(0, 0)]
    shared[0] = (shared[0][0], 0)
    parts_at = shared[-1][1] + draw.randint(0, 9)
    sides: list[Pairs] = [list(shared), list(shared)]
    ends = [parts_at + draw.randint(0, 6), parts_at + draw.randint(0, 6)]
    epoch = shared[-1][0]
    for _ in range(draw.randint(0, 6)):
        epoch += draw.randint(1, 2)
        for side in draw.choice(((0,), (1,), (0, 1))):
            if ends[side] > sides[side][-1][1]:
                sides[side].append((epoch, ends[side]))
            ends[side] += draw.randint(0, 7)
    return _replica(draw, sides[0], ends[0], leads=True), _replica(draw, sides[1], ends[1], leads=False)


def unrelated(draw: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two replicas that have nothing to do with each other: whatever files may say."""
    found = []
    for leads in (True, False):
        start = draw.choice((0, draw.randint(0, 30)))
        pairs = rising(draw, start)
        end = (pairs[-1][1] if pairs else start) + draw.randint(0, 20)
        found.append(_replica(draw, pairs, end, leads=leads))
    return found[0], found[1]


def _replica(draw: random.Random, pairs: Pairs, end: int, *, leads: bool) -> dict[str, Any]:
    start = draw.choice((0, 0, 0, draw.randint(0, end)))
    vector = epoch_vector(checkpoint=entries(pairs), batch_epochs=(), log_start_offset=start, log_end_offset=end)
    kept = [e for e in vector.entries if leads or e.start_offset < end]
    return {"entries": [(int(e.leader_epoch), int(e.start_offset)) for e in kept], "log_start": start, "log_end": end}


def vector(replica: dict[str, Any]) -> EpochVector:
    return EpochVector(
        entries=entries(replica["entries"]),
        log_start_offset=replica["log_start"],
        log_end_offset=replica["log_end"],
    )


def test_the_exchange_cuts_a_follower_where_kafkas_fetcher_does(oracle: Oracle) -> None:
    draw = random.Random(SEED)
    pairs = []
    for at in range(EXCHANGES):
        leader, follower = (parted if at % 3 else unrelated)(draw)
        high_watermark = draw.randint(follower["log_start"], follower["log_end"])
        pairs.append({"leader": leader, "follower": follower, "high_watermark": high_watermark})
    answers = [a for chunk in chunks(pairs) for a in oracle.ask({"job": "exchange", "pairs": chunk})["answers"]]
    met = {"cut": 0, "several rounds": 0, "out of range": 0, "restarted": 0}
    for given, kafka in zip(pairs, answers, strict=True):
        leader, follower = vector(given["leader"]), vector(given["follower"])
        where = f"seed {SEED}: {given}, Kafka: {kafka}"
        assert kafka["settled"], where
        assert not kafka["failed"], where
        ours = truncation(leader=leader, follower=follower, follower_high_watermark=given["high_watermark"])
        met["cut"] += ours.offset < follower.log_end_offset
        met["several rounds"] += kafka["diverging"] > 1
        met["out of range"] += kafka["out_of_range"] > 0
        if ours.offset < leader.log_start_offset:
            # The leader has no record so old any more: the follower forgets its log and starts where the leader does.
            # That is retention, not a difference of their histories, and where those part is what is asked for here.
            met["restarted"] += 1
            assert (kafka["log_start"], kafka["log_end"]) == (leader.log_start_offset,) * 2, where
        elif follower.log_start_offset == follower.log_end_offset:
            assert ours.offset == follower.log_end_offset, where  # There is nothing to be cut.
        else:
            assert ours.offset == kafka["log_end"], where
    assert all(count > 50 for count in met.values()), met
