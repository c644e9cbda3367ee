"""How a client reaches a cluster: a Java client's properties file, or librdkafka's, as both our clients need it.

In: the text of the file. Out: `ClientConfig`: librdkafka's properties for confluent-kafka, keyword arguments for
kafka-python. The rule that must hold: a value is never shown, neither in an error nor by `repr`: some are passwords.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidegauge.snapshots.errors import SnapshotError

_JAVA_NAMES: Final[Mapping[str, str]] = {
    "ssl.truststore.location": "ssl.ca.location",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
"""A Java client's name of a property -> librdkafka's."""

_OF_OTHER_CLIENTS: Final = re.compile(
    r"bootstrap\.servers|group\.|key\.|value\.|acks$|enable\.|auto\.|default\.api|request\.timeout|retries$|"
    r"ssl\.(truststore|keystore)\.type$|ssl\.truststore\.password$|sasl\.jaas\.config$|max\.poll|isolation\.level$|"
    r"transactional\.id$|linger\.ms$|batch\.size$|compression\.type$"
)
"""What a client's file may say beside how to connect: it is of no use here."""

_KAFKA_PYTHON: Final[Mapping[str, str]] = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}

_JAAS: Final = re.compile(r"\b(username|password)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s;]+))")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """How to reach a cluster. Both hold secrets, so neither is part of its `repr`."""

    librdkafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    kafka_python: Mapping[str, str | bool] = field(default_factory=dict, repr=False)
    only_librdkafka: tuple[str, ...] = ()
    """Names of properties that kafka-python has nothing like: without them it might not get in."""


def read_client_config(path: Path | None) -> ClientConfig:
    """The settings in a file; none, where there is no file. Raises `SnapshotError`."""
    if path is None:
        return ClientConfig()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SnapshotError(f"--client-config {path} cannot be read: {error}.") from error
    return client_config(text, where=str(path))


def client_config(text: str, *, where: str) -> ClientConfig:
    """Reads a properties file. Raises `SnapshotError` for what cannot be used, naming the property, never its value."""
    said: dict[str, str] = {}
    for number, name, value in _properties(text):
        if not name or value is None:
            raise SnapshotError(
                f"{where}, line {number}, is not `name=value`. Write the client's properties as for a Java client "
                "(security.protocol=…, sasl.mechanism=…) or for librdkafka."
            )
        said[name] = value
    used = {_JAVA_NAMES.get(n, n): v for n, v in said.items() if not _OF_OTHER_CLIENTS.match(n)}
    for match in _JAAS.finditer(said.get("sasl.jaas.config", "")):
        quoted, single, bare = match.group(2), match.group(3), match.group(4)
        text_value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else single if single is not None else bare
        used.setdefault(f"sasl.{match.group(1)}", text_value)
    for name in ("truststore", "keystore"):
        if said.get(f"ssl.{name}.type", "").upper() == "JKS" or said.get(f"ssl.{name}.location", "").endswith(".jks"):
            raise SnapshotError(
                f"{where} names a Java key store (ssl.{name}.location), which only Java reads. Export it as PEM and "
                "name that: ssl.ca.location for the trusted certificates, ssl.certificate.location and "
                "ssl.key.location for the client's own."
            )
    checks_host = used.get("ssl.endpoint.identification.algorithm", "https").lower() == "https"
    if "ssl.endpoint.identification.algorithm" in used:
        used["ssl.endpoint.identification.algorithm"] = "https" if checks_host else "none"
    arguments: dict[str, str | bool] = {_KAFKA_PYTHON[n]: v for n, v in used.items() if n in _KAFKA_PYTHON}
    arguments["ssl_check_hostname"] = checks_host
    known = _KAFKA_PYTHON.keys() | {"ssl.endpoint.identification.algorithm"}
    return ClientConfig(
        librdkafka=used,
        kafka_python=arguments,
        only_librdkafka=tuple(sorted(n for n in used.keys() - known if n.startswith(("ssl.", "sasl.")))),
    )


def _properties(text: str) -> Iterator[tuple[int, str, str | None]]:
    """(line number, name, value) of each property; a line that ends in a backslash goes on in the next."""
    whole, begun = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        part = line.strip()
        if not whole:
            begun = number
            if not part or part[0] in "#!":
                continue
        if part.endswith("\\"):
            whole += part[:-1]
            continue
        name, separator, value = _split(whole + part)
        yield begun, name, value if separator else None
        whole = ""
    if whole:
        name, separator, value = _split(whole)
        yield begun, name, value if separator else None


def _split(line: str) -> tuple[str, str, str]:
    match = re.match(r"([^=:\s]*)\s*([=:])\s*(.*)", line)
    return (match.group(1), match.group(2), match.group(3)) if match else (line, "", "")
