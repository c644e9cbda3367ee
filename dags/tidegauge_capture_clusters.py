"""Which clusters are captured, and how: the file that `TIDEGAUGE_CLUSTERS` names in, `Clusters` out.

    schedule: "0 3 * * *"                  # of the DAG: a cron expression, a preset, or none (the default)
    clusters:
      prod:                                # the name under which snapshots are kept and results published
        out: s3://backup/kafka             # a directory or a URL; by default TIDEGAUGE_SNAPSHOTS
        bootstrap: kafka-1:9092,kafka-2:9092    # also ask the running cluster
        client_config: /etc/tidegauge/client.properties
        mode: headers                      # full (the default) or headers
        hash_topics: true                  # with mode headers, and a key that all brokers' commands can read
        hash_key: /etc/tidegauge/topics.key
        sign: /etc/tidegauge/capture.pem   # a private key that all brokers' commands can read
        consistency: fuzzy                 # fuzzy (the default), quiesced or atomic
        max_mb_per_s: 50                   # of each broker's disk
        pool: kafka                        # Airflow's pool for all of its tasks
        brokers:
          1: [/var/lib/kafka/a, /var/lib/kafka/b]    # log dirs that the worker can read
          2:
            log_dirs: [/var/lib/kafka/data]
            queue: kafka-2                 # a worker on that broker's machine
          3:
            log_dirs: [/var/lib/kafka/data]
            command: ssh kafka-3 tidegauge # what stands for `tidegauge` where the disks are

A word that means nothing here is an error that names the file, the place and what may stand there, so that a typing
mistake never makes a capture other than the one that was meant.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import yaml

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]+://.", re.IGNORECASE)
_MODES: Final = ("full", "headers")
_CONSISTENCIES: Final = ("fuzzy", "quiesced", "atomic")
_TOP: Final = ("schedule", "clusters")
_CLUSTER: Final = (
    "out", "bootstrap", "client_config", "mode", "hash_topics", "hash_key", "sign", "consistency", "max_mb_per_s",
    "pool", "brokers",
)  # fmt: skip
_BROKER: Final = ("log_dirs", "queue", "command")


class ClustersError(ValueError):
    """The file cannot be used. Says which, where in it, and what may stand there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker: its log dirs as the command sees them, and where that command runs."""

    broker_id: int
    log_dirs: tuple[str, ...]
    queue: str | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One cluster to capture."""

    name: str
    out: str
    brokers: tuple[Broker, ...]
    bootstrap: str | None = None
    client_config: str | None = None
    mode: str = "full"
    hash_key: str | None = None
    sign: str | None = None
    consistency: str = "fuzzy"
    max_mb_per_s: float | None = None
    pool: str | None = None

    def snapshot(self, snapshot_id: str) -> str:
        """Where a snapshot of this id lies."""
        return f"{self.out.rstrip('/')}/{self.name}/{snapshot_id}"

    def share(self, broker: Broker, snapshot_id: str) -> list[str]:
        """The arguments by which one broker's share of a snapshot is captured."""
        limit = () if self.max_mb_per_s is None else ("--max-mb-per-s", f"{self.max_mb_per_s:g}")
        log_dirs = ",".join(broker.log_dirs)
        return [
            *self._place(snapshot_id), "--part", "--broker", f"{broker.broker_id}={log_dirs}",
            "--consistency", self.consistency, *limit,
        ]  # fmt: skip

    def finish(self, snapshot_id: str) -> list[str]:
        """The arguments by which the shares become a snapshot."""
        asked = () if self.bootstrap is None else ("--bootstrap", self.bootstrap)
        config = () if self.client_config is None else ("--client-config", self.client_config)
        return [*self._place(snapshot_id), "--finish", *asked, *config]

    def _place(self, snapshot_id: str) -> list[str]:
        hashed = () if self.hash_key is None else ("--hash-topics", "--hash-key", self.hash_key)
        signed = () if self.sign is None else ("--sign", self.sign)
        return [
            "capture", "--cluster", self.name, "--out", self.out, "--id", snapshot_id, "--mode", self.mode, *hashed,
            *signed,
        ]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """The file's content. `schedule` None: only by hand."""

    schedule: str | None = None
    clusters: tuple[Cluster, ...] = field(default=())


def clusters(environ: Mapping[str, str]) -> Clusters:
    """What `TIDEGAUGE_CLUSTERS` names; nothing where it is not set. Raises `ClustersError`."""
    named = environ.get("TIDEGAUGE_CLUSTERS")
    if not named:
        return Clusters()
    path = Path(named).expanduser()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ClustersError(f"TIDEGAUGE_CLUSTERS names {path}, which cannot be read: {error}.") from error
    return read(text, where=str(path), default_out=snapshots_root(environ))


