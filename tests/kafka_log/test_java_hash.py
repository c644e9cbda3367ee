"""Java's hash of a text, and the partition that keeps a name."""

import pytest

from tidegauge.kafka_log.java_hash import coordinator_partition, string_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("polygenelubricants", -(2**31)),
        ("zzzzzzzz", -1_910_022_912),
        ("ä😀", 1_992_007),
    ],
)
def test_a_name_has_javas_hash(text: str, expected: int) -> None:
    assert string_hash(text) == expected


@pytest.mark.parametrize(
    ("key", "partition_count", "expected"),
    [("hello", 50, 22), ("zzzzzzzz", 50, 12), ("polygenelubricants", 50, 0), ("a", 1, 0)],
)
def test_a_negative_hash_loses_its_sign_and_the_smallest_is_zero(key: str, partition_count: int, expected: int) -> None:
    assert coordinator_partition(key, partition_count) == expected
