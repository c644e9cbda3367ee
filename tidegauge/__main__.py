"""`python -m tidegauge`: the command line where its script is not on the path; spark-submit runs this file likewise."""

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
if sys.path and sys.path[0] and Path(sys.path[0]).resolve() == _HERE:
    # Run as a file, Python looks for modules in this folder first, where names such as `airflow` are ours.
    sys.path[0] = str(_HERE.parent)

from tidegauge.cli import main  # noqa: E402 - the path had to be right first

if __name__ == "__main__":
    main(prog_name="tidegauge")
