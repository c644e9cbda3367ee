"""Everything to look at, on this machine: a directory for state in, Airflow and the console running until Ctrl-C.

    embedded Postgres -> console (with the data docs of every run) -> Airflow -> where the store is empty, one audit

It works in the home that every command has, so what `tidegauge demo` and `tidegauge audit` found is there already. What
is started here is stopped here, however it ends.
"""

import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Final

from tidegauge import settings, store
from tidegauge.cli import demo
from tidegauge.console import server as console
from tidegauge.console.callers import trust_of_settings
from tidegauge.embedded import airflow, postgres
from tidegauge.embedded.airflow import Airflow
from tidegauge.embedded.announced import RunningProcess, announced
from tidegauge.embedded.store_in_use import store_words

_HOST: Final = "127.0.0.1"
_CHECK_S: Final = 1.0


def up(port: int, say: Callable[[str], None]) -> None:
    """Starts everything, says where it is, and stays until it is interrupted. Raises `UnavailableError`, `StoreError`,
    and `KeyboardInterrupt` as the way to end it.
    """
    previous = signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        _up(settings.home(), port, say)
    finally:
        signal.signal(signal.SIGTERM, previous)


def _up(state: Path, port: int, say: Callable[[str], None]) -> None:
    say(f"store      {store_words(settings.store_url())}")
    with airflow.alone(state / "airflow"), postgres.running(state / "postgres") as server:
        url = settings.store_url() or server.ensure_database("tidegauge")
        store.migrate(url)
        framed_by = (f"http://{_HOST}:*", *settings.console_framed_by())
        trust = trust_of_settings()
        token = trust.airflow_token or secrets.token_urlsafe(32)
        trust = replace(trust, airflow_token=token)
        with console.running(
            url, host=_HOST, port=port, docs=(state / "runs",), framed_by=framed_by, trust=trust
        ) as address:
            say(f"console    {address}/")
            say(f"data docs  {address}/data-docs")
            environ = {
                **demo.task_environment(state, store_url=url, schedule=settings.schedule_of_up()),
                "TIDEGAUGE_CONSOLE_URL": address,
                "TIDEGAUGE_CONSOLE_AIRFLOW_TOKEN": token,
            }
            with (
                demo.airflow_of(server, state, environ, say) as scheduler,
                announced(state, list(_processes(address, scheduler))),
            ):
                scheduler.wait_for(demo.DAG)
                user, password = scheduler.login
                say(f"airflow    {scheduler.url}/  user {user}, password {password}")
                if _is_empty(url):
                    say("The store holds no run yet: auditing the capture that ships with the project.")
                    demo.audit_shipped(scheduler, state, say)
                say("Ctrl-C stops it all.")
                while True:
                    scheduler.check_alive()
                    time.sleep(_CHECK_S)


def _processes(console_address: str, scheduler: Airflow) -> Iterator[RunningProcess]:
    """What `tidegauge status` tells of."""
    yield RunningProcess(name="console", pid=os.getpid(), address=f"{console_address}/")
    for name, pid in scheduler.pids.items():
        yield RunningProcess(name=f"airflow-{name}", pid=pid, address=f"{scheduler.url}/")


def _is_empty(url: str) -> bool:
    with store.connect(url, "be looked at") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM tidegauge.v_run LIMIT 1")
        return cursor.fetchone() is None


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
