"""A client's properties file, as a Java client and as librdkafka know it, for both of our clients."""

import pytest

from tidegauge.snapshots.client_config import ClientConfig, client_config
from tidegauge.snapshots.errors import SnapshotError

JAVA = r"""
# how our clients connect
security.protocol = SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
    username="auditor" \
    password="hush;\"1\"";
ssl.truststore.type=PEM
ssl.truststore.location: /etc/kafka/ca.pem
bootstrap.servers=ignored:9092
group.id=ignored
"""


def test_a_java_clients_file_serves_both_clients() -> None:
    config = client_config(JAVA, where="client.properties")
    assert dict(config.librdkafka) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "auditor",
        "sasl.password": 'hush;"1"',
        "ssl.ca.location": "/etc/kafka/ca.pem",
    }
    assert dict(config.kafka_python) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "auditor",
        "sasl_plain_password": 'hush;"1"',
        "ssl_cafile": "/etc/kafka/ca.pem",
        "ssl_check_hostname": True,
    }
    assert config.only_librdkafka == ()


def test_librdkafkas_own_names_are_taken_as_they_are() -> None:
    config = client_config("sasl.mechanisms=PLAIN\nsasl.username=u\nsasl.password=p=q\n", where="x")
    assert dict(config.librdkafka) == {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p=q"}


def test_a_host_name_that_need_not_match_need_not_match_for_either() -> None:
    config = client_config("ssl.endpoint.identification.algorithm=\n", where="x")
    assert config.librdkafka["ssl.endpoint.identification.algorithm"] == "none"
    assert config.kafka_python["ssl_check_hostname"] is False


def test_what_only_librdkafka_can_do_is_known() -> None:
    config = client_config("ssl.ca.pem=-----BEGIN\nsasl.oauthbearer.method=oidc\n", where="x")
    assert config.only_librdkafka == ("sasl.oauthbearer.method", "ssl.ca.pem")


def test_no_secret_is_shown_by_its_repr_or_by_an_error() -> None:
    assert "hush" not in repr(client_config(JAVA, where="x"))
    for text in ("hush", "a=b\nhush hush", "ssl.keystore.location=/hush.jks\n"):
        with pytest.raises(SnapshotError, match=r"client\.properties") as raised:
            client_config(text, where="client.properties")
        assert "hush" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "# nothing\n\n! at all\n"])
def test_an_empty_file_is_a_plain_connection(text: str) -> None:
    assert client_config(text, where="x") == ClientConfig(kafka_python={"ssl_check_hostname": True})


def test_a_java_key_store_is_refused_with_what_to_do() -> None:
    with pytest.raises(SnapshotError, match=r"Export it as PEM"):
        client_config("ssl.truststore.location=/etc/kafka/trust.jks\n", where="x")
