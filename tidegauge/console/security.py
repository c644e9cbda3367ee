"""What keeps a page from doing what only its reader may: headers on every answer, and a check of every form.

The rules that must hold: a page runs only the console's own script files, sends forms only to the console and loads
nothing from elsewhere; a form is taken only from a page that this console gave to the same browser.
"""

import hmac
import secrets
from collections.abc import Collection, Mapping, Sequence
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegauge.console.refusal import RefusalError

CSRF_COOKIE: Final = "tidegauge_form"
CSRF_FIELD: Final = "form_token"
DOCS_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)
"""Of data docs, which carry their style in the page and no script at all."""

_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors {ancestors}"
)
_TOKEN_BYTES: Final = 32
_PROBES: Final = frozenset({"/healthz", "/readyz"})


class Hosts:
    """Answers requests alone that name the console by one of its own names, or by an address.

    A page elsewhere may let its own name lead to this machine (DNS rebinding); its scripts would then read, and
    acknowledge, what the reader of that page may. A browser sends that page's name as Host, which is none of ours.
    Probes may ask by any name: their answers tell nothing.
    """

    def __init__(self, app: ASGIApp, *, names: Collection[str]) -> None:
        self._app = app
        self._names = frozenset(name.lower().rstrip(".") for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and scope["path"].removeprefix(scope.get("root_path", "")) not in _PROBES:
            given = Request(scope).headers.get("host", "")
            if not self._is_ours(given):
                answer = PlainTextResponse(
                    "This console is not known by the name that your browser gave as Host. Ask it by its address, or "
                    "have TIDEGAUGE_CONSOLE_HOSTS list the name, or TIDEGAUGE_CONSOLE_URL.\n",
                    status_code=421,
                )
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_ours(self, given: str) -> bool:
        try:
            name = urlsplit(f"//{given}").hostname or ""
        except ValueError:
            return False
        if name.rstrip(".") in self._names:
            return True
        try:
            ip_address(name.partition("%")[0])
        except ValueError:
            return False
        return True


class Headers:
    """Puts the headers on every answer, and gives each browser the token that its forms must bring back."""

    def __init__(self, app: ASGIApp, *, framed_by: Sequence[str] = ()) -> None:
        self._app = app
        self._policy = _POLICY.format(ancestors=" ".join(("'self'", *framed_by)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        known = request.cookies.get(CSRF_COOKIE)
        token = known if known is not None and len(known) >= _TOKEN_BYTES else secrets.token_urlsafe(_TOKEN_BYTES)
        scope.setdefault("state", {})["csrf_token"] = token
        is_static = scope["path"].startswith(f"{scope.get('root_path', '')}/static/")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", self._policy)
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "same-origin"
                headers["Cross-Origin-Opener-Policy"] = "same-origin"
                headers["Cross-Origin-Resource-Policy"] = "same-origin"
                headers["Cache-Control"] = "public, max-age=31536000, immutable" if is_static else "no-store"
                if token != known and headers.get("content-type", "").startswith("text/html"):
                    secure = "; Secure" if scope.get("scheme") == "https" else ""
                    path = scope.get("root_path") or "/"
                    headers.append(
                        "Set-Cookie", f"{CSRF_COOKIE}={token}; Path={path}; HttpOnly; SameSite=Strict{secure}"
                    )
            await send(message)

        await self._app(scope, receive, send_with_headers)


def is_no_browser(request: Request) -> bool:
    """Whether nothing says that a browser sent this form: every one of them says from where it sends. A program that
    gives its token by itself cannot be made to by somebody's page.
    """
    return not any(name in request.headers for name in ("origin", "sec-fetch-site", "referer", "cookie"))


def check_form(request: Request, form: Mapping[str, str]) -> None:
    """Raises `RefusalError` for a form that no page of this console sent."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    # A page of another site cannot make a browser send the header, so none passes for one of the proxy's by it.
    host = request.headers.get("x-forwarded-host") or request.headers.get("host")
    given, known = form.get(CSRF_FIELD, ""), request.cookies.get(CSRF_COOKIE, "")
    from_elsewhere = (site is not None and site != "same-origin") or (
        origin is not None and urlsplit(origin).netloc != host
    )
    if from_elsewhere or len(known) < _TOKEN_BYTES or not hmac.compare_digest(given.encode(), known.encode()):
        raise RefusalError(
            403,
            "Not acknowledged",
            "The form did not come from a page of this console, or its page is old. Load the breach's page again, and "
            "allow the console's cookie; behind a proxy, have it pass on the header Host or X-Forwarded-Host.",
        )
