"""The records of `__cluster_metadata`: their schemas, and one record's value read and written.

In: a record's value. Out: a `MetadataRecord`, or a `Corruption`; and the other way. The schemas are data, in the
notation of `kafka_log.schemas`; a record type or version that they don't have is a `Corruption`, never a guess.

The frame around the fields is that of `kafka_log.framed_records`.

Field names, types, versions and tags are those of Kafka 4.4's metadata record definitions; types 6, 13 and 16 were
given up before KRaft was released and are in no log.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidegauge.kafka_log.allowance import Allowance
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.framed_records import read_framed, write_framed
from tidegauge.kafka_log.schemas import FieldValue, Schema, parse_schemas

METADATA_SCHEMAS: Final[Mapping[int, Schema]] = {
    schema.api_key: schema
    for schema in parse_schemas(
        """
RegisterBrokerRecord 0 0-4 0+
  broker_id int32 0+
  is_migrating_zk_broker bool 2+ default=false
  incarnation_id uuid 0+
  broker_epoch int64 0+
  end_points []BrokerEndpoint 0+
    name string 0+
    host string 0+
    port uint16 0+
    security_protocol int16 0+
  features []BrokerFeature 0+
    name string 0+
    min_supported_version int16 0+
    max_supported_version int16 0+
  rack string 0+ nullable=0+
  fenced bool 0+ default=true
  in_controlled_shutdown bool 1+ default=false
  log_dirs []uuid 3+ tag=0:3+
  cordoned_log_dirs []uuid 4+ nullable=4+ tag=1:4+ default=null
UnregisterBrokerRecord 1 0 0+
  broker_id int32 0+
  broker_epoch int64 0+
TopicRecord 2 0 0+
  name string 0+
  topic_id uuid 0+
PartitionRecord 3 0-2 0+
  partition_id int32 0+ default=-1
  topic_id uuid 0+
  replicas []int32 0+
  isr []int32 0+
  removing_replicas []int32 0+
  adding_replicas []int32 0+
  leader int32 0+ default=-1
  leader_recovery_state int8 0+ tag=0:0+ default=0
  leader_epoch int32 0+ default=-1
  partition_epoch int32 0+ default=-1
  directories []uuid 1+
  eligible_leader_replicas []int32 2+ nullable=2+ tag=1:2+ default=null
  last_known_elr []int32 2+ nullable=2+ tag=2:2+ default=null
ConfigRecord 4 0 0+
  resource_type int8 0+
  resource_name string 0+
  name string 0+
  value string 0+ nullable=0+
PartitionChangeRecord 5 0-2 0+
  partition_id int32 0+ default=-1
  topic_id uuid 0+
  isr []int32 0+ nullable=0+ tag=0:0+ default=null
  leader int32 0+ tag=1:0+ default=-2
  replicas []int32 0+ nullable=0+ tag=2:0+ default=null
  removing_replicas []int32 0+ nullable=0+ tag=3:0+ default=null
  adding_replicas []int32 0+ nullable=0+ tag=4:0+ default=null
  leader_recovery_state int8 0+ tag=5:0+ default=-1
  directories []uuid 1+ nullable=1+ tag=8:1+ default=null
  eligible_leader_replicas []int32 2+ nullable=2+ tag=6:2+ default=null
  last_known_elr []int32 2+ nullable=2+ tag=7:2+ default=null
FenceBrokerRecord 7 0 0+
  id int32 0+
  epoch int64 0+
UnfenceBrokerRecord 8 0 0+
  id int32 0+
  epoch int64 0+
RemoveTopicRecord 9 0 0+
  topic_id uuid 0+
DelegationTokenRecord 10 0 0+
  owner string 0+
  requester string 0+
  renewers []string 0+
  issue_timestamp int64 0+
  max_timestamp int64 0+
  expiration_timestamp int64 0+
  token_id string 0+
UserScramCredentialRecord 11 0 0+
  name string 0+
  mechanism int8 0+
  salt bytes 0+
  stored_key bytes 0+
  server_key bytes 0+
  iterations int32 0+
FeatureLevelRecord 12 0 0+
  name string 0+
  feature_level int16 0+
ClientQuotaRecord 14 0 0+
  entity []EntityData 0+
    entity_type string 0+
    entity_name string 0+ nullable=0+
  key string 0+
  value float64 0+
  remove bool 0+
ProducerIdsRecord 15 0 0+
  broker_id int32 0+
  broker_epoch int64 0+ default=-1
  next_producer_id int64 0+
BrokerRegistrationChangeRecord 17 0-3 0+
  broker_id int32 0+
  broker_epoch int64 0+
  fenced int8 0+ tag=0:0+
  in_controlled_shutdown int8 1+ tag=1:1+
  log_dirs []uuid 2+ tag=2:2+
  cordoned_log_dirs []uuid 3+ nullable=3+ tag=3:3+ default=null
AccessControlEntryRecord 18 0 0+
  id uuid 0+
  resource_type int8 0+
  resource_name string 0+
  pattern_type int8 0+
  principal string 0+
  host string 0+
  operation int8 0+
  permission_type int8 0+
RemoveAccessControlEntryRecord 19 0 0+
  id uuid 0+
NoOpRecord 20 0 0+
ZkMigrationStateRecord 21 0 0+
  zk_migration_state int8 0+
RemoveUserScramCredentialRecord 22 0 0+
  name string 0+
  mechanism int8 0+
BeginTransactionRecord 23 0 0+
  name string 0+ nullable=0+ tag=0:0+ default=null
EndTransactionRecord 24 0 0+
AbortTransactionRecord 25 0 0+
  reason string 0+ nullable=0+ tag=0:0+ default=null
RemoveDelegationTokenRecord 26 0 0+
  token_id string 0+
RegisterControllerRecord 27 0 0+
  controller_id int32 0+
  incarnation_id uuid 0+
  zk_migration_ready bool 0+
  end_points []ControllerEndpoint 0+
    name string 0+
    host string 0+
    port uint16 0+
    security_protocol int16 0+
  features []ControllerFeature 0+
    name string 0+
    min_supported_version int16 0+
    max_supported_version int16 0+
ClearElrRecord 28 0 0+
  topic_name string 0+
UnregisterControllerRecord 29 0 0+
  controller_id int32 0+
"""
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRecord:
    """One metadata record: its type (api key), the type's name, its version and its fields."""

    type_id: int
    name: str
    version: int
    fields: Mapping[str, FieldValue]


def decode_metadata_record(value: bytes, *, allowance: Allowance | None = None) -> MetadataRecord | Corruption:
    """Decodes one record's value, all of it. `allowance`: that of the log which it was read out of."""
    framed = read_framed(value, METADATA_SCHEMAS, what="metadata record", allowance=allowance)
    if isinstance(framed, Corruption):
        return framed
    schema = framed.schema
    return MetadataRecord(type_id=schema.api_key, name=schema.name, version=framed.version, fields=framed.fields)


def encode_metadata_record(record: MetadataRecord) -> bytes:
    """One record's value. Raises ValueError if a field does not fit."""
    return write_framed(METADATA_SCHEMAS[record.type_id], record.version, record.fields)
