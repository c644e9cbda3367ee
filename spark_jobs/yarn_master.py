"""Where YARN's resource manager listens, by the settings that Spark's client would read.

In: the environment's HADOOP_CONF_DIR and YARN_CONF_DIR. Out: addresses. These are the places that the client would ask
(YarnConfiguration#getRMAddress, HAUtil), since whoever asks another place learns nothing: with the defaults it asks for
a quarter of an hour before it gives up.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tidegauge.runs.errors import SparkError

_DIRECTORIES: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
"""In the order in which Spark's launcher puts them on the class path (AbstractCommandBuilder)."""
_SITE: Final = "yarn-site.xml"
_PREFIX: Final = "yarn.resourcemanager"
_PORT: Final = 8032
_VARIABLE: Final = re.compile(r"\$\{([^{}$\s]+)\}")
_DEEPEST: Final = 20
"""How often Hadoop replaces variables by values that hold variables (Configuration#MAX_SUBST)."""


def resource_managers(environ: Mapping[str, str]) -> list[tuple[str, int]]:
    """Hosts and ports: one, or each of a highly available pair. Raises `SparkError`."""
    folders = [environ[name] for name in _DIRECTORIES if environ.get(name)]
    if not folders:
        raise SparkError(
            "Where YARN is, this machine does not say: neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set. Set one of "
            f"them to the directory that holds the cluster's {_SITE}, then run the same again."
        )
    settings = next((_read(site) for site in (Path(folder, _SITE) for folder in folders) if site.is_file()), {})
    return list(_addresses(settings))


def _addresses(settings: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    ids = [one.strip() for one in _value(settings, f"{_PREFIX}.ha.rm-ids").split(",") if one.strip()]
    pair = _value(settings, f"{_PREFIX}.ha.enabled").strip().lower() == "true"
    for suffix in [f".{one}" for one in ids] if pair and ids else [""]:
        hostname = _value(settings, f"{_PREFIX}.hostname{suffix}").strip() or "0.0.0.0"  # noqa: S104 - YARN's default
        told = _value(settings, f"{_PREFIX}.address{suffix}").strip() or f"{hostname}:{_PORT}"
        host, _, port = told.rpartition(":")
        if not host:
            yield told, _PORT
        elif port.isdecimal():
            yield host.strip("[]"), int(port)


def _read(site: Path) -> Mapping[str, str]:
    try:
        properties = ElementTree.parse(site).getroot().iter("property")  # noqa: S314 - the user's own settings
        return {(p.findtext("name") or "").strip(): p.findtext("value") or "" for p in properties}
    except (OSError, ElementTree.ParseError) as error:
        raise SparkError(
            f"{site} cannot be read ({error}). It tells where YARN is: mend it, then run the same again."
        ) from error


def _value(settings: Mapping[str, str], name: str) -> str:
    """With its variables replaced by other settings; one that nobody set stays as it is."""
    value = settings.get(name, "")
    for _ in range(_DEEPEST):
        replaced = _VARIABLE.sub(lambda found: settings.get(found[1], found[0]), value)
        if replaced == value:
            break
        value = replaced
    return value