def read(text: str, *, where: str, default_out: str) -> Clusters:
    """The file's text. Raises `ClustersError`."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ClustersError(f"{where} is not YAML: {' '.join(str(error).split())}") from error
    top = _mapping(value, where, _TOP)
    schedule = _text(top, "schedule", where)
    found = tuple(
        _cluster(name, of_cluster, f"{where}: clusters.{name}", default_out)
        for name, of_cluster in _mapping(top.get("clusters"), f"{where}: clusters", None).items()
    )
    if not found:
        raise ClustersError(f"{where}: clusters names no cluster. Give at least one, with its brokers and log dirs.")
    return Clusters(schedule=None if schedule == "none" else schedule, clusters=found)


def snapshots_root(environ: Mapping[str, str]) -> str:
    """TIDEGAUGE_SNAPSHOTS, else below the home, as `tidegauge` has it."""
    if root := environ.get("TIDEGAUGE_SNAPSHOTS"):
        return root
    return str(Path(environ.get("TIDEGAUGE_HOME") or "~/.local/share/tidegauge").expanduser() / "snapshots")


def _cluster(name: Any, value: Any, where: str, default_out: str) -> Cluster:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ClustersError(
            f"{where}: a cluster's name has letters, digits, dots, dashes and underscores: not {name!r}."
        )
    given = _mapping(value, where, _CLUSTER)
    mode = _one_of(given, "mode", _MODES, where)
    hash_key = _path(given, "hash_key", where)
    hash_topics = given.get("hash_topics", False)
    if not isinstance(hash_topics, bool):
        raise ClustersError(f"{where}.hash_topics: true or false, not {hash_topics!r}.")
    if hash_topics != (hash_key is not None):
        raise ClustersError(
            f"{where}: hash_topics: true and hash_key: FILE go together, since every broker's share needs the same key."
        )
    if hash_topics and mode != "headers":
        raise ClustersError(f"{where}.hash_topics goes with mode: headers; a full copy holds the records themselves.")
    out = _text(given, "out", where) or default_out
    if not _URL.match(out) and not Path(out).is_absolute():
        raise ClustersError(f"{where}.out: an absolute path or a URL, not {out!r}.")
    bootstrap, client_config = _text(given, "bootstrap", where), _path(given, "client_config", where)
    if client_config is not None and bootstrap is None:
        raise ClustersError(f"{where}.client_config goes with bootstrap, which is not there.")
    return Cluster(
        name=name,
        out=out,
        brokers=_brokers(given.get("brokers"), f"{where}.brokers"),
        bootstrap=bootstrap,
        client_config=client_config,
        mode=mode,
        hash_key=hash_key,
        sign=_path(given, "sign", where),
        consistency=_one_of(given, "consistency", _CONSISTENCIES, where),
        max_mb_per_s=_rate(given.get("max_mb_per_s"), f"{where}.max_mb_per_s"),
        pool=_text(given, "pool", where),
    )


def _brokers(value: Any, where: str) -> tuple[Broker, ...]:
    found = []
    for broker_id, of_broker in _mapping(value, where, None).items():
        at = f"{where}.{broker_id}"
        if not isinstance(broker_id, int) or isinstance(broker_id, bool) or broker_id < 0:
            raise ClustersError(f"{at}: a broker's id is a number, its node.id: not {broker_id!r}.")
        given = {"log_dirs": of_broker} if isinstance(of_broker, list | str) else _mapping(of_broker, at, _BROKER)
        log_dirs = given.get("log_dirs")
        listed = [log_dirs] if isinstance(log_dirs, str) else log_dirs
        if not isinstance(listed, list) or not listed:
            raise ClustersError(f"{at}.log_dirs: a list of directories, as in the broker's log.dirs.")
        for directory in listed:
            if not isinstance(directory, str) or not directory.startswith("/") or "," in directory:
                raise ClustersError(f"{at}.log_dirs: absolute paths without commas, not {directory!r}.")
        if len(set(listed)) != len(listed):
            raise ClustersError(f"{at}.log_dirs names a directory twice.")
        found.append(
            Broker(
                broker_id=broker_id,
                log_dirs=tuple(listed),
                queue=_text(given, "queue", at),
                command=_text(given, "command", at),
            )
        )
    if not found:
        raise ClustersError(f"{where}: names no broker. Give each broker's id and its log dirs.")
    return tuple(found)


def _mapping(value: Any, where: str, known: tuple[str, ...] | None) -> Mapping[Any, Any]:
    if value is None and known is None:
        return {}
    if not isinstance(value, dict):
        raise ClustersError(f"{where}: names and their values belong here, not {value!r}.")
    for key in value:
        if known is not None and key not in known:
            near = get_close_matches(str(key), known, n=1)
            hint = f" Is {near[0]} meant?" if near else ""
            raise ClustersError(f"{where}: {key!r} means nothing here.{hint} Known are {', '.join(known)}.")
    return value


def _text(given: Mapping[str, Any], key: str, where: str) -> str | None:
    value = given.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise ClustersError(f"{where}.{key}: a text, not {value!r}.")
    return value.strip()


def _path(given: Mapping[str, Any], key: str, where: str) -> str | None:
    path = _text(given, key, where)
    if path is not None and not path.startswith("/"):
        raise ClustersError(f"{where}.{key}: an absolute path, not {path!r}.")
    return path


def _one_of(given: Mapping[str, Any], key: str, words: tuple[str, ...], where: str) -> str:
    value = given.get(key, words[0])
    if value not in words:
        raise ClustersError(f"{where}.{key}: {' or '.join(words)}, not {value!r}.")
    return str(value)


def _rate(value: Any, where: str) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        raise ClustersError(f"{where}: a number of megabytes above 0, not {value!r}.")
    return float(value)
