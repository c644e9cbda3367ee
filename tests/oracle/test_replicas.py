"""Every replica directory of every golden capture, loaded by Kafka's own classes: Tidegauge's facts are what they say.

Kafka loads a copy, told what the broker's checkpoints told it. Its clock stands before any record, so that no producer
is too old; that expiry is a matter of the broker's configuration, not of the files.
"""

import pytest

from tests.conftest import GOLDEN, Golden
from tests.derivation.pipeline import derived_once
from tests.oracle.kafka import Oracle
from tests.oracle.replicas import aborted_by_replay, aborted_on_disk, batches, differences, replicas_of

pytestmark = pytest.mark.slow

CAPTURES = sorted(path.name.removesuffix(".tar.gz") for path in GOLDEN.glob("*.tar.gz"))


@pytest.mark.parametrize("capture", CAPTURES)
def test_facts_of_replicas_are_what_kafka_loads(capture: str, golden: Golden, oracle: Oracle) -> None:
    compared = 0
    for replica in replicas_of(derived_once(golden(capture)), capture):
        kafka = oracle.ask(replica.job())
        assert "error" not in kafka, f"{replica.where}: Kafka does not load it: {kafka['error']}"
        directory = replica.root / replica.facts.given.place.directory
        assert set(kafka["batches"]) == {path.name for path in directory.glob("*.log")}, replica.where
        for name, found in kafka["batches"].items():
            assert batches(directory / name) == found["rows"], f"{replica.where}/{name}"
            compared += len(found["rows"])
        assert differences(replica, kafka) == {}, replica.where
        assert aborted_on_disk(replica.facts) == kafka["aborted"], replica.where
        # Asked for all offsets, the log gives every one that its segments hold.
        assert kafka["collected"] == len(kafka["aborted"]), replica.where
    assert compared > 200


@pytest.mark.parametrize("capture", CAPTURES)
def test_aborted_transactions_are_what_kafka_finds_in_the_log(capture: str, golden: Golden, oracle: Oracle) -> None:
    """Kafka told to recover everything writes each transaction index anew from the log alone."""
    for replica in replicas_of(derived_once(golden(capture)), capture):
        kafka = oracle.ask(replica.job(keep_snapshots=False, clean=False, recovery_point=0, with_batches=False))
        assert aborted_by_replay(replica.facts, replica.facts.replay) == kafka["aborted"], replica.where
