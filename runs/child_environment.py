"""What a program that we start is told of our environment: the names that it needs, and no secret of anybody else's.

In: how names begin, and our environment. Out: the child's. Whoever runs us has an object store's keys, a console's
tokens and passwords in his environment; a program that runs as another user, and what that starts, shows them to that
user (proc(5), environ). So the rule that must hold: nothing comes through unless it is named.
"""

import os
from collections.abc import Mapping
from typing import Final

PLAIN: Final = frozenset({"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TZDIR", "TMPDIR", "LD_LIBRARY_PATH"})
"""Where programs, libraries and temporary files are, and how words and times are written; `LC_*`, too."""


def only(*beginnings: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """`PLAIN`, and what begins so, as far as it is set."""
    return {key: value for key, value in environ.items() if key in PLAIN or key.startswith(("LC_", *beginnings))}
