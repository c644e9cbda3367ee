"""The file of clusters: what it means, and what is said of a mistake in it."""

import re

import pytest

from tidegauge_capture_clusters import Broker, ClustersError, clusters, read

WHOLE = """
schedule: "0 3 * * *"
clusters:
  prod:
    out: s3://backup/kafka/
    bootstrap: kafka-1:9092
    client_config: /etc/client.properties
    mode: headers
    hash_topics: true
    hash_key: /etc/topics.key
    sign: /etc/capture.pem
    max_mb_per_s: 50
    pool: kafka
    brokers:
      1: [/data/a, /data/b]
      2: {log_dirs: [/data], queue: kafka-2}
      3: {log_dirs: /data, command: ssh kafka-3 tidegauge}
  small:
    brokers: {0: [/data]}
"""


def parsed(text: str):
    return read(text, where="clusters.yaml", default_out="/snapshots")


def test_the_whole_file():
    found = parsed(WHOLE)
    assert found.schedule == "0 3 * * *"
    prod, small = found.clusters
    assert prod.brokers == (
        Broker(broker_id=1, log_dirs=("/data/a", "/data/b")),
        Broker(broker_id=2, log_dirs=("/data",), queue="kafka-2"),
        Broker(broker_id=3, log_dirs=("/data",), command="ssh kafka-3 tidegauge"),
    )
    assert (prod.pool, prod.bootstrap) == ("kafka", "kafka-1:9092")
    assert (small.out, small.mode, small.max_mb_per_s, small.bootstrap) == ("/snapshots", "full", None, None)


def test_a_brokers_share_is_a_command_line():
    prod, small = parsed(WHOLE).clusters
    assert prod.share(prod.brokers[0], "20261121T030000Z") == [
        *("capture", "--cluster", "prod", "--out", "s3://backup/kafka/", "--id", "20261121T030000Z"),
        *("--mode", "headers", "--hash-topics", "--hash-key", "/etc/topics.key", "--sign", "/etc/capture.pem"),
        *("--part", "--broker", "1=/data/a,/data/b", "--consistency", "fuzzy", "--max-mb-per-s", "50"),
    ]
    assert small.share(small.brokers[0], "x")[-5:] == ["--part", "--broker", "0=/data", "--consistency", "fuzzy"]


def test_the_end_of_a_snapshot_asks_the_cluster():
    prod, small = parsed(WHOLE).clusters
    assert prod.finish("x")[-7:-5] == ["--sign", "/etc/capture.pem"]
    assert prod.finish("x")[-5:] == [
        "--finish",
        "--bootstrap",
        "kafka-1:9092",
        "--client-config",
        "/etc/client.properties",
    ]
    assert small.finish("x")[-1] == "--finish"
    assert prod.snapshot("x") == "s3://backup/kafka/prod/x"


def test_command_lines_are_those_that_the_command_takes():
    from tidegauge.cli.main import main

    known = {option for parameter in main.commands["capture"].params for option in parameter.opts}
    prod, _ = parsed(WHOLE).clusters
    for line in (prod.share(prod.brokers[0], "x"), prod.finish("x")):
        assert {word for word in line if word.startswith("--")} <= known


@pytest.mark.parametrize("schedule", ["", "schedule: none", "schedule: null"])
def test_without_a_schedule_it_runs_by_hand(schedule):
    assert parsed(f"{schedule}\nclusters: {{a: {{brokers: {{1: [/d]}}}}}}").schedule is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("clusters: [", "clusters.yaml is not YAML"),
        ("", "clusters.yaml: names and their values belong here, not None"),
        ("cluster: {}", "clusters.yaml: 'cluster' means nothing here. Is clusters meant?"),
        ("clusters: {}", "clusters names no cluster"),
        ("clusters: {a: }", "clusters.a: names and their values belong here"),
        ("clusters: {'../a': {brokers: {1: [/d]}}}", "a cluster's name has letters"),
        ("clusters: {7: {brokers: {1: [/d]}}}", "a cluster's name has letters"),
        ("clusters: {a: {}}", "clusters.a.brokers: names no broker"),
        ("clusters: {a: {brokers: {one: [/d]}}}", "clusters.a.brokers.one: a broker's id is a number"),
        ("clusters: {a: {brokers: {-1: [/d]}}}", "a broker's id is a number"),
        ("clusters: {a: {brokers: {1: []}}}", "clusters.a.brokers.1.log_dirs: a list of directories"),
        ("clusters: {a: {brokers: {1: [data]}}}", "clusters.a.brokers.1.log_dirs: absolute paths"),
        ("clusters: {a: {brokers: {1: [/d, /d]}}}", "names a directory twice"),
        ("clusters: {a: {brokers: {1: {log_dir: [/d]}}}}", "'log_dir' means nothing here. Is log_dirs meant?"),
        ("clusters: {a: {mode: header, brokers: {1: [/d]}}}", "clusters.a.mode: full or headers, not 'header'"),
        ("clusters: {a: {out: data, brokers: {1: [/d]}}}", "clusters.a.out: an absolute path or a URL"),
        ("clusters: {a: {max_mb_per_s: 0, brokers: {1: [/d]}}}", "clusters.a.max_mb_per_s: a number of megabytes"),
        ("clusters: {a: {hash_topics: yes please, brokers: {1: [/d]}}}", "hash_topics: true or false"),
        ("clusters: {a: {mode: headers, hash_topics: true, brokers: {1: [/d]}}}", "hash_key: FILE go together"),
        ("clusters: {a: {hash_topics: true, hash_key: /k, brokers: {1: [/d]}}}", "goes with mode: headers"),
        ("clusters: {a: {client_config: /c, brokers: {1: [/d]}}}", "client_config goes with bootstrap"),
        ("clusters: {a: {bootstrap: [a, b], brokers: {1: [/d]}}}", "clusters.a.bootstrap: a text"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(text, told):
    with pytest.raises(ClustersError, match=re.escape(told)) as raised:
        parsed(text)
    assert str(raised.value).startswith("clusters.yaml")


def test_the_file_is_named_by_the_environment(tmp_path):
    file = tmp_path / "clusters.yaml"
    file.write_text("clusters: {a: {brokers: {1: [/d]}}}")
    given = {"TIDEGAUGE_CLUSTERS": str(file)}
    assert clusters({}).clusters == ()
    assert clusters({**given, "TIDEGAUGE_SNAPSHOTS": "s3://b/x"}).clusters[0].out == "s3://b/x"
    assert clusters({**given, "TIDEGAUGE_HOME": "/opt/tide"}).clusters[0].out == "/opt/tide/snapshots"
    with pytest.raises(ClustersError, match=r"names .*/nowhere, which cannot be read"):
        clusters({"TIDEGAUGE_CLUSTERS": str(tmp_path / "nowhere")})
