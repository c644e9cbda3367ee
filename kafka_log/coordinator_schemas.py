"""Schemas of the coordinators' records: group, transaction and remote-log topics.

In: nothing; the notation is that of `kafka_log.schemas`. Out: `COORDINATOR_SCHEMAS` by name. These are the field names,
types, versions and tags of Kafka 4.4's record definitions, older versions included.
"""

from collections.abc import Mapping
from typing import Final

from tidegauge.kafka_log.schemas import Schema, parse_schemas

SHARE_STATE_SCHEMAS: Final[Mapping[str, Schema]] = {
    schema.name: schema
    for schema in parse_schemas(
        """
ShareSnapshotKey 0 0 none
  group_id string 0
  topic_id uuid 0
  partition int32 0
ShareSnapshotValue 0 0 0+
  snapshot_epoch int32 0+
  state_epoch int32 0+
  leader_epoch int32 0+
  start_offset int64 0+
  delivery_complete_count int32 0+ tag=0:0+ default=-1
  create_timestamp int64 0+
  write_timestamp int64 0+
  state_batches []StateBatch 0+
    first_offset int64 0+
    last_offset int64 0+
    delivery_state int8 0+
    delivery_count int16 0+
ShareUpdateKey 1 0 none
  group_id string 0
  topic_id uuid 0
  partition int32 0
ShareUpdateValue 1 0 0+
  snapshot_epoch int32 0+
  leader_epoch int32 0+
  start_offset int64 0+
  delivery_complete_count int32 0+ tag=0:0+ default=-1
  state_batches []StateBatch 0+
    first_offset int64 0+
    last_offset int64 0+
    delivery_state int8 0+
    delivery_count int16 0+
"""
    )
}
"""Of `__share_group_state` (KIP-932); their own table, because their key types are numbered from 0 again."""

