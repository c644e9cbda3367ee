"""One step under way, or a run of steps: what it has changed so far, and what it sets off.

In: a world. Out: a later one, and new events. The rule that must hold: nothing outside a step or a run sees a `Turn`;
the world it began with stays as it was, and what it hands out are frozen values.

Handlers are functions of a turn; this is the one place in the simulator where something is changed in place.
"""

from dataclasses import replace

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.actions import Delivered
from tidegauge.sim_engine.dice import below, draw
from tidegauge.sim_engine.files.leftovers import taken_away, together
from tidegauge.sim_engine.files.render import Replica
from tidegauge.sim_engine.log.replica_log import ReplicaLog
from tidegauge.sim_engine.log.tiering import RemoteStore
from tidegauge.sim_engine.network import CONTROLLER, Network, arrivals_of, broker_node
from tidegauge.sim_engine.settings import Generation, Settings
from tidegauge.sim_engine.truth import Fault, Told, Truth
from tidegauge.sim_engine.world import Broker, ControllerNode, Disk, Event, Following, Leadership, Running, World


class Turn:
    """The work bench of a step, or of all steps of a run: a world is made of what is there in the end, not each time.

    Read and assign `controller`, `network`, `remote`, `truth`; the others have methods.
    """

    __slots__ = (
        "_arrivals",
        "_brokers",
        "_clients",
        "_own_brokers",
        "_world",
        "controller",
        "events",
        "generation",
        "network",
        "now_ms",
        "remote",
        "seed",
        "sequence",
        "settings",
        "truth",
    )

    def __init__(self, world: World) -> None:
        self._world = world
        self._brokers = dict(world.brokers)
        self._clients = world.clients
        self._own_brokers = False
        self._arrivals: dict[tuple[str, str], int] | None = None
        self.controller: ControllerNode = world.controller
        self.network: Network = world.network
        self.remote: RemoteStore = world.remote
        self.truth: Truth = world.truth
        self.settings: Settings = world.settings
        self.generation: Generation = world.settings.generation
        self.now_ms = world.now_ms
        self.seed = world.seed
        self.sequence = world.sequence
        self.events: list[Event] = []

    # What a step sets off.

    def at(self, at_ms: int, action: object) -> None:
        """Something will happen then."""
        self.sequence += 1
        self.events.append((max(at_ms, self.now_ms), self.sequence, action))

    def taken(self) -> list[Event]:
        """What was set off since this was asked last."""
        events, self.events = self.events, []
        return events

    def after(self, delay_ms: int, action: object) -> None:
        """Something will happen in a while."""
        self.at(self.now_ms + delay_ms, action)

    def send(self, source: str, target: str, message: object) -> None:
        """A message goes out; the network says whether and when it arrives."""
        self.sequence += 1
        arrivals = self.network.arrivals if self._arrivals is None else self._arrivals
        found = arrivals_of(
            self.network,
            source,
            target,
            now_ms=self.now_ms,
            not_before_ms=arrivals.get((source, target), 0),
            seed=self.seed,
            sequence=self.sequence,
        )
        for at_ms in found:
            self.at(at_ms, Delivered(source, target, message))
        if found:
            if self._arrivals is None:
                self._arrivals = dict(self.network.arrivals)
            self._arrivals[source, target] = found[0]

    def from_broker(self, broker_id: int, target: str, message: object) -> None:
        """A broker sends a message."""
        self.send(broker_node(broker_id), target, message)

    def to_controller(self, broker_id: int, message: object) -> None:
        """A broker asks the controller."""
        self.send(broker_node(broker_id), CONTROLLER, message)

    # Chance.

    def draw(self, purpose: str) -> int:
        """A number that belongs to this moment and purpose."""
        return draw(self.seed, self.sequence, purpose)

    def below(self, limit: int, purpose: str) -> int:
        """A number from 0 to `limit` - 1."""
        return below(limit, self.seed, self.sequence, purpose)

    # Brokers.

    @property
    def broker_ids(self) -> list[int]:
        """All brokers, dead ones too."""
        return sorted(self._brokers)

    def broker(self, broker_id: int) -> Broker:
        """A broker as it is now."""
        return self._brokers[broker_id]

    def running(self, broker_id: int) -> Running | None:
        """A broker's memory; None while it is dead."""
        broker = self._brokers.get(broker_id)
        return broker.running if broker is not None else None

    def put_broker(self, broker_id: int, broker: Broker) -> None:
        """The broker is this from now on."""
        self._own_brokers = True
        self._brokers[broker_id] = broker

    def put_running(self, broker_id: int, running: Running | None) -> None:
        """The broker's memory is this from now on."""
        broker = self._brokers[broker_id]
        self.put_broker(broker_id, Broker(disk=broker.disk, running=running, incarnation=broker.incarnation))

    def put_disk(self, broker_id: int, disk: Disk) -> None:
        """The broker's disk is this from now on."""
        broker = self._brokers[broker_id]
        self.put_broker(broker_id, Broker(disk=disk, running=broker.running, incarnation=broker.incarnation))

    def replica(self, broker_id: int, partition: TopicPartition) -> Replica | None:
        """A broker's replica of a partition."""
        return self._brokers[broker_id].disk.replicas.get(partition)

    def log(self, broker_id: int, partition: TopicPartition) -> ReplicaLog:
        """A broker's log of a partition that it has."""
        return self._brokers[broker_id].disk.replicas[partition].log

    def put_log(self, broker_id: int, partition: TopicPartition, log: ReplicaLog) -> None:
        """The broker's log of a partition is this from now on; files of segments that are gone stay for a while."""
        disk = self._brokers[broker_id].disk
        before = disk.replicas[partition]
        if log is before.log:
            return
        leftovers = before.leftovers
        if (
            len(log.segments) < len(before.log.segments)
            or log.segments[0].base_offset != before.log.segments[0].base_offset
        ):
            leftovers = together(leftovers, taken_away(before.log, log, now_ms=self.now_ms))
        replicas = {**disk.replicas, partition: replace(before, log=log, leftovers=leftovers)}
        self.put_disk(broker_id, replace(disk, replicas=replicas))

    def leadership(self, broker_id: int, partition: TopicPartition) -> Leadership | None:
        """The partition as its leader knows it; None where this broker does not think that it leads."""
        running = self.running(broker_id)
        return running.leading.get(partition) if running is not None else None

    def put_leadership(self, broker_id: int, partition: TopicPartition, leadership: Leadership | None) -> None:
        """The partition is led like this, or no longer, from now on."""
        running = self._brokers[broker_id].running
        assert running is not None, "a dead broker leads nothing"
        leading = {k: v for k, v in running.leading.items() if k != partition or leadership is not None}
        if leadership is not None:
            leading[partition] = leadership
        self.put_running(broker_id, replace(running, leading=leading))

    def put_following(self, broker_id: int, partition: TopicPartition, following: Following | None) -> None:
        """The partition is followed like this, or no longer, from now on."""
        running = self._brokers[broker_id].running
        assert running is not None, "a dead broker follows nobody"
        all_following = {k: v for k, v in running.following.items() if k != partition or following is not None}
        if following is not None:
            all_following[partition] = following
        self.put_running(broker_id, replace(running, following=all_following))

    # Clients and notes.

    def client(self, name: str) -> object | None:
        """A client's state."""
        return self._clients.get(name)

    def put_client(self, name: str, client: object | None) -> None:
        """The client is this from now on; None: it is gone."""
        if client is None:
            self._clients = {k: v for k, v in self._clients.items() if k != name}
        else:
            self._clients = {**self._clients, name: client}

    def note_fault(self, kind: str, where: str, *, detail: str = "", on_disk: bool = False) -> None:
        """The ledger gets a fault."""
        fault = Fault(at_ms=self.now_ms, kind=kind, where=where, detail=detail, on_disk=on_disk)
        self.truth = replace(self.truth, faults=self.truth.faults.appended(fault))

    def tell(
        self, client: str, what: str, *, partition: TopicPartition | None = None, offset: int = -1, detail: str = ""
    ) -> None:
        """The ledger gets what a client or operator was told."""
        told = Told(at_ms=self.now_ms, client=client, partition=partition, what=what, offset=offset, detail=detail)
        self.truth = replace(self.truth, told=self.truth.told.appended(told))

    def done(self) -> World:
        """The next world, without the new events in its queue."""
        network = self.network
        if self._arrivals is not None:
            network = replace(network, arrivals=self._arrivals)
        return World(
            seed=self.seed,
            now_ms=self.now_ms,
            sequence=self.sequence,
            settings=self.settings,
            controller=self.controller,
            brokers=self._brokers if self._own_brokers else self._world.brokers,
            clients=self._clients,
            network=network,
            remote=self.remote,
            truth=self.truth,
            queue=self._world.queue,
        )
