"""The names of the topics that Kafka itself writes.

Nothing flows in or out here. The rule that must hold: each name stands here and nowhere else; no other topic is Kafka's
own, however its name begins.
"""

from typing import Final

CLUSTER_METADATA: Final = "__cluster_metadata"
CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
REMOTE_LOG_METADATA: Final = "__remote_log_metadata"

INTERNAL_TOPICS: Final = frozenset(
    {CLUSTER_METADATA, CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE, REMOTE_LOG_METADATA}
)
