"""`python -m tidegauge`: the command line where its script is not on the path; spark-submit runs this file likewise."""

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
if sys.path and sys.path[0] and Path(sys.path[0]).resolve() == _HERE:
    # Run as a file, Python looks for modules in this folder first, where names such as `airflow` are ours.
    sys.path[0] = str(_HERE.parent)
elif sys.flags.safe_path and str(_HERE.parent) not in sys.path:
    sys.path.append(str(_HERE.parent))  # Run as a file, Python does not look beside it then.

from tidegauge.cli.start import run  # noqa: E402 - the path had to be right first

if __name__ == "__main__":
    run()
