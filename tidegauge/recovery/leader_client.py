"""Requests to the leader of one partition, through kafka-python's connections.

In: bootstrap servers, how to reach them, a partition. Out: answers of whoever leads it by now, or an error that says
why there is none. No client library lets one read a batch as it lies in the log, or send it again under the same
producer id, epoch and sequence, and a replay needs both: see docs/decisions/0082. So this stands below kafka-python's
clients, on its connections, which know TLS and SASL, and on its classes of requests.

The rule that must hold: a request that failed for a reason that passes is asked again, the very same one, until
`patience_s` is over; any other reason ends it at once.
"""

import logging
import time
from collections.abc import Callable
from importlib import import_module
from types import TracebackType
from typing import Any, Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.snapshots.client_config import ClientConfig
from tidegauge.snapshots.errors import ClusterError, SnapshotError

PATIENCE_S: Final = 60.0
"""How long a question is asked again, while leaders move and brokers come back."""
_CONNECT_S: Final = 15.0
_PAUSE_S: Final = 0.2
_LARGEST_ANSWER: Final = 512 << 20
"""Bytes. A batch of a topic with a large max.message.bytes comes whole, whatever was asked for."""
_UNKNOWN_TOPIC: Final = 3
_DENIED: Final = "Ask for the right, or give the properties of a client that has it as --client-config."

Answer = tuple[int, Any]
"""Kafka's error code, and what is wanted of the answer."""


_OF_SEQUENCE: Final = frozenset(
    {"OutOfOrderSequenceNumberError", "UnknownProducerIdError", "InvalidProducerEpochError", "ProducerFencedError"}
)
_OF_BATCH: Final = frozenset(
    {"MessageSizeTooLargeError", "RecordListTooLargeError", "InvalidTimestampError", "InvalidRecordError",
     "CorruptRecordError"}
)  # fmt: skip


class RefusedRequestError(ClusterError):
    """A broker says no for a reason that does not pass; `name` is kafka-python's name of it."""

    def __init__(self, text: str, name: str = "") -> None:
        super().__init__(text, name)
        self.name = name

    def __str__(self) -> str:
        return str(self.args[0])

    @property
    def of_sequence(self) -> bool:
        """The leader remembers another past of this producer: what it acknowledged before is gone, or long expired."""
        return self.name in _OF_SEQUENCE

    @property
    def of_batch(self) -> bool:
        """It would refuse this very batch whenever it came."""
        return self.of_sequence or self.name in _OF_BATCH


