"""A way through the states, told.

In: the steps to a state. Out: one sentence a step, and the state at the end, a line a replica. What is told is read off
the states themselves, before and after.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tidegauge.sim_engine.explore.layout import (
    END,
    ENTRIES,
    EPOCH,
    HIGH_WATERMARK,
    LEADER,
    QUORUM_ISR,
    QUORUM_LEADER,
    REQUESTS,
    Layout,
    initial_fields,
)
from tidegauge.sim_engine.explore.rules import Action
from tidegauge.sim_engine.explore.search import Step

Fields = NDArray[np.int64]


def tell(layout: Layout, steps: Sequence[Step]) -> list[str]:
    """One sentence for each step. Replicas are called broker 1, 2, …"""
    before = initial_fields(layout)
    told = []
    for step in steps:
        told.append(_sentence(layout, before, step))
        before = step.fields
    return told


def portrait(layout: Layout, fields: Fields) -> Iterator[str]:
    """The state in words: the controller's idea, then each broker's role, high watermark and log."""
    leader = int(fields[QUORUM_LEADER])
    yield f"controller: {f'leader is broker {leader}' if leader else 'no leader'}, ISR {_brokers(fields[QUORUM_ISR])}"
    for replica in range(layout.constants.replicas):
        at = _at(layout, replica)
        following = int(fields[at + LEADER])
        role = (
            "knows no leader"
            if not following
            else f"{'leads' if following == replica + 1 else f'follows broker {following}'} "
            f"in epoch {fields[at + EPOCH] - 1}"
        )
        entries = ", ".join(_entry(fields, at, offset) for offset in range(int(fields[at + END])))
        yield f"broker {replica + 1}: {role}, high watermark {fields[at + HIGH_WATERMARK]}, log [{entries}]"


def _sentence(layout: Layout, before: Fields, step: Step) -> str:
    who = f"broker {step.first + 1}"
    at, after = _at(layout, step.first), step.fields
    match step.action:
        case Action.CONTROLLER_SHRINK_ISR:
            what = "gives up the leadership of" if before[QUORUM_LEADER] == step.first + 1 else "takes out of the ISR"
            return f"The controller {what} {who}; the ISR is {_brokers(after[QUORUM_ISR])}."
        case Action.CONTROLLER_ELECT_LEADER:
            return f"The controller elects {who}, ISR {_brokers(after[QUORUM_ISR])}."
        case Action.BECOME_LEADER:
            isr = _brokers(after[REQUESTS + 2 * step.second + 1])
            return f"Broker {step.first + 1} learns that it leads epoch {step.second}, ISR {isr}."
        case Action.LEADER_WRITE:
            offset = int(before[at + END])
            record = int(after[at + ENTRIES + 2 * offset]) - 1
            return f"Broker {step.first + 1} appends record {record} at offset {offset}, epoch {after[at + EPOCH] - 1}."
        case Action.LEADER_SHRINK_ISR | Action.LEADER_EXPAND_ISR:
            way = "out of" if step.action is Action.LEADER_SHRINK_ISR else "into"
            isr = _brokers(after[QUORUM_ISR])
            return f"Leader {who} takes broker {step.second + 1} {way} the ISR, which is {isr} now."
        case Action.LEADER_INCREMENT_HIGH_WATERMARK:
            return f"Leader {who} moves its high watermark to {after[at + HIGH_WATERMARK]}."
        case Action.BECOME_FOLLOWER:
            cut = int(before[at + END] - after[at + END])
            kept = f"cuts {cut} record(s), to offset {after[at + END]}" if cut else "keeps its log"
            leader = after[at + LEADER]
            return f"Broker {step.first + 1} learns that broker {leader} leads epoch {step.second}, and {kept}."
        case Action.FOLLOWER_FETCH:
            return f"Broker {step.first + 1} fetches offset {before[at + END]} from broker {step.second + 1}."
        case Action.FOLLOWER_TRUNCATE:
            return (
                f"Broker {step.first + 1} sees another epoch at broker {step.second + 1}, and cuts "
                f"{before[at + END] - after[at + END]} record(s), to offset {after[at + END]}."
            )


def _entry(fields: Fields, at: int, offset: int) -> str:
    record, epoch = fields[at + ENTRIES + 2 * offset] - 1, fields[at + ENTRIES + 2 * offset + 1] - 1
    return f"{offset}: record {record} of epoch {epoch}"


def _at(layout: Layout, replica: int) -> int:
    return layout.replicas_at + replica * layout.replica_fields


def _brokers(members: int) -> str:
    return "{" + ", ".join(str(i + 1) for i in range(int(members).bit_length()) if members >> i & 1) + "}"
