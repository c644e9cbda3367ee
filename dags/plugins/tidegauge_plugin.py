"""Tidegauge inside Airflow: the console and the data docs in its navigation, and on a DAG run its report.

In: a request of somebody who is logged in to Airflow. Out: what the console at `TIDEGAUGE_CONSOLE_URL` answers, so that
the console itself asks for no password and can stay on a loopback or cluster-internal address. To install it, put this
file into Airflow's `plugins` folder (`AIRFLOW__CORE__PLUGINS_FOLDER` may name the folder it lies in) and set
`TIDEGAUGE_CONSOLE_URL` for the API server. It imports nothing of Tidegauge. Where the API server and the console are
given one secret, `TIDEGAUGE_CONSOLE_AIRFLOW_TOKEN`, the console believes it about who is logged in.

The rules that must hold: nobody sees anything whom Airflow would not show the DAG `replication_audit`, and nobody
acknowledges a breach who may not edit that DAG; only the console's own addresses are asked for, whatever comes in; of
what a browser sends along, the console gets nothing that is Airflow's but the user's name, and the other way round;
nobody is vouched for whom Airflow did not ask for a password.
"""

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote, urlsplit

import httpx
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.configuration import conf
from airflow.listeners import hookimpl
from airflow.models.xcom import XComModel
from airflow.plugins_manager import AirflowPlugin
from fastapi import Depends, FastAPI, HTTPException, Request
from sqlalchemy.orm import object_session
from starlette.background import BackgroundTask
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

_LOG: Final = logging.getLogger(__name__)

PREFIX: Final = "/tidegauge"
_DAG: Final = "replication_audit"
_ADHOC: Final = "replication_audit_adhoc"
_CATEGORY: Final = "browse"
_COOKIE: Final = "tidegauge_form"
_SEGMENT: Final = re.compile(r"[A-Za-z0-9._~-]+")
_ACKNOWLEDGING: Final = re.compile(r"clusters/[^/]+/breaches/[^/]+")
_LONGEST_FORM: Final = 16_384
_LONGEST_NOTE: Final = 1000
"""Characters, as Airflow's table has them."""
_PATIENCE_S: Final = 60.0
_ASKED: Final = ("accept", "accept-language", "content-type", "if-none-match", "origin", "sec-fetch-site", "user-agent")
_ANSWERED: Final = (
    "cache-control", "content-disposition", "content-security-policy", "content-type", "cross-origin-opener-policy",
    "cross-origin-resource-policy", "etag", "last-modified", "link", "location", "referrer-policy", "retry-after",
    "x-content-type-options",
)  # fmt: skip


async def reader(user: GetUserDep) -> Any:
    """Who asks, if Airflow would show them the DAG."""
    if not get_auth_manager().is_authorized_dag(method="GET", details=DagDetails(id=_DAG), user=user):
        raise HTTPException(403, f"You may not see the DAG {_DAG} here, so not its results either.")
    return user


async def editor(user: Annotated[Any, Depends(reader)]) -> Any:
    """Who asks, if they may edit the DAG."""
    if not get_auth_manager().is_authorized_dag(method="PUT", details=DagDetails(id=_DAG), user=user):
        raise HTTPException(403, f"Acknowledging a breach takes the right to edit the DAG {_DAG}.")
    return user


class Console:
    """The way to the console. Connections are kept per event loop, of which an API server's worker has one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._clients: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}

    async def ask(self, method: str, path: str, request: Request, user: Any, body: bytes = b"") -> Response:
        """Passes a request of `user`'s on, and what comes back."""
        place = (self._environ.get("TIDEGAUGE_CONSOLE_URL") or "").rstrip("/")
        if urlsplit(place).scheme not in ("http", "https"):
            return _told(503, "TIDEGAUGE_CONSOLE_URL is not set for Airflow's API server: where is the console?")
        try:
            vouched = _vouched(self._environ, user, request)
        except OSError as error:
            _LOG.warning("TIDEGAUGE_CONSOLE_AIRFLOW_TOKEN names a file that cannot be read: %s", error)
            return _told(503, "TIDEGAUGE_CONSOLE_AIRFLOW_TOKEN names a file that Airflow's API server cannot read.")
        query = request.scope["query_string"].decode("ascii", "replace")
        client = self._client()
        asked = client.build_request(
            method,
            f"{place}/{path}" + (f"?{query}" if query else ""),
            headers=[*_headers(request), *vouched],
            content=body,
        )
        try:
            answer = await client.send(asked, stream=True)
        except httpx.HTTPError as error:
            return _told(502, f"The console does not answer ({type(error).__name__}). Is it running?")
        passed = StreamingResponse(
            _bytes(answer), status_code=answer.status_code, background=BackgroundTask(answer.aclose)
        )
        del passed.headers["content-type"]
        for name, value in answer.headers.multi_items():
            is_ours = name == "set-cookie" and value.startswith(f"{_COOKIE}=")
            if name in _ANSWERED or is_ours:
                passed.headers.append(name, value)
        return passed

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = httpx.AsyncClient(
                timeout=_PATIENCE_S, follow_redirects=False, trust_env=False, headers={"accept-encoding": "identity"}
            )
        return self._clients[loop]


async def _bytes(answer: httpx.Response) -> AsyncIterator[bytes]:
    # What breaks off half-way ends there: the status is with the browser already.
    with suppress(httpx.HTTPError):
        async for piece in answer.aiter_raw():
            yield piece


def _headers(request: Request) -> list[tuple[str, str]]:
    """What the console hears of a request: no cookie and no token of Airflow's."""
    headers = [(name, request.headers[name]) for name in _ASKED if name in request.headers]
    headers.append(("x-forwarded-host", request.headers.get("host", "")))  # Host is the console's own name.
    headers.append(("x-forwarded-proto", request.url.scheme))
    headers.append(("x-forwarded-prefix", request.scope.get("root_path", "")))
    if token := request.cookies.get(_COOKIE):
        headers.append(("cookie", f"{_COOKIE}={token}"))
    return headers


