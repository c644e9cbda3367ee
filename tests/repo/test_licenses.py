"""What is installed may be used and passed on: every pinned package has a permissive licence, or is named here."""

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from tests.repo.test_tidy import pinned_names

PERMISSIVE = (
    "0BSD", "Apache", "BSD", "CC0", "ISC", "LLVM-exception", "MIT", "PSF", "Python Software Foundation", "Unlicense",
    "Zlib",
)  # fmt: skip

EXCEPTIONS = {
    "psycopg2-binary": "LGPL: a library that is used unchanged",
    "certifi": "MPL 2.0: its own files alone, and they are used unchanged",
    "hypothesis": "MPL 2.0: for tests alone",
    "pathspec": "MPL 2.0: its own files alone, and they are used unchanged",
    "text-unidecode": "the Artistic License, of the two that it offers",
    "tqdm": "MPL 2.0 and MIT: its own files alone, and they are used unchanged",
}


def test_every_pinned_package_may_be_used_and_passed_on() -> None:
    wrong = {
        name: told
        for name in pinned_names()
        if (found := _installed(name)) is not None and not _is_permissive(told := _license(found))
    }
    assert wrong.keys() <= EXCEPTIONS.keys(), wrong


def test_a_licence_that_is_not_permissive_is_seen() -> None:
    assert _is_permissive("MIT OR Apache-2.0")
    assert _is_permissive("MIT OR GPL-3.0-only")
    assert not _is_permissive("GPL-3.0-only")
    assert not _is_permissive("MIT AND GPL-3.0-only")
    assert not _is_permissive("")


def _installed(name: str) -> Distribution | None:
    """None for a package of another system or another Python."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _license(found: Distribution) -> str:
    metadata = found.metadata
    classifiers = [c.split(" :: ")[-1] for c in metadata.get_all("Classifier") or [] if c.startswith("License ::")]
    told = metadata.get("License-Expression") or " AND ".join(classifiers)
    return told or (metadata.get("License") or "").partition("\n")[0]


def _is_permissive(told: str) -> bool:
    """All that is joined by AND must be; of what is joined by OR, one."""
    parts = [p for p in re.split(r" AND | WITH |, ", told) if p.strip("() ")]
    return bool(parts) and all(any(map(_is_one, part.split(" OR "))) for part in parts)


def _is_one(name: str) -> bool:
    return any(word in name for word in PERMISSIVE) and "GPL" not in name
