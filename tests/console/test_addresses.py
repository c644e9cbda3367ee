"""Addresses: one for each name, and back."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegauge.addresses import Links, name_of, segment

names = st.text(st.characters(codec="utf-8"))


@pytest.mark.slow
@given(names)
@example("..")
@example("")
@example("~")
@example("a/b?c#d%2F")
def test_a_name_makes_one_harmless_segment_that_gives_it_back(name: str) -> None:
    written = segment(name)
    assert re.fullmatch(r"[A-Za-z0-9._~-]+", written)
    assert written.strip(".")
    assert name_of(written) == name


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
def test_a_segment_has_one_spelling(written: str) -> None:
    try:
        name = name_of(written)
    except ValueError:
        return
    assert segment(name) == written


@pytest.mark.parametrize("name", ["orders", "orders.v2", "__consumer_offsets", "a-b_C.9", ".hidden", "a.."])
def test_names_that_kafka_allows_are_read_as_they_are(name: str) -> None:
    assert segment(name) == name


def test_links_stay_below_the_path_that_a_proxy_serves() -> None:
    links = Links("/tidegauge/")
    assert links.partition("c", "..", 3, run=None) == "/tidegauge/clusters/c/topics/~2e./partitions/3"
    assert links.breaches(cluster="a&b", after=None) == "/tidegauge/breaches?cluster=a%26b"
    assert links.subject("c", {"topic": "t", "partition": 0}) == links.partition("c", "t", 0)
    assert links.subject("c", {"topic": "t"}) == links.topic("c", "t")
    assert links.subject("c", {"broker_id": 1}) is None