def _vouched(environ: Mapping[str, str], user: Any, request: Request) -> list[tuple[str, str]]:
    """Who asks, and the secret by which the console believes it. Raises `OSError` for a file that cannot be read."""
    token = environ.get("TIDEGAUGE_CONSOLE_AIRFLOW_TOKEN") or ""
    if token.startswith("@"):
        token = Path(token[1:]).expanduser().read_text(encoding="utf-8").strip()
    if not token:
        return []
    headers = [("x-tidegauge-airflow-token", token)]
    if request.client is not None:
        headers.append(("x-forwarded-for", request.client.host))
    if not _is_anybody(user):
        headers.append(("x-tidegauge-user", quote(user.get_name(), safe="")))
    return headers


def _is_anybody(user: Any) -> bool:
    """Whether Airflow lets in whoever comes, under this name: SimpleAuthManager with `simple_auth_manager_all_admins`,
    and the anonymous user of the FAB provider's AUTH_ROLE_PUBLIC.
    """
    if isinstance(user, SimpleAuthManagerUser):
        return bool(conf.getboolean("core", "simple_auth_manager_all_admins"))
    return bool(getattr(user, "is_anonymous", False))


def _told(status: int, words: str) -> Response:
    return HTMLResponse(f"<!doctype html><title>Tidegauge</title><p>{words}</p>", status_code=status)


def is_address(path: str) -> bool:
    """Whether the console could have such an address: plain segments, none of which leads up."""
    segments = path.removesuffix("/").split("/") if path else []
    return all(_SEGMENT.fullmatch(s) and s.strip(".") for s in segments)


def create_app(environ: Mapping[str, str]) -> FastAPI:
    """What is mounted at `PREFIX`."""
    console = Console(environ)
    app = FastAPI(title="Tidegauge", openapi_url=None, docs_url=None, redoc_url=None)

    @app.get("/of-run/{dag_id}/{run_id}", dependencies=[Depends(reader)])
    async def of_run(dag_id: str, run_id: str, request: Request) -> Response:
        """A DAG run's report."""
        folder = re.sub(r"[:+/]", "-", run_id)
        if dag_id == _ADHOC:
            folder = f"adhoc-{folder}"
        written = "".join(c if re.fullmatch(r"[A-Za-z0-9._-]", c) else _escaped(c) for c in folder)
        return RedirectResponse(f"{request.scope.get('root_path', '')}/data-docs/of/{written}", status_code=307)

    @app.api_route("/{path:path}", methods=["GET", "HEAD"])
    async def show(path: str, request: Request, user: Annotated[Any, Depends(reader)]) -> Response:
        """A page of the console."""
        if not is_address(path):
            raise HTTPException(404, "The console has no such address.")
        return await console.ask(request.method, path, request, user)

    @app.post("/{path:path}")
    async def acknowledge(path: str, request: Request, user: Annotated[Any, Depends(editor)]) -> Response:
        """The one form of the console."""
        if not is_address(path) or not _ACKNOWLEDGING.fullmatch(path):
            raise HTTPException(404, "The console takes no form at this address.")
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > _LONGEST_FORM:
                raise HTTPException(413, "The form is too long.")
        return await console.ask("POST", path, request, user, body)

    return app


def _escaped(character: str) -> str:
    return "".join(f"~{byte:02x}" for byte in character.encode())


_APPS: Final = [{"app": create_app(os.environ), "url_prefix": PREFIX, "name": "Tidegauge console"}]
_VIEWS: Final = [
    {
        "name": "Tidegauge",
        "href": f"{PREFIX}/",
        "destination": "nav",
        "category": _CATEGORY,
        "url_route": "tidegauge",
    },
    {
        "name": "Tidegauge data docs",
        "href": f"{PREFIX}/data-docs",
        "destination": "nav",
        "category": _CATEGORY,
        "url_route": "tidegauge-data-docs",
    },
    {
        "name": "Report",
        "href": f"{PREFIX}/of-run/{{DAG_ID}}/{{RUN_ID}}",
        "destination": "dag_run",
        "url_route": "tidegauge-report",
    },
]


class VerdictNote:
    """Puts the verdicts of a run's audits on the run as its note, so that the grid shows what a green run found.

    The scheduler calls it with the run and its session. A note that somebody wrote stays.
    """

    @hookimpl
    def on_dag_run_success(self, dag_run: Any, msg: str) -> None:
        """See `airflow.listeners.spec.dagrun`."""
        _note(dag_run)

    @hookimpl
    def on_dag_run_failed(self, dag_run: Any, msg: str) -> None:
        """The same: of several clusters some may have been judged."""
        _note(dag_run)


def _note(dag_run: Any) -> None:
    session = object_session(dag_run)
    if dag_run.dag_id not in (_DAG, _ADHOC) or session is None or dag_run.note:
        return
    wanted = XComModel.get_many(run_id=dag_run.run_id, key="verdict", dag_ids=dag_run.dag_id, task_ids="publish")
    verdicts = [str(line) for found in session.scalars(wanted) for line in XComModel.deserialize_value(found)]
    if verdicts:
        dag_run.note = "\n".join(sorted(verdicts))[:_LONGEST_NOTE]


_LISTENERS: Final[list[object]] = [VerdictNote()]


class TidegaugePlugin(AirflowPlugin):
    """What Airflow loads."""

    name = "tidegauge"
    listeners = _LISTENERS
    fastapi_apps = _APPS
    external_views = _VIEWS
