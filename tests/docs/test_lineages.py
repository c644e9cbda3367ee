"""The lineages of the concepts are what the console draws today: taken again, they have the same shapes."""

import importlib.util
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.shell import ROOT

PICTURES = ROOT / "docs" / "pictures"


@pytest.fixture(scope="module")
def lineage_pictures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lineage_pictures", ROOT / "docs" / "lineage_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_picture_is_made_and_shown(lineage_pictures: ModuleType) -> None:
    made = {f"lineage-{name}.svg" for name in lineage_pictures.LINEAGES}
    assert made == {path.name for path in PICTURES.glob("*.svg")}
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "concepts").glob("*.md"))
    assert made == set(re.findall(r"\.\./pictures/(lineage-[\w-]+\.svg)", text))


@pytest.mark.slow
@pytest.mark.postgres
def test_the_console_still_draws_them_so(lineage_pictures: ModuleType, tmp_path: Path) -> None:
    lineage_pictures.draw(tmp_path)
    for name in lineage_pictures.LINEAGES:
        kept, drawn = (shapes(folder / f"lineage-{name}.svg") for folder in (PICTURES, tmp_path))
        assert sum(kept.values()) > 15
        assert drawn == kept, "run PYTHONPATH=. python docs/lineage_pictures.py"


def shapes(picture: Path) -> Counter[tuple[str, ...]]:
    """Stretches and marks, with their places over the offsets; where text stands depends on the machine's fonts."""
    elements = re.findall(r'<(?:rect|path|svg(?=[^>]* x="[^"]*%")) [^>]*>', picture.read_text(encoding="utf-8"))
    return Counter(tuple(sorted(re.findall(r'\b(?:x|width|y|height|d|fill|stroke)="[^"]*"', e))) for e in elements)
