"""Wheel and sdist: built, linted, installed into an empty environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import tickwheel
from tickwheel import testing

from .test_readme import BLOCKS

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of wheel and sdist: that of a release, or one that is made here."""
    if made := os.environ.get("TICKWHEEL_BUILT"):
        return Path(made)
    target = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", target, ROOT], check=True, capture_output=True)
    return target


def test_they_have_what_belongs_into_them_and_no_more(built: Path) -> None:
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *built.iterdir()], check=True)
    version = tickwheel.__version__
    with zipfile.ZipFile(built / f"tickwheel-{version}-py3-none-any.whl") as wheel:
        names = {name.partition("/")[2] for name in wheel.namelist()}
    assert {"py.typed", "METADATA", "licenses/LICENSE", "worker/heart.py", "_sync/client.py", "testing.py"} <= names
    assert not [name for name in names if "test_" in name or name.endswith(".pyc")]
    with tarfile.open(built / f"tickwheel-{version}.tar.gz") as sdist:
        names = {name.partition("/")[2].partition("/")[0] for name in sdist.getnames()} - {""}
    assert names == {"src", "README.md", "LICENSE", "PKG-INFO", "pyproject.toml", ".gitignore"}


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_the_programs_of_the_readme_run_where_only_it_is_installed(
    built: Path, service: testing.Service, tmp_path: Path, kind: str
) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    (artefact,) = built.glob(kind)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", artefact], check=True)
    installed = subprocess.run([python, "-m", "pip", "list", "--format", "freeze"], capture_output=True, text=True, check=True)
    assert {line.partition("==")[0] for line in installed.stdout.split()} <= {
        *("tickwheel", "httpx2", "httpcore2", "h11", "anyio", "truststore", "idna", "typing_extensions"),
        *("pip", "setuptools", "exceptiongroup", "sniffio"),
    }
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["TICKWHEEL_SERVER"] = service.url
    worker = subprocess.Popen([python, "-c", BLOCKS["worker"]], env=environment, cwd=tmp_path)
    try:
        for name in ("producer", "coroutines"):
            run = [python, "-c", BLOCKS[name]]
            subprocess.run(run, check=True, env=environment, cwd=tmp_path, timeout=60)
        results = {service.client.wait(task.id, 30).result for task in service.client.list(callback="greet")}
        assert results == {"hello Ada"}
    finally:
        worker.terminate()
        assert worker.wait(20) == 0
