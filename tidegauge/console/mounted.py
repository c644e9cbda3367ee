"""Behind a proxy that serves the console below a path of its own: `X-Forwarded-Prefix` in, a root path out.

The rule that must hold: only a plain path is believed, and it changes nothing but the addresses in this one answer. A
page of another site cannot make a browser send the header, so nobody is led elsewhere by it.
"""

import re
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

_PREFIX: Final = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*){1,8}")


class Mounted:
    """Takes the prefix for this request's root path, as if the server had been started with `--root-path`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and not scope.get("root_path"):
            prefix = Headers(scope=scope).get("x-forwarded-prefix", "")
            if len(prefix) <= 200 and _PREFIX.fullmatch(prefix):
                scope = {**scope, "root_path": prefix, "path": prefix + scope["path"]}
        await self._app(scope, receive, send)