COORDINATOR_SCHEMAS: Final[Mapping[str, Schema]] = {
    schema.name: schema
    for schema in parse_schemas(
        """
LegacyOffsetCommitKey 0 0 none
  group string 0
  topic string 0
  partition int32 0
LegacyOffsetCommitValue 0 0 none
  offset int64 0
  metadata string 0
  commit_timestamp int64 0
RemoteLogSegmentMetadataRecord 0 0 0+
  remote_log_segment_id RemoteLogSegmentIdEntry 0+
    topic_id_partition TopicIdPartitionEntry 0+
      name string 0+
      id uuid 0+
      partition int32 0+
    id uuid 0+
  start_offset int64 0+
  end_offset int64 0+
  broker_id int32 0+
  max_timestamp_ms int64 0+
  event_timestamp_ms int64 0+
  segment_leader_epochs []SegmentLeaderEpochEntry 0+
    leader_epoch int32 0+
    offset int64 0+
  segment_size_in_bytes int32 0+
  custom_metadata bytes 0+ nullable=0+ default=null
  remote_log_segment_state int8 0+
  txn_index_empty bool 0+ tag=0:0+
TransactionLogKey 0 0 none
  transactional_id string 0
TransactionLogValue 0 0-1 1+
  producer_id int64 0+
  previous_producer_id int64 1+ tag=0:1+ default=-1
  next_producer_id int64 1+ tag=1:1+ default=-1
  producer_epoch int16 0+
  next_producer_epoch int16 1+ tag=3:1+ default=-1
  transaction_timeout_ms int32 0+
  transaction_status int8 0+
  transaction_partitions []PartitionsSchema 0+ nullable=0+
    topic string 0+
    partition_ids []int32 0+
  transaction_last_update_timestamp_ms int64 0+
  transaction_start_timestamp_ms int64 0+
  client_transaction_version int16 1+ tag=2:1+ default=0
OffsetCommitKey 1 0 none
  group string 0
  topic string 0
  partition int32 0
OffsetCommitValue 1 0-4 4+
  offset int64 0+
  leader_epoch int32 3+ default=-1
  metadata string 0+
  commit_timestamp int64 0+
  expire_timestamp int64 1 default=-1
  topic_id uuid 4+ tag=0:4+
RemoteLogSegmentMetadataUpdateRecord 1 0 0+
  remote_log_segment_id RemoteLogSegmentIdEntry 0+
    topic_id_partition TopicIdPartitionEntry 0+
      name string 0+
      id uuid 0+
      partition int32 0+
    id uuid 0+
  broker_id int32 0+
  event_timestamp_ms int64 0+
  custom_metadata bytes 0+ nullable=0+ default=null
  remote_log_segment_state int8 0+
GroupMetadataKey 2 0 none
  group string 0
GroupMetadataValue 2 0-4 4+
  protocol_type string 0+
  generation int32 0+
  protocol string 0+ nullable=0+
  leader string 0+ nullable=0+
  current_state_timestamp int64 2+ default=-1
  members []MemberMetadata 0+
    member_id string 0+
    group_instance_id string 3+ nullable=3+ default=null
    client_id string 0+
    client_host string 0+
    rebalance_timeout int32 1+ default=-1
    session_timeout int32 0+
    subscription bytes 0+
    assignment bytes 0+
RemotePartitionDeleteMetadataRecord 2 0 0+
  topic_id_partition TopicIdPartitionEntry 0+
    name string 0+
    id uuid 0+
    partition int32 0+
  broker_id int32 0+
  event_timestamp_ms int64 0+
  remote_partition_delete_state int8 0+
ConsumerGroupMetadataKey 3 0 none
  group_id string 0
ConsumerGroupMetadataValue 3 0 0+
  epoch int32 0+
  metadata_hash int64 0+ tag=0:0+ default=0
RemoteLogSegmentMetadataSnapshotRecord 3 0 0+
  segment_id uuid 0+
  start_offset int64 0+
  end_offset int64 0+
  broker_id int32 0+
  max_timestamp_ms int64 0+
  event_timestamp_ms int64 0+
  segment_leader_epochs []SegmentLeaderEpochEntry 0+
    leader_epoch int32 0+
    offset int64 0+
  segment_size_in_bytes int32 0+
  custom_metadata bytes 0+ nullable=0+ default=null
  remote_log_segment_state int8 0+
  txn_index_empty bool 0+ tag=0:0+
ConsumerGroupPartitionMetadataKey 4 0 none
  group_id string 0
ConsumerGroupPartitionMetadataValue 4 0 0+
  topics []TopicMetadata 0+
    topic_id uuid 0+
    topic_name string 0+
    num_partitions int32 0+
    partition_metadata []PartitionMetadata 0+
      partition int32 0+
      racks []string 0+
ConsumerGroupMemberMetadataKey 5 0 none
  group_id string 0
  member_id string 0
ConsumerGroupMemberMetadataValue 5 0 0+
  instance_id string 0+ nullable=0+
  rack_id string 0+ nullable=0+
  client_id string 0+
  client_host string 0+
  subscribed_topic_names []string 0+
  subscribed_topic_regex string 0+ nullable=0+
  rebalance_timeout_ms int32 0+ default=-1
  server_assignor string 0+ nullable=0+
  classic_member_metadata ClassicMemberMetadata 0+ nullable=0+ tag=0:0+ default=None
    session_timeout_ms int32 0+
    supported_protocols []ClassicProtocol 0+
      name string 0+
      metadata bytes 0+
ConsumerGroupTargetAssignmentMetadataKey 6 0 none
  group_id string 0
ConsumerGroupTargetAssignmentMetadataValue 6 0 0+
  assignment_epoch int32 0+
  assignment_timestamp int64 0+ tag=0:0+ default=0
ConsumerGroupTargetAssignmentMemberKey 7 0 none
  group_id string 0
  member_id string 0
ConsumerGroupTargetAssignmentMemberValue 7 0 0+
  topic_partitions []TopicPartition 0+
    topic_id uuid 0+
    partitions []int32 0+
ConsumerGroupCurrentMemberAssignmentKey 8 0 none
  group_id string 0
  member_id string 0
ConsumerGroupCurrentMemberAssignmentValue 8 0 0+
  member_epoch int32 0+
  previous_member_epoch int32 0+
  state int8 0+
  assigned_partitions []TopicPartitions 0+
    topic_id uuid 0+
    partitions []int32 0+
    assignment_epochs []int32 0+ nullable=0+ tag=0:0+ default=None
  partitions_pending_revocation []TopicPartitions 0+
    topic_id uuid 0+
    partitions []int32 0+
    assignment_epochs []int32 0+ nullable=0+ tag=0:0+ default=None
ShareGroupMemberMetadataKey 10 0 none
  group_id string 0
  member_id string 0
ShareGroupMemberMetadataValue 10 0 0+
  rack_id string 0+ nullable=0+
  client_id string 0+
  client_host string 0+
  subscribed_topic_names []string 0+
ShareGroupMetadataKey 11 0 none
  group_id string 0
ShareGroupMetadataValue 11 0 0+
  epoch int32 0+
  metadata_hash int64 0+
ShareGroupTargetAssignmentMetadataKey 12 0 none
  group_id string 0
ShareGroupTargetAssignmentMetadataValue 12 0 0+
  assignment_epoch int32 0+
  assignment_timestamp int64 0+ tag=0:0+ default=0
ShareGroupTargetAssignmentMemberKey 13 0 none
  group_id string 0
  member_id string 0
ShareGroupTargetAssignmentMemberValue 13 0 0+
  topic_partitions []TopicPartition 0+
    topic_id uuid 0+
    partitions []int32 0+
ShareGroupCurrentMemberAssignmentKey 14 0 none
  group_id string 0
  member_id string 0
ShareGroupCurrentMemberAssignmentValue 14 0 0+
  member_epoch int32 0+
  previous_member_epoch int32 0+
  state int8 0+
  assigned_partitions []TopicPartitions 0+
    topic_id uuid 0+
    partitions []int32 0+
ShareGroupStatePartitionMetadataKey 15 0 none
  group_id string 0
ShareGroupStatePartitionMetadataValue 15 0 0+
  initializing_topics []TopicPartitionsInfo 0+
    topic_id uuid 0+
    topic_name string 0+
    partitions []int32 0+
  initialized_topics []TopicPartitionsInfo 0+
    topic_id uuid 0+
    topic_name string 0+
    partitions []int32 0+
  deleting_topics []TopicInfo 0+
    topic_id uuid 0+
    topic_name string 0+
ConsumerGroupRegularExpressionKey 16 0 none
  group_id string 0
  regular_expression string 0
ConsumerGroupRegularExpressionValue 16 0 0+
  topics []string 0+
  version int64 0+
  timestamp int64 0+
StreamsGroupMetadataKey 17 0 none
  group_id string 0
StreamsGroupMetadataValue 17 0 0+
  epoch int32 0+
  metadata_hash int64 0+
  validated_topology_epoch int32 0+ tag=0:0+ default=-1
  last_assignment_configs []LastAssignmentConfig 0+ nullable=0+ tag=1:0+ default=None
    key string 0+
    value string 0+
  stored_description_topology_epoch int32 0+ tag=2:0+ default=-1
  failed_description_topology_epoch int32 0+ tag=3:0+ default=-1
StreamsGroupMemberMetadataKey 19 0 none
  group_id string 0
  member_id string 0
StreamsGroupMemberMetadataValue 19 0 0+
  instance_id string 0+ nullable=0+
  rack_id string 0+ nullable=0+
  client_id string 0+
  client_host string 0+
  rebalance_timeout_ms int32 0+ default=-1
  topology_epoch int32 0+
  process_id string 0+
  user_endpoint Endpoint 0+ nullable=0+ default=null
    host string 0+
    port uint16 0+
  client_tags []KeyValue 0+
    key string 0+
    value string 0+
StreamsGroupTargetAssignmentMetadataKey 20 0 none
  group_id string 0
StreamsGroupTargetAssignmentMetadataValue 20 0 0+
  assignment_epoch int32 0+
  assignment_timestamp int64 0+ tag=0:0+ default=0
StreamsGroupTargetAssignmentMemberKey 21 0 none
  group_id string 0
  member_id string 0
StreamsGroupTargetAssignmentMemberValue 21 0 0+
  active_tasks []TaskIds 0+
    subtopology_id string 0+
    partitions []int32 0+
  standby_tasks []TaskIds 0+
    subtopology_id string 0+
    partitions []int32 0+
  warmup_tasks []TaskIds 0+
    subtopology_id string 0+
    partitions []int32 0+
StreamsGroupCurrentMemberAssignmentKey 22 0 none
  group_id string 0
  member_id string 0
StreamsGroupCurrentMemberAssignmentValue 22 0 0+
  member_epoch int32 0+
  previous_member_epoch int32 0+
  state int8 0+
  active_tasks []TaskIds 0+
    subtopology_id string 0+
    partitions []int32 0+
    assignment_epochs []int32 0+ nullable=0+ tag=0:0+ default=None
  standby_tasks []TaskIds 0+
    subtopology_id string 0+
    partitions []int32 0+
    assignment_epochs []int32 0+ nullable=0+ tag=0:0+ default=None
  warmup_tasks []TaskIds 0+
    subtopology_id string 0+
    partitions []int32 0+
    assignment_epochs []int32 0+ nullable=0+ tag=0:0+ default=None
  active_tasks_pending_revocation []TaskIds 0+
    subtopology_id string 0+
    partitions []int32 0+
    assignment_epochs []int32 0+ nullable=0+ tag=0:0+ default=None
  standby_tasks_pending_revocation []TaskIds 0+
    subtopology_id string 0+
    partitions []int32 0+
    assignment_epochs []int32 0+ nullable=0+ tag=0:0+ default=None
  warmup_tasks_pending_revocation []TaskIds 0+
    subtopology_id string 0+
    partitions []int32 0+
    assignment_epochs []int32 0+ nullable=0+ tag=0:0+ default=None
StreamsGroupTopologyKey 23 0 none
  group_id string 0
StreamsGroupTopologyValue 23 0 0+
  epoch int32 0+
  subtopologies []Subtopology 0+
    subtopology_id string 0+
    source_topics []string 0+
    source_topic_regex []string 0+
    state_changelog_topics []TopicInfo 0+
      name string 0+
      partitions int32 0+
      replication_factor int16 0+
      topic_configs []TopicConfig 0+
        key string 0+
        value string 0+
    repartition_sink_topics []string 0+
    repartition_source_topics []TopicInfo 0+
      name string 0+
      partitions int32 0+
      replication_factor int16 0+
      topic_configs []TopicConfig 0+
        key string 0+
        value string 0+
    copartition_groups []CopartitionGroup 0+
      source_topics []int16 0+
      source_topic_regex []int16 0+
      repartition_source_topics []int16 0+
"""
    )
}
