"""Whether a Spark master can be reached, before a JVM is started to ask it for a minute.

In: a master as spark-submit takes it. Out: nothing, or a `SparkError` of one sentence. Where `yarn` is stands in
Hadoop's own settings (`yarn_master`); of a name that is none Spark has more to say.
"""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

from tidegauge.runs.errors import SparkError
from tidegauge.spark_jobs.yarn_master import resource_managers

CONNECT_S: Final = 10
"""Seconds that all addresses of a master together get to take a connection."""
REGISTER_S: Final = 25
"""Seconds that a standalone master gets to take an application, from before the JVM asks. Spark itself asks three times
and waits 20 s each time (StandaloneAppClient).
"""

_PORTS: Final = {"http": 80, "https": 443}
_NEXT: Final = "See that it runs there and that nothing between keeps you from it, then run the same again."


def addresses(master: str) -> list[tuple[str, int]]:
    """Hosts and ports of `spark://host:port,…`, of `k8s://https://host:port`, or of YARN by this machine's settings;
    none of any other. Raises `SparkError` where those settings are missing or no XML.
    """
    if master == "yarn":
        return resource_managers(os.environ)
    scheme, _, rest = master.partition("://")
    urls = {
        "spark": [f"spark://{one}" for one in rest.split(",")],
        "k8s": [rest if "://" in rest else f"https://{rest}"],
    }.get(scheme, [])
    found = []
    for url in urls:
        try:
            parts = urlsplit(url)
            port = parts.port or _PORTS.get(parts.scheme)
        except ValueError:
            continue
        if parts.hostname and port:
            found.append((parts.hostname, port))
    return found


def must_answer(master: str) -> None:
    """Raises `SparkError` if nothing takes a connection at any of a master's addresses."""
    known = addresses(master)
    said: dict[str, None] = {}
    for address in known:
        try:
            socket.create_connection(address, timeout=CONNECT_S / len(known)).close()
        except OSError as error:
            said[error.strerror or str(error)] = None
        else:
            return
    if known:
        raise SparkError(f"No Spark master can be reached at {master}: {', '.join(said)}. {_NEXT}")


@contextmanager
def registering(master: str, give_up: Callable[[], None]) -> Iterator[None]:
    """What takes a connection and is no standalone master keeps Spark asking for a minute: within the block `give_up`
    is called when time is up, from another thread, and what comes of it is a `SparkError` that says so.
    """
    if not master.startswith("spark://"):
        yield
        return
    over = threading.Event()

    def end() -> None:
        over.set()
        give_up()

    timer = threading.Timer(REGISTER_S, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if over.is_set():
            raise SparkError(
                f"What answers at {master} took no application within {REGISTER_S} seconds: it is no Spark master, or "
                f"one with another secret. {_NEXT}"
            ) from error
        raise
    finally:
        timer.cancel()
