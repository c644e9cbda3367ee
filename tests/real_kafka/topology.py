"""Which nodes a test cluster has: their roles, racks and directories. Data, and nothing else.

Three nodes that are brokers and controllers are `combined(3)`; three controllers of their own and three brokers are
`(*controllers(3), *brokers(3))`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

FIRST_CONTROLLER: Final = 101
"""Controllers that are no brokers are numbered from here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """One node. Directories are named below the node's own; "." is that itself.

    `votes`: whether it is a voter from the beginning; one that does not may be added later (KIP-853).
    """

    id: int
    is_broker: bool = True
    is_controller: bool = False
    votes: bool = True
    rack: str | None = None
    log_dirs: tuple[str, ...] = (".",)
    metadata_log_dir: str | None = None

    @property
    def roles(self) -> tuple[str, ...]:
        """As `process.roles` tells them."""
        return (("broker",) if self.is_broker else ()) + (("controller",) if self.is_controller else ())

    @property
    def directories(self) -> tuple[str, ...]:
        """Everything that is formatted."""
        apart = () if self.metadata_log_dir is None else (self.metadata_log_dir,)
        return (*self.log_dirs, *apart)


def combined(count: int, *, log_dirs: Sequence[str] = (".",)) -> tuple[NodePlan, ...]:
    """Nodes 1, 2, … that are brokers and controllers."""
    return tuple(NodePlan(id=1 + n, is_controller=True, log_dirs=tuple(log_dirs)) for n in range(count))


def brokers(
    count: int, *, log_dirs: Sequence[str] = (".",), metadata_log_dir: str | None = None
) -> tuple[NodePlan, ...]:
    """Nodes 1, 2, … that are brokers only."""
    return tuple(NodePlan(id=1 + n, log_dirs=tuple(log_dirs), metadata_log_dir=metadata_log_dir) for n in range(count))


def controllers(
    count: int, *, log_dirs: Sequence[str] = (".",), metadata_log_dir: str | None = None, late: int = 0
) -> tuple[NodePlan, ...]:
    """Nodes 101, 102, … that are controllers only; the last `late` of them do not vote in the beginning."""
    return tuple(
        NodePlan(
            id=FIRST_CONTROLLER + n,
            is_broker=False,
            is_controller=True,
            votes=n < count - late,
            log_dirs=tuple(log_dirs),
            metadata_log_dir=metadata_log_dir,
        )
        for n in range(count)
    )


def over_racks(nodes: Sequence[NodePlan], racks: Sequence[str]) -> tuple[NodePlan, ...]:
    """The same nodes, their brokers dealt out over these racks in turn."""
    return tuple(replace(node, rack=racks[n % len(racks)]) if node.is_broker else node for n, node in enumerate(nodes))
