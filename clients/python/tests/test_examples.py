"""The examples, with the frameworks that they are for."""

from __future__ import annotations

import importlib.util
import signal
import sqlite3
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tickwheel import Client, testing

from .conftest import eventually
from .processes import program

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_fastapi(service: testing.Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICKWHEEL_SERVER", service.url)
    spec = importlib.util.spec_from_file_location("fastapi_app", EXAMPLES / "fastapi_app" / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(__import__("sys").modules, "fastapi_app", module)
    spec.loader.exec_module(module)
    with TestClient(module.app) as http:
        made = http.post("/reminders", json={"text": "stand up", "seconds": 0.2})
        assert made.status_code == 201
        read = http.get(f"/reminders/{made.json()['id']}?wait=10")
        assert read.json() == {"state": "succeeded", "result": "stand up (attempt 1)"}
        assert http.get("/reminders/01a2279a-aa19-8000-8fda-9b4c8f927dfd").status_code == 404


def test_django(service: testing.Service, client: Client, tmp_path: Path) -> None:
    database = tmp_path / "shop.sqlite3"
    manage = str(EXAMPLES / "django_shop" / "manage.py")
    environment = {"TICKWHEEL_SERVER": service.url, "SHOP_DATABASE": str(database)}

    def run(*arguments: str) -> tuple[int, list[str]]:
        with program(manage, *arguments, **environment) as one:
            return one.ended(), one.lines

    assert run("migrate", "--verbosity", "0") == (0, [])
    assert run("makemigrations", "--check", "--verbosity", "0")[0] == 0
    with program(manage, "run_worker", **environment) as worker:
        assert run("order", "a teapot") == (0, ["1"])
        assert run("order", "a kettle", "--fail")[0] == 1
        eventually(lambda: sqlite3.connect(database).execute("select shipped from shop_order").fetchall() == [(1,)])
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0, worker.errors
    assert [task.payload for task in map(lambda one: client.get(one.id), client.list(callback="ship"))] == [{"order": 1}]
