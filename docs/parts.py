"""Parts of a document that code makes: the document's text and the makers in, the text with the parts made anew out.

A part stands between `<!-- KIND: NAME -->` and `<!-- end of NAME -->`. The kind says who makes it: `generated` parts
are kept in the repository (docs/generate.py), `built` ones stand in the site alone (docs/build_site.py). The rule that
must hold: everything else is left as it is, and making a part twice changes nothing.
"""

import re
from collections.abc import Callable, Iterator, Mapping

Makers = Mapping[str, Callable[[], Iterator[str]]]
"""Name of a part -> what makes its lines."""


def renewed(text: str, kind: str, makers: Makers) -> str:
    """A document's text with its parts of a kind made anew. Raises ValueError where a part has no place in it."""
    for name, make in makers.items():
        place = re.compile(rf"(<!-- {kind}: {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        body = "\n".join(make()).strip("\n") + "\n"
        text, places = place.subn(lambda found, body=body: found[1] + body + found[2], text)
        if places != 1:
            raise ValueError(f"the part {name} has {places} places in the document, not one")
    return text
