"""The metadata image: what every record makes of it, and what of it is never told."""

import dataclasses
import json
from typing import Any

import pytest

from tests.conftest import Golden
from tests.facts.metadata_logs import (
    METADATA,
    TOPIC_ID,
    a_log,
    change,
    checkpoints,
    orders,
    record,
    whole_log,
)
from tidegauge.facts.metadata.image import HIDDEN, KINDS, Key, MetadataImage, differences
from tidegauge.kafka_log.metadata_records import METADATA_SCHEMAS

ALICE = ({"entity_type": "user", "entity_name": "alice"}, {"entity_type": "client-id", "entity_name": None})
QUOTA = "client-id=<default>,user=alice/producer_byte_rate"


def image_of(*records: Any) -> MetadataImage:
    image = MetadataImage()
    image.apply(a_log(records))
    return image


def values(image: MetadataImage) -> dict[Key, Any]:
    return {key: entry.value for key, entry in image.entries.items()}


def scram(**fields: Any) -> Any:
    given = {"name": "alice", "mechanism": 2, "iterations": 4096}
    secret = {"salt": b"salt", "stored_key": b"stored", "server_key": b"server"}
    return record("UserScramCredentialRecord", **{**given, **secret, **fields})


@pytest.mark.parametrize("capture", ["healthy", "pair-clean-b2", "kafka-3.9", "kafka-4.1", "tiered"])
def test_every_snapshot_of_real_nodes_is_the_image_of_the_log_below_it(golden: Golden, capture: str) -> None:
    compared = 0
    for directory in sorted(golden(capture).glob(f"broker-*/{METADATA}")):
        log = whole_log(directory)
        for end_offset, records in checkpoints(directory):
            ours, theirs = MetadataImage(), MetadataImage()
            ours.apply(logged for logged in log if logged.offset < end_offset)
            theirs.apply(records)
            assert list(differences(ours, theirs)) == []
            assert len(theirs.entries) > 50
            compared += 1
    assert compared


def test_a_quota_has_one_name_however_its_entity_is_ordered() -> None:
    quota = {"key": "producer_byte_rate", "value": 1024.0}
    one, other = (image_of(record("ClientQuotaRecord", entity=e, **quota)) for e in (ALICE, ALICE[::-1]))
    assert values(one) == values(other) == {("quota", QUOTA): {"value": 1024.0}}
    assert (
        values(image_of(*([record("ClientQuotaRecord", entity=ALICE, **quota, remove=r) for r in (False, True)]))) == {}
    )


def test_credentials_are_compared_and_not_told() -> None:
    (entry,) = image_of(scram()).entries.values()
    assert set(entry.value) == {"iterations", "digest"}
    told = json.dumps(dict(entry.value))
    assert not [word for word in ("salt", "stored", "server") if word in told]
    for name in ("salt", "stored_key", "server_key"):
        (found,) = differences(image_of(scram()), image_of(scram(**{name: b"another"})))
        assert (found.kind, found.name) == ("scram", "alice/SCRAM-SHA-512")
    assert values(image_of(scram(), record("UserScramCredentialRecord", name="bob", mechanism=1))).keys() == {
        ("scram", "alice/SCRAM-SHA-512"),
        ("scram", "bob/SCRAM-SHA-256"),
    }


def test_a_password_is_hidden_and_a_change_of_it_is_seen() -> None:
    def of(value: str) -> MetadataImage:
        name = "listener.name.external.ssl.keystore.password"
        return image_of(record("ConfigRecord", resource_type=4, resource_name="1", name=name, value=value))

    (entry,) = of("geheim").entries.values()
    assert entry.value == {"value": HIDDEN}
    assert [d.name for d in differences(of("geheim"), of("secret"))] == [
        "broker/1/listener.name.external.ssl.keystore.password"
    ]


def test_a_topic_takes_its_partitions_and_settings_with_it() -> None:
    setting = record("ConfigRecord", resource_type=2, resource_name="orders", name="retention.ms", value="1")
    other = record("ConfigRecord", resource_type=2, resource_name="orders-2", name="retention.ms", value="1")
    image = image_of(*orders(), setting, other, record("RemoveTopicRecord", topic_id=TOPIC_ID))
    assert values(image) == {("config", "topic/orders-2/retention.ms"): {"value": "1"}}


def test_a_change_raises_the_epochs_that_it_should_and_tells_which_record_it_was() -> None:
    image = image_of(*orders(), change(isr=(1, 2)), change(leader=2), record("ClearElrRecord"))
    entry = image.entries["partition", "orders-0"]
    epochs = {name: entry.value[name] for name in ("leader", "leader_epoch", "partition_epoch", "isr")}
    assert epochs == {"leader": 2, "leader_epoch": 1, "partition_epoch": 2, "isr": [1, 2]}
    assert entry.metadata_offset == 3


def test_rights_and_tokens_come_and_go() -> None:
    acl = {"id": "a" * 22, "resource_name": "orders", "principal": "User:alice"}
    token = {"token_id": "t1", "owner": "User:alice"}
    kept = [record("AccessControlEntryRecord", **acl), record("DelegationTokenRecord", **token)]
    assert {key[0] for key in image_of(*kept).entries} == {"acl", "token"}
    gone = [
        record("RemoveAccessControlEntryRecord", id="a" * 22),
        record("RemoveDelegationTokenRecord", token_id="t1"),
    ]
    assert image_of(*kept, *gone).entries == {}


def test_every_record_type_can_be_applied_and_every_kind_has_its_place() -> None:
    image = image_of(*orders(), *(record(schema.name) for schema in METADATA_SCHEMAS.values()))
    assert {kind for kind, _ in image.entries} <= set(KINDS)
    twin = MetadataImage(entries={k: dataclasses.replace(e, metadata_offset=0) for k, e in image.entries.items()})
    assert list(differences(image, twin)) == [], "where a record stood is no difference"
