"""Scenarios that are written as files: what is read, what is refused and with which words, and what is played."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.scenarios.scenario import Finding, LostRange, Played
from tidegauge.sim_engine.scenarios.shipped import LITERATURE
from tidegauge.sim_engine.scenarios.written import places
from tidegauge.sim_engine.scenarios.written.places import DEEPEST, LONGEST_BYTES, ScenarioFileError, read_text, root_of
from tidegauge.sim_engine.scenarios.written.playing import as_scenario, play
from tidegauge.sim_engine.scenarios.written.reading import read_scenario, scenario_of
from tidegauge.sim_engine.scenarios.written.steps import WORDS

ORDERS = TopicPartition("orders", 0)
HEAD = """\
scenario: mine
about: a test
cluster: {brokers: 3}
topics:
  orders: {replicas: 3}
clients:
  app: {kind: producer, idempotent: true}
  reader: {kind: consumer, reads: [orders-0]}
play:
"""
PLAY = HEAD.count("\n") + 1


def read(*steps: str, head: str = HEAD) -> Played:
    text = head + "".join(f"  - {step}\n" for step in steps)
    return play(scenario_of(text, file="mine.yaml", codes={"D05", "K07"}), 1)


def refused(*steps: str, head: str = HEAD) -> str:
    with pytest.raises(ScenarioFileError) as caught:
        read(*steps, head=head)
    return str(caught.value)


def test_a_file_is_played_and_its_moments_say_what_it_says() -> None:
    played = read(
        "{start: app}",
        "{at: 1s, send: app, to: orders-0, numbers: 0..24, per_batch: 5, every: 100ms}",
        "{moment: begun, what: the first batch is under way}",
        "{after: 2s, kill: 1}",
        "{after: 15s, send: app, to: orders-0, values: [last]}",
        "{after: 5s, moment: over, compare_with: begun, unseen: all is well, "
        "find: [{code: K07, partition: orders-0, broker: 2, offsets: 3..}], "
        "check: [{broker: 2, partition: orders-0, log_end: 26}, {partition: orders-0, leader: 2, high_watermark: 26}]}",
    )
    begun, over = played.moments
    assert (begun.what, over.what, over.previous, over.unseen) == (
        "the first batch is under way",
        "over",
        "begun",
        "all is well",
    )
    assert over.findings == (Finding(code="K07", partition=ORDERS, broker_id=2, start_offset=3),)
    sent_ms = [note.at_ms for note in over.truth.acknowledged]
    assert len(sent_ms) == 6
    assert sent_ms[1] - sent_ms[0] >= 90, "batches of numbers are sent one after the other"
    assert over.world.now_ms - begun.world.now_ms == 22_000


def test_the_same_seed_gives_the_same_world_and_another_seed_another() -> None:
    written = scenario_of(HEAD + "  - {start: app}\n  - {after: 3s, moment: end}\n", file="mine.yaml")
    one, same, other = (as_scenario(written).play(seed).moments[0].truth.to_json() for seed in (1, 1, 2))
    ids = [play(written, seed).moments[0].world.brokers[1].disk.directory_id for seed in (1, 1, 2)]
    assert one == same
    assert ids[0] == ids[1] != ids[2]
    assert one["schema_version"] == other["schema_version"]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("{kil: 1}", "'kil' means nothing. Did you mean kill?"),
        ("{kill: 1, start: 2}", "a step does one thing, and this one has kill and start"),
        ("{after: 3s}", "says nothing. The words are start"),
        ("{kill: 7}", "there is no broker 7. The cluster has 1, 2, 3."),
        ("{kill: app}", "wants a whole number, such as 0, and is 'app'"),
        ("{kill: [1, 1]}", "names a broker twice"),
        ("{kill: 1, at: 5}", "wants a time with its unit (500ms, 8s, 2min, 1h), and is '5'"),
        ("{kill: 1, at: 5 s}", "wants a time with its unit"),
        ("{kill: 1, at: 25h}", "is 25h; it may be 0s to 24h."),
        ("{kill: 1, at: 5s, after: 1s}", "the step has at, too"),
        ("{start: nobody}", "there is no client 'nobody'"),
        ("{send: reader, to: orders-0, values: [a]}", "reader is a consumer; this is for a producer"),
        ("{send: app, values: [a]}", "to is missing. Add it."),
        ("{send: app, to: orders-1, values: [a]}", "there is no partition 'orders-1'. There are orders-0."),
        ("{send: app, to: orders-0}", "wants values (one batch: [M1, M2]) or numbers"),
        ("{send: app, to: orders-0, values: a}", "wants a list, such as [a, b], and is 'a'"),
        ("{send: app, to: orders-0, values: []}", "is an empty list"),
        ("{send: app, to: orders-0, numbers: 9..1}", "9..1 ends before it begins"),
        (
            "{send: app, to: orders-0, numbers: 0..1000000000000}",
            "1,000,000,000,001 records; at most 100,000 are played",
        ),
        ("{cut: [1, 2, 3]}", "has 3 items; at most 2 are played"),
        ("{cut: [1, 1]}", "both ends are the same"),
        ("{heal: some}", "wants all, and is 'some'"),
        ("{hurt: 1, damage: fire, partition: orders-0}", "wants torn-write, lost-flush"),
        ("{set: cleanup.polcy, value: compact}", "Did you mean cleanup.policy?"),
        ("{set: min.insync.replicas, value: two}", "wants a whole number"),
        ("{moment: The End}", "wants a name of small letters, digits and hyphens"),
        ("{moment: ../out}", "wants a name of small letters, digits and hyphens"),
        ("{moment: end, compare_with: before}", "there is no earlier moment 'before'"),
        ("{moment: end, find: [{code: D5}]}", "there is no invariant 'D5'"),
        ("{moment: end, find: [{code: D05, offset: 1..2}]}", "'offset' means nothing. Did you mean offsets?"),
        ("{moment: end, lost: [{partition: orders-0, offsets: 5..}]}", "wants numbers as A..B"),
        ("{moment: end, check: [{broker: 1, partition: orders-0}]}", "says nothing of it. Add one of log_end"),
        ("5", "wants a mapping, lines of `key: value`, and is '5'"),
    ],
)
def test_a_wrong_step_is_one_error_with_its_line_and_what_to_do(step: str, said: str) -> None:
    told = refused("{start: app}", step, "{moment: last}")
    assert told.startswith(f"mine.yaml, line {PLAY + 1}, play[1]")
    assert said in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("{brokers: 3}", "{brokers: 1}", 5, "topic orders wants 3 replicas, and the cluster has 1 broker. Ask"),
        ("{brokers: 3}", "{brokers: 1000}", 3, "is 1,000; it may be 1 to 20."),
        ("{brokers: 3}", "{brokers: three}", 3, "wants a whole number"),
        ("{brokers: 3}", "{brokers: '3'}", 3, "wants a whole number"),
        ("{brokers: 3}", "{brokers: [1, 1]}", 3, "names a broker twice"),
        ("{brokers: 3}", "{brokers: 3, generation: zookeeper}", 3, "wants high-watermark, kip-101, kip-279"),
        ("{replicas: 3}", "{replicas: 3, partitions: 1000000}", 5, "is 1,000,000; it may be 1 to 200."),
        ("{replicas: 3}", "{replicas: 3, config: {min.insync.replica: 2}}", 5, "Did you mean min.insync.replicas?"),
        ("{replicas: 3}", "{replicas: 3, config: {cleanup.policy: shred}}", 5, "wants delete, compact or"),
        ("{replicas: 3}", "{replicas: 3, assignment: [[1]]}", 5, "one of them"),
        ("{replicas: 3}", "{assignment: [[1, 4]]}", 5, "there is no broker 4"),
        ("idempotent: true", "idempotent: yes", 7, "wants true or false, and is 'yes'"),
        ("idempotent: true", "idempotent: true, acks: 1", 7, "an idempotent producer waits for all"),
        ("idempotent: true", "idempotent: true, max_in_flight: 6", 7, "is 6; it may be 1 to 5."),
        ("idempotent: true", "id: 1234", 7, "only an idempotent producer that brings its id"),
        ("idempotent: true", "idempotent: true, id: 3000", 7, "is 3,000; it may be 0 to 2,999."),
        ("kind: producer", "kind: writer", 7, "wants producer, consumer, member or transactional"),
        ("reads: [orders-0]", "reads: [order-0]", 8, "there is no partition 'order-0'"),
        ("scenario: mine", "scenario: Mine/../x", 1, "wants a name of small letters"),
        ("scenario: mine", "scenaro: mine", 1, "'scenaro' means nothing. Did you mean scenario?"),
        ("about: a test", "scenario: mine", 2, "'scenario' stands twice, first on line 1"),
        ("about: a test", "about: &a test", 2, "an anchor or an alias (& or *) is not read here"),
        ("about: a test", "about: !!python/object:os.system x", 2, "a tag (!) is not read here"),
        ("about: a test", "about: {a: test}", 2, "wants words, and is a mapping"),
        ("about: a test", "about: [", 4, "this is not YAML"),
        ("about: a test", "? [a]\n: b", 2, "a key is a list or a mapping"),
        ("cluster: {brokers: 3}\n", "", 1, "cluster is missing. Add it."),
    ],
)  # fmt: skip
def test_a_wrong_cluster_is_one_error_with_its_line_and_what_to_do(old: str, new: str, line: int, said: str) -> None:
    assert old in HEAD
    told = refused("{moment: end}", head=HEAD.replace(old, new, 1))
    assert told.startswith(f"mine.yaml, line {line}")
    assert said in told
    assert "\n" not in told


def test_a_million_topics_are_too_many_before_any_is_made() -> None:
    topics = "".join(f"  t{number}: {{replicas: 1}}\n" for number in range(60))
    told = refused("{moment: end}", head=HEAD.replace("topics:\n", f"topics:\n{topics}"))
    assert "topics: has 61 topics; 1 to 50 are played." in told


def test_a_file_that_is_too_large_too_deep_or_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_text("#" * (LONGEST_BYTES + 1), encoding="utf-8")
    with pytest.raises(ScenarioFileError, match=r"is larger than 256 KiB"):
        read_text(path)
    path.write_bytes(b"scenario: mine\nabout: \xff\n")
    with pytest.raises(ScenarioFileError, match=r"line 2: this is not UTF-8 text"):
        read_text(path)
    with pytest.raises(ScenarioFileError, match="No such file or directory"):
        read_text(tmp_path / "nobody.yaml")
    with pytest.raises(ScenarioFileError, match=r"line 2: lists and mappings are nested deeper than 12 levels"):
        root_of("\n" + "[" * 100_000, "deep.yaml")
    assert root_of("[" * DEEPEST + "a" + "]" * DEEPEST, "deep.yaml").is_list
    for text in ("", "# nothing\n", "---\n...\n"):
        with pytest.raises(ScenarioFileError):
            scenario_of(text, file="empty.yaml")
    with pytest.raises(ScenarioFileError, match="a second document begins"):
        root_of("a: b\n---\nc: d\n", "two.yaml")


def error_of(text: str) -> str | None:
    """What is said of a text; None if it is a scenario. Any other error fails the test."""
    try:
        scenario_of(text, file="any.yaml")
    except ScenarioFileError as error:
        return str(error)
    return None


@given(st.text(max_size=200))
def test_whatever_a_text_holds_is_refused_by_its_name(text: str) -> None:
    told = error_of(text)
    assert told is not None
    assert told.startswith("any.yaml")


@given(st.data())
def test_a_shipped_file_in_which_something_is_changed_is_refused_in_one_line_or_read(data: st.DataObject) -> None:
    text = (LITERATURE / "unclean-100-200.yaml").read_text(encoding="utf-8")
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    put = data.draw(
        st.sampled_from(["", "-1", "[", "{}", ": ", "\n", "~", "1e9", "0x10", "all", "9" * 30, "\x00", "'"])
    )
    told = error_of(text[:start] + put + text[end:])
    assert told is None or (told.startswith("any.yaml") and "\n" not in told)


@pytest.mark.parametrize(
    ("steps", "line", "said"),
    [
        (["{at: 5s, kill: 1}", "{at: 4s, start: 1}"], 1, f"4s is before the step above it (line {PLAY}, 5s)"),
        (["{kill: 1}", "{after: 1s, kill: 1}"], 1, "at 1s broker 1 is down. Start it before"),
        (["{start: 1}"], 0, "at 0s broker 1 is running. Stop or kill it before."),
        (["{stop: 1}", "{start: 1}"], 1, "broker 1 is still stopping. Wait longer"),
        (["{resume: 1}"], 0, "broker 1 is not paused"),
        (["{wipe: 1}"], 0, "broker 1 is running"),
        (["{hurt: 1, damage: lost-flush, partition: orders-0}"], 0, "broker 1 is running"),
        (
            ["{hurt: 1, damage: bit-flip, partition: orders-0, offset: 0}"],
            0,
            "at 0s there is nothing of the kind to damage",
        ),
        (["{send: app, to: orders-0, values: [a]}"], 0, "app has not begun, or is gone. Add `- start: app` before."),
        (["{start: app}", "{start: app}"], 1, "app has begun already"),
        (["{start: app}", "{stop: app}", "{restart: app}"], 2, "app has not begun, or is gone"),
    ],
)
def test_an_impossible_order_is_one_error_with_its_line(steps: list[str], line: int, said: str) -> None:
    told = refused(*steps, "{after: 1min, moment: end}")
    assert told.startswith(f"mine.yaml, line {PLAY + line}, play[{line}]")
    assert said in told


def test_a_scenario_without_a_moment_or_with_steps_behind_the_last_one_is_refused() -> None:
    assert "has no moment, so nothing would be copied" in refused("{start: app}")
    assert "nothing is copied after this step" in refused("{moment: end}", "{start: app}")
    assert "there is a moment end above" in refused("{moment: end}", "{moment: end}")


LOSING = ("{start: app}", "{after: 1s, send: app, to: orders-0, values: [M1, M2]}", "{after: 6s, kill: [1, 2, 3]}")
HURT = tuple(f"{{hurt: {b}, damage: lost-flush, partition: orders-0, offset: 0}}" for b in (1, 2, 3))
BACK = ("{after: 12s, start: [1, 2, 3]}",)


def test_what_a_file_says_is_lost_must_be_lost_and_nothing_else() -> None:
    story = (*LOSING, *HURT, *BACK)
    told = refused(*story, "{after: 30s, moment: end}")
    assert "orders-0 0..1 (committed) is lost by then, and `lost` does not say so" in told
    told = refused(*story, "{after: 30s, moment: end, lost: [{partition: orders-0, offsets: 0..0}]}")
    assert "orders-0 0..0 (committed) is not lost by then. Lost are: orders-0 0..1 (committed)." in told
    played = read(*story, "{after: 30s, moment: end, lost: [{partition: orders-0, offsets: 0..1}]}")
    lost = LostRange(partition=ORDERS, start_offset=0, end_offset=2, committed=True)
    assert played.moments[0].losses == (lost,)


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("{broker: 1, partition: orders-0, log_end: 3}", "the log's end: the file says 3, and it is 2."),
        ("{broker: 1, partition: orders-0, epochs: {0: 1}}", "epochs: the file says {0: 1}, and it is {0: 0}."),
        ("{broker: 1, partition: orders-0, values: [M1]}", "the file says [M1], and it is [M1, M2]."),
        (
            "{broker: 1, partition: orders-0, producer: 0, epoch: 0, sequences: 0..4}",
            "the file says 0..4, and it is 0..1.",
        ),
        ("{partition: orders-0, leader: 2}", "the leader: the file says 2, and it is 1."),
        ("{partition: orders-0, leader: none}", "the leader: the file says -1, and it is 1."),
        ("{partition: orders-0, epoch: 1}", "the leader epoch: the file says 1, and it is 0."),
        ("{partition: orders-0, high_watermark: 1}", "the high watermark: the file says 1, and it is 2."),
        ("{partition: orders-0, last_stable_offset: 1}", "the last stable offset: the file says 1, and it is 2."),
        ("{client: reader, partition: orders-0, read: 0..0}", "the file says 0..0, and it is 0..1."),
        ("{client: app, told: [FENCED]}", "the file says [FENCED], and it is []."),
    ],
)
def test_what_a_file_says_of_a_moment_is_held_against_the_world(check: str, said: str) -> None:
    told = refused("{start: reader}", *LOSING[:2], f"{{after: 6s, moment: end, check: [{check}]}}")
    assert told.startswith(f"mine.yaml, line {PLAY + 3}, play[3].check[0]")
    assert said in told


def test_every_word_has_a_meaning_and_can_be_played() -> None:
    """Each word once; that it does what it says is seen where scenarios are."""
    head = HEAD.replace(
        "play:\n", "  tx: {kind: transactional, id: tx}\n  member: {kind: member, group: g, reads: [orders]}\nplay:\n"
    )
    steps = {
        "start": "{at: 0s, start: app}", "restart": "{after: 2s, restart: app}",
        "send": "{send: app, to: orders-0, values: [a]}", "poll": "{poll: reader}",
        "begin": "{after: 5s, begin: tx}", "commit": "{commit: tx}", "abort": "{abort: tx}", "leave": "{leave: member}",
        "lose_markers": "{lose_markers: orders-0}",
        "write_unverified": "{write_unverified: orders-0, producer_id: 0, values: [late]}",
        "cut": "{cut: [1, controller], one_way: true}", "heal": "{heal: all}", "slow": "{slow: [1, 2], delay: 5ms}",
        "pause": "{pause: 3}", "resume": "{after: 1s, resume: 3}", "stop": "{stop: 3}", "kill": "{after: 9s, kill: 2}",
        "wipe": "{wipe: 2}", "power_cut": "{after: 1s, power_cut: 1}",
        "hurt": "{hurt: 1, damage: lost-flush, partition: orders-0, offset: 0}", "fill": "{fill: 1, room_bytes: 9}",
        "free": "{free: 1}", "set": "{set: retention.ms, value: 1000, topic: orders}", "elect": "{elect: orders-0}",
        "reassign": "{reassign: orders-0, replicas: [1, 2]}", "delete_records": "{delete_records: orders-0, before: 1}",
        "delete_topic": "{delete_topic: orders}",
    }  # fmt: skip
    assert set(steps) == set(WORDS)
    begun = [f"{{start: {name}}}" for name in ("reader", "tx", "member")]
    first, *others = steps.values()
    text = head + "".join(f"  - {step}\n" for step in (first, *begun, *others, "{after: 1s, moment: end}"))
    written = scenario_of(text, file="words.yaml")
    done = [type(action) for step in written.steps for _, action in getattr(step.does, "events", ())]
    assert len(set(done)) == len(WORDS) + 3 - 1, "commit and abort are one action; three clients begin besides brokers"


def test_shipped_files_are_named_as_their_scenarios() -> None:
    files = sorted(LITERATURE.glob("*.yaml"))
    assert files
    assert [read_scenario(path).name for path in files] == [path.stem for path in files]


def test_the_guides_scenario_is_played_as_it_says() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "scenarios.md").read_text(encoding="utf-8")
    text = "\n".join(line[7:] for line in guide.splitlines() if line.startswith(" " * 7))
    (moment,) = play(scenario_of(text, file="the guide"), 1).moments
    assert (moment.name, [finding.code for finding in moment.findings]) == ("a-is-dead", ["D05"])
    assert [loss.committed for loss in moment.losses] == [False]


def test_times_are_shown_as_they_are_written() -> None:
    for number, unit in itertools.product((1, 7, 59), ("ms", "s", "min", "h")):
        place = root_of(f"{number}{unit}", "t.yaml")
        assert places.shown_ms(place.duration(10**9)) == f"{number}{unit}"
