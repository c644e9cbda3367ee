"""What the documents tell their reader to type is taken as it stands: by our command line, and by Airflow's."""

import importlib
import io
from contextlib import redirect_stderr

import pytest

from tests.docs.shell import DOCUMENTS, ROOT, blocks, commands, refused
from tidegauge import store


def scripts(name: str) -> list[str]:
    return blocks((ROOT / name).read_text(encoding="utf-8"), "sh")


def test_there_is_much_to_type() -> None:
    told = [words for name in DOCUMENTS for script in scripts(name) for words in commands(script, "tidegauge")]
    assert len(told) > 40
    assert {"README.md", "docs/tutorial.md", "docs/guides/schedule.md"} <= set(DOCUMENTS)


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if scripts(name)])
def test_the_command_line_takes_every_command(name: str) -> None:
    told = [words for script in scripts(name) for words in commands(script, "tidegauge")]
    assert [why for words in told if (why := refused(words))] == []


def test_what_it_would_not_take_is_seen() -> None:
    script = """
        A=1 tidegauge audit a b --out OUT > report.txt 2>&1 && tidegauge observe | tee log  # tidegauge what
        ls; tidegauge snapshot adopt copy --cluster payments \\
            --consistency certain
        tidegauge audit --out OUT
        tidegauge salvage s --topic t --partition none --out o
    """
    told = list(commands(script, "tidegauge"))
    assert told[0] == ["tidegauge", "audit", "a", "b", "--out", "OUT"]
    assert [bool(refused(words)) for words in told] == [False, True, True, True, True]
    assert "No such command 'observe'" in str(refused(told[1]))
    assert "'certain' is not one of" in str(refused(told[2]))


@pytest.mark.slow
@pytest.mark.airflow
def test_airflow_takes_every_command_of_its_own() -> None:
    parser = importlib.import_module("airflow.cli.cli_parser").get_parser()
    told = [words for name in DOCUMENTS for script in scripts(name) for words in commands(script, "airflow")]
    assert len(told) > 3
    for words in told:
        said = io.StringIO()
        try:
            with redirect_stderr(said):
                parser.parse_args(words[1:])
        except SystemExit:
            pytest.fail(f"{' '.join(words)}: {said.getvalue()}")


@pytest.mark.slow
def test_the_store_takes_every_query(store_url: str) -> None:
    store.migrate(store_url)
    queries = [q for name in DOCUMENTS for q in blocks((ROOT / name).read_text(encoding="utf-8"), "sql")]
    assert len(queries) > 1
    with store.connect(store_url, "be asked") as connection, connection.cursor() as cursor:
        for query in queries:
            cursor.execute(query)
