"""What is not written by hand is what its generator writes."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_generated_files_are_as_they_would_be_generated(tmp_path: Path) -> None:
    subprocess.run([ROOT / "scripts" / "generate", tmp_path], check=True, capture_output=True)
    package = ROOT / "src" / "tickwheel"
    made = [path.relative_to(tmp_path) for path in tmp_path.rglob("*.py")]
    assert len(made) > 10
    for path in made:
        assert (tmp_path / path).read_text() == (package / path).read_text(), f"{path} differs: run `make clients`"
    assert {path.name for path in (package / "_sync").glob("*.py")} == {path.name for path in (package / "_aio").glob("*.py")}
