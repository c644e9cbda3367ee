"""uv, told what pip is told: which index, whose certificates, through which proxy.

In: uv's arguments, and what `pip config list` says (pip's files and PIP_* variables). Out: uv in this process's place.
A company that has set pip up for its proxy and its mirror has done so for `make` too; uv reads none of it. A variable
of uv's own that is set already stays. This file runs before anything is installed, so it imports nothing of ours.

    python tools/uv.py pip sync requirements.txt
"""

import ast
import os
import ssl
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SECTIONS: Final = ("global", "install", ":env:")
"""Of pip's settings, those of any command, those of `pip install`, and PIP_* variables: the later one counts."""
VARIABLES: Final = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
    "keyring-provider": "UV_KEYRING_PROVIDER",
}
"""What pip's setting is to uv. pip separates the values of a list by white space, uv by a space."""
PROXIES: Final = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "https_proxy", "http_proxy")


def pip_settings(listed: str) -> dict[str, str]:
    """Setting -> value, of what `pip config list` prints: a line `section.setting='value'` each."""
    found: dict[str, str] = {}
    of_section: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for line in listed.splitlines():
        name, equals, value = line.partition("=")
        section, dot, setting = name.rpartition(".")
        if equals and dot and section in of_section:
            of_section[section][setting] = str(ast.literal_eval(value))
    for section in SECTIONS:
        found |= of_section[section]
    return found


def uv_variables(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """What is to be added to the environment for uv."""
    added = {VARIABLES[name]: " ".join(value.split()) for name, value in settings.items() if name in VARIABLES}
    if "UV_FIND_LINKS" in added:
        added["UV_FIND_LINKS"] = added["UV_FIND_LINKS"].replace(" ", ",")
    if "UV_INDEX" in added:
        # As pip: a wheel of any index will do. Our requirements have hashes, so no index can slip in another one.
        added["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    if added.get("UV_KEYRING_PROVIDER") not in (None, "subprocess"):
        del added["UV_KEYRING_PROVIDER"]  # uv knows no other one.
    if any(environ.get(name) for name in PROXIES):
        added.pop("ALL_PROXY", None)
    if "SSL_CERT_FILE" not in added and _system_has_certificates():
        added["UV_SYSTEM_CERTS"] = "true"
    kept = {name for name in added if name.startswith("UV_") and environ.get(name)}
    return {name: value for name, value in added.items() if name not in kept}


def _system_has_certificates() -> bool:
    """Some small images have none; uv's own are better than nothing there."""
    paths = ssl.get_default_verify_paths()
    there = paths.cafile is not None or (paths.capath is not None and bool(os.listdir(paths.capath)))
    return there or sys.platform == "darwin"


def main(arguments: list[str]) -> None:
    """Does not come back."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    settings = pip_settings(listed)
    uv = str(Path(sys.executable).parent / "uv")
    if settings.get("no-index", "").lower() in {"1", "true", "yes", "on"}:
        arguments = [*arguments, "--no-index"]
    os.execve(uv, [uv, *arguments], {**os.environ, **uv_variables(settings, os.environ)})  # noqa: S606  # no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
