"""A run about names that somebody chose to harm whoever shows them: in topics, groups, ids, explanations, notes."""

from datetime import UTC, datetime

from tests.store.helpers import LOSS, breach, opened, report, table
from tidegauge import store

CLUSTER = "<img src=x onerror=window.pwned=1>"
NAMES = (
    "<script>window.pwned=1</script>",
    '"><svg onload=window.pwned=1>',
    "'; window.pwned=1; '",
    "../../../etc/passwd",
    "..",
    ".",
    "a/b?c=d#e%2f&amp;",
    "=cmd|'/c calc'!A1",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:window.pwned=1",
    "naïve ☃ 𐍈 ‮rtl",
    "~7e%00",
    " ",
    "x" * 3000,
)
"""What Kafka forbids, a hostile snapshot may contain all the same."""


def publish_hostile(url: str) -> str:
    """Publishes the run; its id."""
    key = store.RunKey(cluster=CLUSTER, snapshot_id="</title><script>window.pwned=1</script>", ruleset_version="1")
    run_id = opened(url, key, captured_at=datetime(2026, 11, 21, 1, tzinfo=UTC))
    replica = {"broker_id": 1, "partition": 0, "is_leader": True, "is_future": False, "log_start_offset": 0,
               "log_end_offset": 9, "high_watermark": 9, "last_stable_offset": 9}  # fmt: skip
    span = {"broker_id": 1, "partition": 0, "leader_epoch": 0, "start_offset": 0, "end_offset": 9, "batch_count": 1}
    relations = {
        "brokers": [{"broker_id": 1, "captured": True, "rack": NAMES[0], "log_dirs": [NAMES[1]]}],
        "partitions": [{"topic": n, "partition": 0, "leader_id": 1, "replicas": [1], "isr": [1]} for n in NAMES],
        "replicas": [replica | {"topic": n, "log_dir": n} for n in NAMES],
        "epoch_spans": [span | {"topic": n} for n in NAMES],
        "transactions": [
            {"topic": n, "partition": 0, "producer_id": 1, "producer_epoch": 0, "transactional_id": n,
             "first_offset": 3, "last_offset": 5, "outcome": "open", "hanging": True, "coordinator_state": n}
            for n in NAMES
        ],
        "committed_offsets": [{"group": n, "topic": n, "partition": 0, "committed_offset": 3} for n in NAMES],
        "sequence_gaps": [
            {"topic": n, "partition": 0, "broker_id": 1, "producer_id": 1, "producer_epoch": 0, "offset": 4, "cause": n}
            for n in NAMES
        ],
    }  # fmt: skip
    for relation, rows in relations.items():
        common = {"cluster": CLUSTER, "snapshot_id": key.snapshot_id}
        store.stage(url, run_id, relation, table(relation, *({**r, **common} for r in rows)))
    breaches = [
        breach(f"D06-{at}{name[:60]}", subject={"topic": name, "partition": 0, "group": name},
               explanation=f"{name}\n{name}", evidence={name: name, "rows": [{name: name}]}, next=name)
        for at, name in enumerate(NAMES)
    ]  # fmt: skip
    unread = [{"path": name, "reason": name} for name in NAMES]
    losses = [LOSS | {"topic": name, "partition": 0, "cause": name, "groups_affected": [name]} for name in NAMES]
    return store.publish(url, run_id, report(*breaches, losses=losses, coverage={"brokers": 1, "unread": unread}))
