"""Behind a proxy that serves the console below a path of its own, or over TLS: `X-Forwarded-Prefix` and
`X-Forwarded-Proto` in, a root path and a scheme out.

The rule that must hold: only a plain path is believed, and it changes nothing but the addresses in this one answer; the
scheme, nothing but whether its cookie is for TLS alone. A page of another site cannot make a browser send the headers,
so nobody is led elsewhere by them.
"""

import re
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

_PREFIX: Final = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*){1,8}")


class Mounted:
    """Takes the prefix for this request's root path, as if the server had been started with `--root-path`, and the
    scheme for its own.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and Headers(scope=scope).get("x-forwarded-proto", "").strip() == "https":
            scope = {**scope, "scheme": "https"}
        if scope["type"] == "http" and not scope.get("root_path"):
            prefix = Headers(scope=scope).get("x-forwarded-prefix", "")
            if len(prefix) <= 200 and _PREFIX.fullmatch(prefix):
                scope = {**scope, "root_path": prefix, "path": prefix + scope["path"]}
        await self._app(scope, receive, send)
