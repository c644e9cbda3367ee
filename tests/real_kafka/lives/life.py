"""What a life is: a cluster of one version and topology, and what is done to it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.real_kafka.archives import Archives
from tests.real_kafka.topology import NodePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """`live` keeps captures on its way."""

    version: str
    topology: Sequence[NodePlan]
    live: Callable[[Archives], None]
    settings: Mapping[str, str] = field(default_factory=dict)
    static_quorum: bool | None = None