class LeaderClient:
    """Asks the leader of one partition; a context manager."""

    def __init__(
        self, bootstrap: str, config: ClientConfig, place: TopicPartition, *, patience_s: float = PATIENCE_S
    ) -> None:
        if config.only_librdkafka:
            raise SnapshotError(
                f"The client's properties name {', '.join(config.only_librdkafka)}, which the client that produces has "
                "nothing like. Give a file with security.protocol, sasl.mechanism, sasl.username, sasl.password and "
                "PEM files instead."
            )
        self.place, self.bootstrap, self.patience_s = place, bootstrap, patience_s
        self._leader: int | None = None
        self._last_words = _LastWords()
        self._errors = import_module("kafka.errors")
        settings = {
            **config.kafka_python,
            "bootstrap_servers": bootstrap.split(","),
            "client_id": "tidegauge",
            "receive_message_max_bytes": _LARGEST_ANSWER,
        }
        self._net = import_module("kafka.net.selector").NetworkSelector(**settings)
        try:
            self._manager = import_module("kafka.net.manager").KafkaConnectionManager(self._net, **settings)
        except (self._errors.KafkaError, OSError, ValueError) as error:
            raise SnapshotError(
                f"{bootstrap} cannot be reached with these settings: {error}. Correct --bootstrap or --client-config."
            ) from None

    def __enter__(self) -> "LeaderClient":
        self._last_words.listen()
        self._net.start()
        try:
            self._manager.bootstrap(_CONNECT_S * 1000)
        except (self._errors.KafkaError, OSError, ValueError) as error:
            why = self._last_words.said or f"{type(error).__name__}: {error}"
            self._close()
            raise ClusterError(
                f"No broker of {self.bootstrap} answers within {_CONNECT_S:g} s: {why}. Check the address, that its "
                "listener is reachable from here, and --client-config if it wants TLS or a password."
            ) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        self._manager.close()
        self._net.stop()
        self._last_words.end()

    def metadata(self) -> Any:
        """What any broker says of cluster and topic. Raises `SnapshotError` where there is no such partition."""
        request = import_module("kafka.protocol.metadata").MetadataRequest

        def asked() -> Any:
            topics = [request.MetadataRequestTopic(name=self.place.topic)]
            return request(topics=topics, allow_auto_topic_creation=False)

        def read(response: Any) -> Answer:
            code = int(response.topics[0].error_code)
            return (0 if code == _UNKNOWN_TOPIC else code), response

        response = self._until_answered(asked, read, to_leader=False, what="Metadata")
        topic = response.topics[0]
        numbers = sorted(int(p.partition_index) for p in topic.partitions)
        if topic.error_code == _UNKNOWN_TOPIC:
            raise SnapshotError(
                f"The cluster at {self.bootstrap} has no topic {self.place.topic}, or hides it from this client. "
                "Create it with the settings that it had, or name another one with --topic."
            )
        if self.place.partition not in numbers:
            raise SnapshotError(
                f"{self.place.topic} has {len(numbers)} partitions on {self.bootstrap}, and none of number "
                f"{self.place.partition}. Name one of them with --partition."
            )
        return response

    def ask(self, request: Callable[[], Any], read: Callable[[Any], Answer], *, what: str) -> Any:
        """The leader's answer. Raises `ClusterError`, `RefusedRequestError` among them."""
        return self._until_answered(request, read, to_leader=True, what=what)

    def ask_any(self, request: Callable[[], Any], read: Callable[[Any], Answer], *, what: str) -> Any:
        """The same of any broker."""
        return self._until_answered(request, read, to_leader=False, what=what)

    def _until_answered(
        self, request: Callable[[], Any], read: Callable[[Any], Answer], *, to_leader: bool, what: str
    ) -> Any:
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                node = self._led_by() if to_leader else None
                code, value = read(self._send(request(), node))
                if code == 0:
                    return value
                error: Exception = self._errors.for_code(code)()
            except (self._errors.KafkaError, OSError, TimeoutError) as failure:
                error = failure
            if not self._passes(error):
                raise self._refused(error, what)
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{self.bootstrap} does not answer {what} for {self.place} within {self.patience_s:g} s: "
                    f"{_words(error)}. See that the partition has a leader and enough replicas in sync, then run the "
                    "same command again: it goes on where it stopped."
                ) from error
            self._leader = None
            time.sleep(_PAUSE_S)

    def _led_by(self) -> int:
        if self._leader is None:
            partition = next(
                p for p in self.metadata().topics[0].partitions if p.partition_index == self.place.partition
            )
            if partition.leader_id < 0:
                raise self._errors.LeaderNotAvailableError()
            self._leader = int(partition.leader_id)
        return self._leader

    def _send(self, request: Any, node: int | None) -> Any:
        manager = self._manager

        async def sent() -> Any:
            if node is not None and manager.cluster.broker_metadata(node) is None:
                await manager.cluster.refresh_metadata()  # A broker that joined since.
            return await manager.send(request, node_id=node)

        return manager.run(sent)

    def _passes(self, error: Exception) -> bool:
        errors = self._errors
        if isinstance(error, OSError | TimeoutError | errors.UnknownBrokerIdError):
            return True
        return bool(getattr(error, "retriable", False))

    def _refused(self, error: Exception, what: str) -> RefusedRequestError:
        name = type(error).__name__
        advice = f" {_DENIED}" if isinstance(error, self._errors.AuthorizationError) else ""
        return RefusedRequestError(f"{self.bootstrap} refuses {what} for {self.place}: {_words(error)}.{advice}", name)


class _LastWords(logging.Handler):
    """Keeps what the client logs from standard error, and the last reason for which a connection failed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: str | None = None
        self._logger = logging.getLogger("kafka")
        self._before = (self._logger.level, self._logger.propagate)

    def listen(self) -> None:
        """From now on."""
        self._before = (self._logger.level, self._logger.propagate)
        self._logger.setLevel(logging.WARNING)
        self._logger.propagate = False
        self._logger.addHandler(self)

    def end(self) -> None:
        """Everything is as it was before."""
        self._logger.removeHandler(self)
        level, self._logger.propagate = self._before
        self._logger.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        if record.levelno >= logging.WARNING and "failed" in str(record.msg):
            self.said = " ".join(record.getMessage().split())[:300]


def _words(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__
