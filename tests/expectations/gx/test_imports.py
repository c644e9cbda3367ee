"""Importing Great Expectations takes seconds: who does not judge with it does not wait for it."""

import subprocess
import sys

import pytest

EVERYDAY = (
    "tidegauge.cli.main", "tidegauge.audit.steps", "tidegauge.audit.evaluate", "tidegauge.expectations.agreement",
    "tidegauge.expectations.data_docs", "tidegauge.expectations.verdicts", "tidegauge.expectations.gx",
)  # fmt: skip


def test_what_does_not_judge_does_not_import_the_library() -> None:
    program = f"import sys, {', '.join(EVERYDAY)}; print('great_expectations' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == "False\n"


@pytest.mark.slow
def test_what_judges_is_imported_without_a_word() -> None:
    program = "import tidegauge.expectations.gx.validation, sys; print('great_expectations' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert (done.stdout, done.stderr) == ("True\n", "")
