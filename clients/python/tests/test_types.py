"""What the type checker lets through, and what it does not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

TYPING = Path(__file__).parent / "typing"
ROOT = TYPING.parents[1]


def test_right_uses_pass_the_type_checker_and_wrong_ones_do_not() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "src", "tests", "examples/fastapi_app"]
    checked = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "MYPYPATH": "src"})
    assert checked.returncode < 2, checked.stderr + checked.stdout
    reported = [line for line in checked.stdout.splitlines() if "error:" in line]
    assert [line for line in reported if "typing/wrong.py" not in line] == []

    lines = (TYPING / "wrong.py").read_text().splitlines()
    expected = {(number, found[1]) for number, line in enumerate(lines, 1) if (found := re.search(r"# error: ([\w-]+)$", line))}
    is_reported = {(int(number), kind) for number, kind in re.findall(r"wrong\.py:(\d+): error: .*\[([\w-]+)\]", checked.stdout)}
    assert is_reported == expected
    assert len(expected) > 25
