"""The documentation's site: it is built from the documents as they are, and what is broken in it fails the build."""

import importlib.util
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.docs.shell import ROOT
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.relations import LOSSES, RELATIONS
from tidegauge.settings import VARIABLES


@pytest.fixture(scope="module")
def build_site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "docs" / "build_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def staged(build_site: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pages = tmp_path_factory.mktemp("staged") / "pages"
    build_site.stage(pages)
    return pages


def test_every_page_is_in_the_navigation_once(build_site: ModuleType, staged: Path) -> None:
    navigation = list(paths_in(build_site.settings(staged)["nav"]))
    assert sorted(navigation) == sorted(str(path.relative_to(staged)) for path in staged.rglob("*.md"))


def paths_in(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for below in entry.values() if isinstance(entry, dict) else entry:
            yield from paths_in(below)


def test_every_invariant_has_a_page_with_its_runbook_and_lists_lead_to_it(staged: Path) -> None:
    listed = (staged / "docs" / "invariants" / "README.md").read_text(encoding="utf-8")
    for code, invariant in CATALOGUE.items():
        page = (staged / "docs" / "invariants" / f"{code}-{invariant.name}.md").read_text(encoding="utf-8")
        assert f"| {code} | [{invariant.name}]({code}-{invariant.name}.md)" in listed
        assert "## How it is judged" in page
        assert "## Mitigation" in page


def test_a_link_to_a_runbook_leads_to_the_invariants_page(build_site: ModuleType) -> None:
    text = "[the runbook](../../expectations/invariants/D06_NoCommittedTruncation/runbook.md#mitigation)"
    moved = build_site.to_pages_of(text, Path("docs/guides/audit.md"))
    assert moved == "[the runbook](../invariants/D06-NoCommittedTruncation.md#mitigation)"


def test_a_link_to_source_leads_to_the_page_that_is_made_of_it(build_site: ModuleType) -> None:
    text = "[all](expectations/invariants/), [graph](expectations/implications.py), [new](CONTRIBUTING.md)"
    assert build_site.to_pages_of(text, Path("README.md")) == (
        "[all](docs/invariants/README.md), [graph](docs/invariants/implications.md), [new](CONTRIBUTING.md)"
    )


def test_what_code_says_is_in_the_site_and_not_in_the_repository(build_site: ModuleType, staged: Path) -> None:
    for name, makers in build_site.BUILT.items():
        for make in makers.values():
            lines = "\n".join(make()).strip("\n")
            assert lines in (staged / name).read_text(encoding="utf-8")
            assert lines not in (ROOT / name).read_text(encoding="utf-8")
    for folder, made in build_site.FOLDERS.items():
        tracked = {path.name for path in (ROOT / folder).glob("*.md")} - {"README.md"}
        assert tracked == set()
        assert {path.name for path in (staged / folder).glob("*.md")} >= dict(made()).keys()


def test_every_setting_and_every_column_is_in_the_reference(staged: Path) -> None:
    reference = staged / "docs" / "reference"
    settings = (reference / "settings.md").read_text(encoding="utf-8")
    assert [variable.name for variable in VARIABLES if f"| `{variable.name}` |" not in settings] == []
    for relation in (*RELATIONS.values(), LOSSES):
        page = (reference / "relations" / f"{relation.name}.md").read_text(encoding="utf-8")
        assert [column.name for column in relation.columns if f"`{column.name}`" not in page] == []


@pytest.mark.slow
def test_the_site_is_whole_and_loads_nothing_from_another_host(build_site: ModuleType, tmp_path: Path) -> None:
    assert build_site.build(tmp_path) == []
    site = tmp_path / "site"
    assert (site / "index.html").is_file()
    assert "NoCommittedTruncation" in (site / "search.js").read_text(encoding="utf-8")
    assert 'src="./docs/site/iframe-worker.js"' in (site / "index.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("link", ["[gone](gone.md)", "[gone](tutorial.md#gone)"])
def test_a_link_between_documents_that_is_broken_ends_the_build(
    build_site: ModuleType, tmp_path: Path, link: str
) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "README.md").write_text(f"# Home\n\n{link}\n", encoding="utf-8")
    (tmp_path / "pages" / "tutorial.md").write_text("# Tutorial\n", encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text("site_name: x\ndocs_dir: pages\n", encoding="utf-8")
    with pytest.raises(subprocess.CalledProcessError):
        build_site.to_pages(tmp_path / "mkdocs.yml")


def test_what_is_broken_in_a_page_is_named(build_site: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "page.html").write_text(
        '<h1 id="here">Page</h1><a href="../index.html#top">up</a><a href="#here">here</a>', encoding="utf-8"
    )
    sound = (
        '<b id="top"></b><a href="deep/page.html#here">a</a><a href="https://kafka.apache.org">b</a><img src="data:,">'
    )
    broken = (
        '<a href="deep/page.html#gone">c</a><a href="deep/">d</a><a href="../up.html">e</a><img src="gone.png">'
        '<script src="https://cdn.example.com/x.js"></script><link rel="stylesheet" href="//fonts.example.com/x.css">'
    )
    (tmp_path / "index.html").write_text(sound + broken, encoding="utf-8")
    assert build_site.check_site.problems(tmp_path) == [
        "index.html: <a> deep/page.html#gone: has no such anchor",
        "index.html: <a> deep/: is no file of the site",
        "index.html: <a> ../up.html: is no file of the site",
        "index.html: <img> gone.png: is no file of the site",
        "index.html: <script> https://cdn.example.com/x.js: is loaded from another host",
        "index.html: <link> //fonts.example.com/x.css: is loaded from another host",
    ]
