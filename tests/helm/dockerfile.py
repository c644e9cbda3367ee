"""Runs a Dockerfile's steps without Docker: the repository in, a directory out in which they were done.

The context is what git tracks and `.dockerignore` lets through. Every path below `/opt`, `/var`, `/tmp` or `/etc` that
a step names lies in the directory instead. What changes a system (packages of a distribution, users, owners) is written
down and not done, so that no step needs root.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_OF_A_SYSTEM: Final = ("apt-get", "useradd", "chown", "chgrp")
_OURS: Final = re.compile(r"(?<![\w./$}-])/(?=(?:opt|var|tmp|etc)/)")
_OF_THE_NETWORK: Final = ("PIP_", "UV_", "SSL_", "REQUESTS_", "CURL_", "HTTP_", "HTTPS_", "NO_PROXY", "http_", "https_")
"""How variables begin by which this machine reaches its packages."""


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """A Dockerfile's: the word in capitals, and what follows it."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in lines.replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest.strip()


def let_through(names: list[str], ignored: str) -> list[str]:
    """Those of a context's files that an ignore file keeps: of the patterns that fit, the last one decides."""
    patterns = [line.strip() for line in ignored.splitlines() if line.strip() and not line.startswith("#")]
    rules = [(_pattern(each.removeprefix("!")), each.startswith("!")) for each in patterns]

    def kept(name: str) -> bool:
        return next((keeps for rule, keeps in reversed(rules) if rule.match(name)), True)

    return [name for name in names if kept(name)]


def _pattern(glob: str) -> re.Pattern[str]:
    """As Docker reads it: from the context's root, `**` for any number of folders, and all that is below."""
    parts = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", glob.strip("/"))
    return re.compile("".join(parts.get(piece, re.escape(piece)) for piece in pieces) + "(?:/|$)")


@dataclass(slots=True, kw_only=True)
class Image:
    """What the steps make: the root of its files, its environment, its entry point, and what it asks of a system."""

    root: Path
    arguments: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    work_dir: Path = field(default_factory=Path)
    entry_point: list[str] = field(default_factory=list)
    user: str = "root"
    asked_of_the_system: Path = field(default_factory=Path)

    def here(self, text: str) -> str:
        """A text in which paths are those of this machine."""
        python = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return re.sub(r"python3\.\d+(?=/)", python, _OURS.sub(f"{self.root}/", text))

    def run(self, command: list[str], *, into: Path | None = None) -> subprocess.CompletedProcess[str]:
        """A command in a container of it."""
        return subprocess.run(
            command, cwd=into or self.work_dir, env=self._told(), text=True, capture_output=True, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def _told(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name.startswith((*_OF_THE_NETWORK, "JAVA_HOME"))}
        base = {"PATH": f"{self.root}/usr/local/bin:/usr/local/bin:/usr/bin:/bin", "HOME": os.environ["HOME"]}
        told = {**kept, **base, **self.arguments, **self.environment}
        return told | {"PATH": f"{self.root}/system:{told['PATH']}"}


def build(repository: Path, dockerfile: str, root: Path, arguments: Mapping[str, str]) -> Image:
    """Every step in order. Raises `AssertionError` with what a step said that failed."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=True)
    names = [name for name in listed.stdout.split("\0") if name]
    context = root.with_name(f"{root.name}-context")
    for name in let_through(names, (repository / ".dockerignore").read_text()):
        _copy(repository / name, context / name)
    image, stages, name = Image(root=root), dict[str, Path](), ""
    for word, rest in instructions((repository / dockerfile).read_text()):
        if word == "FROM":
            if root.exists():  # Programs know by what path they were installed, so each stage lies at the same one.
                stages[name] = root.rename(root.with_name(f"{root.name}-{name}"))
            image, name = _stage(root), rest.partition(" AS ")[2]
        else:
            _step(image, word, rest, context, stages, arguments)
    return image


def _stage(root: Path) -> Image:
    """A base image: a Python, and the programs that would change a system."""
    image = Image(root=root, work_dir=root, asked_of_the_system=root / "system" / "asked")
    subprocess.run([sys.executable, "-m", "venv", root / "usr" / "local"], check=True)
    (root / "tmp").mkdir()
    for command in _OF_A_SYSTEM:
        script = root / "system" / command
        script.parent.mkdir(exist_ok=True)
        script.write_text(f'#!/bin/sh\necho {command} "$@" >> {image.asked_of_the_system}\n')
        script.chmod(0o755)
    return image


def _step(
    image: Image, word: str, rest: str, context: Path, stages: Mapping[str, Path], arguments: Mapping[str, str]
) -> None:
    match word:
        case "ARG":
            name, _, default = rest.partition("=")
            image.arguments[name] = arguments.get(name, default.strip('"'))
        case "ENV":
            for setting in shlex.split(rest):
                name, _, value = setting.partition("=")
                image.environment[name] = image.here(value)
        case "WORKDIR":
            image.work_dir = Path(image.here(f"{rest}/"))
            image.work_dir.mkdir(parents=True, exist_ok=True)
        case "USER":
            image.user = rest
        case "ENTRYPOINT":
            image.entry_point = [image.here(each) for each in json.loads(rest)]
        case "COPY":
            words = rest.split()
            stage = words[0].removeprefix("--from=") if words[0].startswith("--from=") else None
            source = context if stage is None else stages[stage]
            *taken, target = [each for each in words if not each.startswith("--")]
            for each in taken:
                _brought(source / each.lstrip("/"), image, target)
        case "RUN":
            done = image.run(["/bin/sh", "-c", image.here(rest)])
            assert done.returncode == 0, f"RUN {rest}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        case _:
            raise AssertionError(f"{word} is an instruction that this module does not know.")


def _brought(source: Path, image: Image, target: str) -> None:
    """A folder's content, or a file under its own name or the target's."""
    into = Path(image.here(target)) if target.startswith("/") else image.work_dir / target
    if source.is_dir():
        _copy(source, into)
    else:
        _copy(source, into / source.name if target.endswith("/") else into)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, copy_function=_linked)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def _linked(source: str, target: str) -> None:
    """The same file under another name: an environment has 1.5 GB."""
    Path(target).unlink(missing_ok=True)  # A step may bring it once more: it must not write into what it was linked to.
    os.link(source, target)
