"""Instants that two machines' clocks gave.

In: nothing. Out: how far such instants may be apart. What was written by one machine is ordered by its place in a log,
never by the clock; where nothing but two clocks can tell, no verdict rests on less than this difference. A broker's own
times (in its log, its files, its producer snapshots) are compared with each other as they are.
"""

from typing import Final

CLOCKS_APART_MS: Final = 300_000
"""Machines whose clocks nobody keeps in step are minutes apart before anybody notices."""
