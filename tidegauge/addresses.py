"""Names in, addresses out, and back: the console's URL scheme.

    /                                                       the fleet
    /clusters/CLUSTER                                       a cluster
    /clusters/CLUSTER/topics/TOPIC                          a topic
    /clusters/CLUSTER/topics/TOPIC/partitions/N             a partition and its lineage; ?run=RUN for an earlier run
    /clusters/CLUSTER/breaches/BREACH_ID                    a breach
    /breaches, /acknowledgements, /invariants, /invariants/CODE, /runs, /runs/RUN, /search, /data-docs
    PAGE/figures/NAME.csv, PAGE/figures/NAME.json           what a page shows, as data

The rule that must hold: any name makes exactly one address, and the address gives back the name. A name is one path
segment in which every byte but letters, digits, `.`, `_` and `-` stands as `~` and two hexadecimal digits: servers,
proxies and browsers each undo percent signs as they please, and none touches this. A name of dots only, which a
browser would take for a way up, has its first dot written so; the empty name is `~`.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_ESCAPE: Final = re.compile(rb"~([0-9a-f]{2})")


def segment(name: str) -> str:
    """A name as one segment of a path."""
    if not name:
        return "~"
    written = "".join(chr(b) if b in _PLAIN else f"~{b:02x}" for b in name.encode())
    return f"~2e{written[1:]}" if not written.strip(".") else written


def name_of(written: str) -> str:
    """The name that a segment stands for. Raises `ValueError` if it stands for none."""
    if written == "~":
        return ""
    name = _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), written.encode()).decode()
    if segment(name) != written:
        raise ValueError(f"{written!r} is no name")
    return name


class Links:
    """Addresses below the path that the console is mounted at."""

    def __init__(self, root: str = "") -> None:
        self._root = root.rstrip("/")

    def to(self, path: str, **query: object) -> str:
        """A path of the console, with the values that are not None as its query."""
        given = {name: value for name, value in query.items() if value not in (None, "")}
        return f"{self._root}{path}" + (f"?{urlencode(given)}" if given else "")

    def cluster(self, cluster: str, **query: object) -> str:
        """A cluster's page."""
        return self.to(f"/clusters/{segment(cluster)}", **query)

    def topic(self, cluster: str, topic: str, **query: object) -> str:
        """A topic's page."""
        return self.to(f"/clusters/{segment(cluster)}/topics/{segment(topic)}", **query)

    def partition(self, cluster: str, topic: str, partition: int, **query: object) -> str:
        """A partition's page."""
        return self.to(f"/clusters/{segment(cluster)}/topics/{segment(topic)}/partitions/{partition}", **query)

    def breach(self, cluster: str, breach_id: str, **query: object) -> str:
        """A breach's page."""
        return self.to(f"/clusters/{segment(cluster)}/breaches/{segment(breach_id)}", **query)

    def breaches(self, **query: object) -> str:
        """Breaches, worst first, by the filters given."""
        return self.to("/breaches", **query)

    def incident(self, cluster: str, incident_id: str, **query: object) -> str:
        """An incident's page."""
        return self.to(f"/clusters/{segment(cluster)}/incidents/{segment(incident_id)}", **query)

    def incidents(self, **query: object) -> str:
        """Incidents, the worst first, of all clusters or of one."""
        return self.to("/incidents", **query)

    def loss(self, cluster: str, loss_id: str, **query: object) -> str:
        """A loss's page."""
        return self.to(f"/clusters/{segment(cluster)}/losses/{segment(loss_id)}", **query)

    def losses(self, cluster: str, **query: object) -> str:
        """A cluster's losses, those that nobody has decided first."""
        return self.to(f"/clusters/{segment(cluster)}/losses", **query)

    def acknowledgements(self, **query: object) -> str:
        """What people said of breaches, the latest first."""
        return self.to("/acknowledgements", **query)

    def invariant(self, code: str, **query: object) -> str:
        """An invariant's page."""
        return self.to(f"/invariants/{segment(code)}", **query)

    def run(self, run_id: str, **query: object) -> str:
        """A run's page."""
        return self.to(f"/runs/{segment(run_id)}", **query)

    def runs(self, **query: object) -> str:
        """Runs, newest first."""
        return self.to("/runs", **query)

    def data_docs(self, cluster: str, date: str, run_id: str, file: str = "index.html") -> str:
        """A page of a run's data docs."""
        return self.to(f"/data-docs/{segment(cluster)}/{date}/{segment(run_id)}/{file}")

    def subject(self, cluster: str, subject: Mapping[str, object]) -> str | None:
        """The most telling page on what a breach is about, where there is one."""
        topic, partition = subject.get("topic"), subject.get("partition")
        if not isinstance(topic, str):
            return None
        return self.partition(cluster, topic, partition) if isinstance(partition, int) else self.topic(cluster, topic)
