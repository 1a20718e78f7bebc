"""The table of tests by language: each name in it stands in its file."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "clients.md").read_text()
PLACES = {
    ".py": [ROOT / "clients/python/tests"],
    ".ts": [ROOT / "clients/typescript/test"],
    ".rs": [ROOT / "tests", ROOT / "src"],
}


def test_each_test_of_the_table_stands_in_its_file() -> None:
    named = re.findall(r"`([\w/.]+(\.py|\.ts|\.rs)): ([^`]+)`", PAGE)
    assert len(named) > 70
    missing = []
    for file, kind, name in named:
        paths = [place / file for place in PLACES[kind] if (place / file).is_file()]
        if not any(name in path.read_text() for path in paths):
            missing.append(f"{file}: {name}")
    assert not missing
