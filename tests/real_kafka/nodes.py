"""One node of a test cluster: its ports and directories, and what its properties file says.

In: its plan. Out: text for Kafka. Brokers reach each other by their proxies only, and so they do controllers that are
no brokers; one that is both is reached directly.
"""

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.real_kafka.proxy import Proxy
from tests.real_kafka.topology import NodePlan


class Keeper(Enum):
    """Who keeps a node's metadata: a migration goes from the first by the second to the last (KIP-866)."""

    ZOOKEEPER = "zookeeper"
    BOTH = "both"
    QUORUM = "quorum"


@dataclass(slots=True, kw_only=True)
class Node:
    """A node as it runs."""

    plan: NodePlan
    root: Path
    external_port: int
    internal_port: int
    controller_port: int
    directory_id: str
    keeper: Keeper
    proxy: Proxy
    """In front of its INTERNAL listener; of a controller that is no broker, of its CONTROLLER listener."""
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def id(self) -> int:
        """Its node.id."""
        return self.plan.id

    @property
    def controller_address(self) -> str:
        """Where its controller is reached."""
        return f"127.0.0.1:{self.controller_port if self.plan.is_broker else self.proxy.port}"


def first_voters(node: Node, nodes: Sequence[Node]) -> list[str]:
    """What a node of a dynamic quorum is told of it when it is formatted; a broker hears of it later."""
    if not node.plan.is_controller:
        return []
    if not node.plan.votes:
        return ["--no-initial-controllers"]
    voters = (f"{n.id}@{n.controller_address}:{n.directory_id}" for n in nodes if n.plan.is_controller and n.plan.votes)
    return ["--initial-controllers", ",".join(voters)]


def properties(
    node: Node, nodes: Sequence[Node], *, static: bool, settings: Mapping[str, str], zookeeper: str | None = None
) -> str:
    """A node's properties file. `static`: the quorum is named in it (`controller.quorum.voters`), and never changes.

    `zookeeper`: the address of one, where it keeps a node's metadata.
    """
    plan = node.plan
    known = [(n.id, n.controller_address) for n in nodes if n.plan.is_controller]
    if static:
        quorum = {"controller.quorum.voters": ",".join(f"{i}@{address}" for i, address in known)}
    else:
        quorum = {"controller.quorum.bootstrap.servers": ",".join(address for _, address in known)}
    listeners = {"EXTERNAL": node.external_port, "INTERNAL": node.internal_port} if plan.is_broker else {}
    if plan.is_controller:
        listeners["CONTROLLER"] = node.controller_port
    if node.keeper is Keeper.QUORUM or plan.is_controller:
        role = {"process.roles": ",".join(plan.roles), "node.id": str(node.id)}
    else:
        role = {"broker.id": str(node.id)}
    if node.keeper is not Keeper.ZOOKEEPER:
        role |= {**quorum, "controller.listener.names": "CONTROLLER"}
    if node.keeper is not Keeper.QUORUM:
        role |= {"zookeeper.connect": str(zookeeper), "zookeeper.session.timeout.ms": "6000"}
    if node.keeper is Keeper.BOTH:  # A controller tells the brokers of the news, as those of their time expect it.
        role |= {"zookeeper.metadata.migration.enable": "true", "inter.broker.listener.name": "INTERNAL"}
    own = {
        **role,
        "listeners": _addresses(listeners),
        "advertised.listeners": _addresses(
            {**listeners, "INTERNAL" if plan.is_broker else "CONTROLLER": node.proxy.port}
        ),
        "listener.security.protocol.map": "EXTERNAL:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": ",".join(str(node.root / name) for name in plan.log_dirs),
    }
    if plan.is_broker:
        own["inter.broker.listener.name"] = "INTERNAL"
    if plan.rack is not None:
        own["broker.rack"] = plan.rack
    if plan.metadata_log_dir is not None:
        own["metadata.log.dir"] = str(node.root / plan.metadata_log_dir)
    return "".join(f"{name}={value}\n" for name, value in {**own, **settings}.items())


def kafka_uuid() -> str:
    """A directory's or cluster's id that no tool takes for an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{listener}://127.0.0.1:{port}" for listener, port in ports.items())
