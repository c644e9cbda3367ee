"""The network: how long a message takes on a directed link, whether it gets there, and how often.

In: a link's state and the dice. Out: the delays of a message's copies, none if it is lost. A link keeps the order of
its messages, unless it is told to reorder; a cut link loses what is sent while it is cut.

Nodes are named by `broker_node`, `client_node` and `CONTROLLER`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from tidegauge.sim_engine.dice import draw

CONTROLLER: Final = "controller"


@cache
def broker_node(broker_id: int) -> str:
    """A broker's name on the network."""
    return f"broker-{broker_id}"


@cache
def client_node(name: str) -> str:
    """A client's name on the network."""
    return f"client-{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One direction between two nodes. Chances are of 10,000 messages."""

    delay_ms: int = 1
    jitter_ms: int = 2
    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    reordered_by_ms: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """All links. `arrivals`: when the last message of a link arrives, which later ones do not overtake."""

    default: Link = field(default_factory=Link)
    links: Mapping[tuple[str, str], Link] = field(default_factory=dict)
    cuts: frozenset[tuple[str, str]] = frozenset()
    arrivals: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def with_cut(self, source: str, target: str) -> "Network":
        """Nothing goes this way any more."""
        return replace(self, cuts=self.cuts | {(source, target)})

    def with_heal(self, source: str, target: str) -> "Network":
        """The way is open again."""
        return replace(self, cuts=self.cuts - {(source, target)})

    def with_link(self, source: str, target: str, link: Link) -> "Network":
        """The way has these properties from now on."""
        return replace(self, links={**self.links, (source, target): link})


def arrivals_of(
    network: Network, source: str, target: str, *, now_ms: int, not_before_ms: int, seed: int, sequence: int
) -> list[int]:
    """When the copies of a message sent now arrive; the message before it arrives at `not_before_ms`."""
    way = (source, target)
    if way in network.cuts:
        return []
    link = network.links.get(way, network.default)
    chance = draw(seed, sequence, "link")
    if chance % 10_000 < link.lost:
        return []
    at = now_ms + link.delay_ms + (chance >> 16) % (link.jitter_ms + 1)
    if (chance >> 32) % 10_000 < link.reordered:
        at += (chance >> 24) % (link.reordered_by_ms + 1)
    else:
        at = max(at, not_before_ms)
    if (chance >> 44) % 10_000 < link.doubled:
        return [at, at + 1 + (chance >> 20) % (link.reordered_by_ms + 1)]
    return [at]
