"""The records of coordinators' topics in real captures, and a broker that does at once what a coordinator wants."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tidegauge.kafka_log.log_dir import parse_partition_dir
from tidegauge.kafka_log.records import Record, records_in
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.coordinators.coordinator_effects import (
    Answer,
    AskForProducerIds,
    Effect,
    SendMarkers,
    Write,
)
from tidegauge.sim_engine.coordinators.transaction_coordinator import (
    PRODUCER_ID_BLOCK,
    Step,
    TransactionCoordinator,
    elected,
    markers_answered,
    written,
)


def logs_of(capture: Path, topic: str) -> Iterator[tuple[Path, list[tuple[int, Record]]]]:
    """Every replica of the topic's partitions: its directory, and base sequence and record of all data batches."""
    for directory in sorted(capture.glob(f"broker-*/{topic}-*")):
        named = parse_partition_dir(directory.name)
        if named is None or named.state != "live" or named.topic != topic:
            continue
        found = []
        for path in sorted(directory.glob("*.log")):
            data = path.read_bytes()
            headers, _ = scan_buffer(data)
            for row, records in records_in(data, headers):
                if headers[row]["control_type"] == -1 and isinstance(records, tuple):
                    found += [(int(headers[row]["base_sequence"]), record) for record in records]
        yield directory, found


@dataclass
class Broker:
    """Writes every record as soon as it is wanted; holds markers back while `hold_markers`; keeps answers by asker."""

    coordinator: TransactionCoordinator
    now_ms: int = 1000
    hold_markers: bool = False
    log: dict[TopicPartition, list[tuple[bytes, bytes | None]]] = field(default_factory=dict)
    markers: list[SendMarkers] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    blocks: int = 0

    def does(self, step: Step) -> Answer | None:
        """Takes a step and all that follows from it; the last answer that came out."""
        before = len(self.answers)
        self.coordinator, effects = step
        todo: list[Effect] = list(effects)
        while todo:
            effect = todo.pop(0)
            match effect:
                case Answer():
                    self.answers.append(effect)
                case Write():
                    self.log.setdefault(effect.partition, []).extend(effect.records)
                    self.coordinator, more = written(self.coordinator, str(effect.what), now_ms=self.now_ms)
                    todo += more
                case SendMarkers():
                    self.markers.append(effect)
                    if not self.hold_markers:
                        todo += self._confirmed(effect)
                case AskForProducerIds():
                    first = self.blocks * PRODUCER_ID_BLOCK
                    self.coordinator = replace(
                        self.coordinator, next_producer_id=first, producer_ids_end=first + PRODUCER_ID_BLOCK
                    )
                    self.blocks += 1
        return self.answers[-1] if len(self.answers) > before else None

    def confirm(self, markers: SendMarkers) -> None:
        """Every leader has written these markers."""
        self.does((self.coordinator, self._confirmed(markers)))

    def ask(self, request: Callable[[TransactionCoordinator], Step]) -> Answer:
        """A request, again and again until it is neither told to wait nor out of producer ids."""
        answer = Answer(to=None)
        for _ in range(5):
            self.now_ms += 1
            told = self.does(request(self.coordinator))
            assert told is not None
            answer = told
            if answer.error not in ("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS"):
                break
        return answer

    def succeeded(self, epoch: int) -> "Broker":
        """Another broker, elected for the same partitions, that has only the log."""
        new = Broker(TransactionCoordinator(settings=self.coordinator.settings), now_ms=self.now_ms, log=self.log)
        new.blocks = self.blocks
        for number in sorted(self.coordinator.partitions):
            partition = TopicPartition("__transaction_state", number)
            new.does(elected(new.coordinator, number, epoch, self.log.get(partition, ()), now_ms=self.now_ms))
        return new

    def _confirmed(self, markers: SendMarkers) -> list[Effect]:
        errors = dict.fromkeys(markers.partitions, "NONE")
        step = markers_answered(self.coordinator, markers.transactional_id, markers.coordinator_epoch, errors)
        self.coordinator, more = step
        return more
