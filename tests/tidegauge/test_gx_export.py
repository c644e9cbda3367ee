"""`tidegauge gx export`: what it writes, what it renews, what it leaves alone, and what it refuses."""

import json
import os
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tidegauge.cli.main import main
from tidegauge.expectations.registry import CATALOGUE

NOTE = "gx/TIDEGAUGE.json"


def export(directory: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["gx", "export", str(directory), *options])


def exported(directory: Path, *options: str) -> dict[str, bytes]:
    """Path -> bytes of what is there after an export that went well."""
    done = export(directory, *options)
    assert done.exit_code == 0, done.output
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


@pytest.mark.slow
def test_the_library_opens_what_was_written(tmp_path: Path) -> None:
    import great_expectations as gx

    project = tmp_path / "made" / "on the way"
    files = exported(project)
    before = {name: body for name, body in files.items() if "uncommitted" not in name}
    context = gx.get_context(mode="file", project_root_dir=project)
    expectations = [
        e for v in context.checkpoints.get("tidegauge").validation_definitions for e in v.suite.expectations
    ]
    assert {e.meta["code"] for e in expectations if e.meta} == CATALOGUE.keys()
    assert len(expectations) == len(CATALOGUE) + 2
    assert context.list_data_docs_sites().keys() == {"local_site"}
    assert {name: (project / name).read_bytes() for name in before} == before, "to open it changes nothing"


@pytest.mark.slow
def test_only_the_user_and_their_group_may_read_it(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        exported(tmp_path / "project")
    finally:
        os.umask(before)
    for path in (tmp_path / "project", *(tmp_path / "project").rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o750 if path.is_dir() else 0o640), path


@pytest.mark.slow
def test_the_store_is_a_variable(tmp_path: Path) -> None:
    settings = yaml.safe_load(exported(tmp_path)["gx/great_expectations.yml"])
    assert settings["fluent_datasources"]["tidegauge"]["connection_string"] == "${TIDEGAUGE_STORE_URL}"
    assert settings["analytics_enabled"] is False


@pytest.mark.slow
def test_an_export_is_renewed_and_what_others_put_beside_it_stays(tmp_path: Path) -> None:
    first = exported(tmp_path)
    mine = {
        "gx/uncommitted/config_variables.yml": "TIDEGAUGE_STORE_URL: mine\n",
        "gx/uncommitted/validations/result.json": "{}",
        "gx/expectations/mine.json": "{}",
        "README.md": "mine",
    }
    for name, text in mine.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "gx/great_expectations.yml").unlink()
    note = json.loads((tmp_path / NOTE).read_text())
    note["files"].append("gx/expectations/tidegauge_of_an_older_version.json")
    (tmp_path / NOTE).write_text(json.dumps(note))
    (tmp_path / "gx/expectations/tidegauge_of_an_older_version.json").write_text("{}")
    assert exported(tmp_path) == first | {name: text.encode() for name, text in mine.items()}


@pytest.mark.slow
def test_of_an_earlier_export_s_note_no_file_elsewhere_is_removed(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside.json"
    outside.write_text("mine")
    exported(project)
    note = json.loads((project / NOTE).read_text())
    inside = project / "gx" / "uncommitted" / "mine.json"
    inside.write_text("mine")
    note["files"] += [
        str(outside),
        "../outside.json",
        "gx/expectations/../../../outside.json",
        "gx/uncommitted/mine.json",
    ]
    (project / NOTE).write_text(json.dumps(note))
    exported(project)
    assert outside.read_text() == inside.read_text() == "mine"


def test_what_is_no_export_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    done = export(tmp_path)
    assert (done.exit_code, [*tmp_path.iterdir()]) == (2, [file])
    assert "is not empty, and no earlier export" in done.output
    done = export(file)
    assert (done.exit_code, file.read_text()) == (2, "mine")
    assert "is no directory" in done.output


@pytest.mark.parametrize("note", ["", "[]", "{}", '{"files": 1}', '{"files": [1]}'])
def test_a_note_that_is_none_is_refused(tmp_path: Path, note: str) -> None:
    (tmp_path / "gx").mkdir()
    (tmp_path / NOTE).write_text(note)
    done = export(tmp_path)
    assert done.exit_code == 2, done.output
    assert "is not what an export wrote" in done.output


@pytest.mark.slow
def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    exported(project)
    (project / "gx" / "expectations").rename(elsewhere)
    before = {path.name: path.stat().st_mtime_ns for path in elsewhere.iterdir()}
    (project / "gx" / "expectations").symlink_to(elsewhere)
    done = export(project)
    assert done.exit_code == 2
    assert "is a link" in done.output
    assert {path.name: path.stat().st_mtime_ns for path in elsewhere.iterdir()} == before


@pytest.mark.parametrize("names", [[""], [" "], ["a", "a"]])
def test_a_cluster_is_named_and_named_once(tmp_path: Path, names: list[str]) -> None:
    done = export(tmp_path / "project", *(f"--cluster={name}" for name in names))
    assert done.exit_code == 2
    assert not (tmp_path / "project").exists()


@pytest.mark.slow
def test_a_place_that_cannot_be_written_to_is_the_environment_s_fault(tmp_path: Path) -> None:
    done = export(Path("/proc/tidegauge"))  # not even by root
    assert done.exit_code == 3
    assert "the system refused at /proc/tidegauge" in done.output
