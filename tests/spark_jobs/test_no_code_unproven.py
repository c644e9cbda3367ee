"""No invariant of the catalogue is without a proof that it fires on files, alone as a root."""

import inspect
from types import FunctionType

from expectations.registry import CATALOGUE
from tests.spark_jobs.test_every_code_alone import APART, NEVER_ALONE, proven


def test_every_code_is_proven_in_files_or_is_never_alone() -> None:
    found = set(proven())
    assert found <= CATALOGUE.keys()
    assert CATALOGUE.keys() - found == set(NEVER_ALONE)
    for code, root in NEVER_ALONE.items():
        assert code in CATALOGUE[root].implies


def test_tests_apart_speak_of_their_code() -> None:
    for code, test in APART.items():
        assert isinstance(test, FunctionType)
        assert f'"{code}"' in inspect.getsource(test)
