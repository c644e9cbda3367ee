"""`python -m tidegauge`: the command line where its script is not on the path."""

from tidegauge.cli import main

main(prog_name="tidegauge")
