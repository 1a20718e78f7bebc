"""What the type checker lets through, and what it does not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

TYPING = Path(__file__).parent / "typing"
ROOT = TYPING.parents[1]


def mypy(*paths: str) -> str:
    """What `mypy --strict` says of files."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", *paths]
    checked = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "MYPYPATH": "src"})
    assert checked.returncode < 2, checked.stderr + checked.stdout
    return checked.stdout


def test_the_package_and_its_tests_and_examples_are_typed() -> None:
    assert mypy("src", "tests", "examples/fastapi_app", "--exclude", "tests/typing/wrong.py") == ""


def test_wrong_uses_do_not_pass() -> None:
    path = TYPING / "wrong.py"
    lines = path.read_text().splitlines()
    expected = {(number, found[1]) for number, line in enumerate(lines, 1) if (found := re.search(r"# error: ([\w-]+)$", line))}
    reported = re.findall(r"wrong\.py:(\d+): error: .*\[([\w-]+)\]", mypy(str(path)))
    assert {(int(number), kind) for number, kind in reported} == expected
    assert len(expected) > 25
