"""What an audit of a random world should say: what must be reported, what may be, and what leaves no trace.

In: nothing. Out: values. In a `Finding` here None matches anything, so that what cannot be foretold (how far two
replicas' logs differ, say) is not foretold; what can be is held to the offset.

    Injected    one fault: its kind, where and when, the findings that must be reported on its account, or why none is
    allowed     breaches that follow from the faults, and that an audit may report or leave to their root; under
                the code `ANY_CODE` whatever it says of a partition whose records were lost or damaged
    losses      what the cluster lost for good: each must be reported, [start, end) exactly
"""

from dataclasses import dataclass
from typing import Final

from tidegauge.sim_engine.random_worlds.fault_kinds import WorldFault
from tidegauge.sim_engine.scenarios.scenario import Finding, LostRange

ANY_CODE: Final = "*"
"""Of an allowed finding: every invariant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """A fault as one moment shows it. Without `findings`, `unseen` says why its files do not tell of it."""

    kind: WorldFault
    at_ms: int
    where: str
    detail: str = ""
    findings: tuple[Finding, ...] = ()
    unseen: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldLoss:
    """A lost range, and the invariants of which at least one must tell of it with exactly these offsets."""

    lost: LostRange
    codes: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Of one moment. A breach above info that is neither a finding nor allowed is a false alarm."""

    injected: tuple[Injected, ...] = ()
    allowed: tuple[Finding, ...] = ()
    losses: tuple[ToldLoss, ...] = ()
    unseen_losses: tuple[tuple[LostRange, str], ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All that must be reported."""
        return tuple(finding for each in self.injected for finding in each.findings)


def matches(
    finding: Finding,
    *,
    code: str,
    partition: str | None,
    broker_id: int | None,
    start_offset: int | None,
    end_offset: int | None,
) -> bool:
    """Whether a breach, told by these, is the expected one. What the finding or the breach does not name, fits."""
    return finding.code in (code, ANY_CODE) and all(
        wanted is None or told is None or wanted == told
        for wanted, told in (
            (str(finding.partition) if finding.partition is not None else None, partition),
            (finding.broker_id, broker_id),
            (finding.start_offset, start_offset),
            (finding.end_offset, end_offset),
        )
    )
