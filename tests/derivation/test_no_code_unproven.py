"""No invariant of the catalogue is without a proof that it fires on files, alone as a root."""

import inspect
from types import FunctionType

from tests.derivation.test_every_code_alone import APART, NEVER_ALONE, PROOFS, proven
from tidegauge.expectations.registry import CATALOGUE


def test_every_code_is_proven_in_files_or_is_never_alone() -> None:
    found = set(proven())
    assert found <= CATALOGUE.keys()
    unproven = CATALOGUE.keys() - found - NEVER_ALONE.keys()
    assert unproven == set(), "no break in files makes it the only root: its folder may have a proof.py"
    assert NEVER_ALONE.keys() & found <= set(PROOFS.values()), "said never to be alone, and shown alone"
    for code, root in NEVER_ALONE.items():
        assert code in CATALOGUE[root].implies


def test_tests_apart_speak_of_their_code() -> None:
    for code, test in APART.items():
        assert isinstance(test, FunctionType)
        assert f'"{code}"' in inspect.getsource(test)
