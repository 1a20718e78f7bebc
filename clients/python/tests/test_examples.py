"""The examples, with the frameworks that they are for."""

from __future__ import annotations

import importlib.util
import io
import signal
import sqlite3
import sys
from pathlib import Path

import django
import pytest
from django.core.management import CommandError, call_command
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
    monkeypatch.setitem(sys.modules, "fastapi_app", module)
    spec.loader.exec_module(module)
    with TestClient(module.app) as http:
        made = http.post("/reminders", json={"text": "stand up", "seconds": 0.2})
        assert made.status_code == 201
        read = http.get(f"/reminders/{made.json()['id']}?wait=10")
        assert read.json() == {"state": "succeeded", "result": "stand up (attempt 1)"}
        assert http.get("/reminders/01a2279a-aa19-8000-8fda-9b4c8f927dfd").status_code == 404


def test_django(service: testing.Service, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database, folder = tmp_path / "shop.sqlite3", EXAMPLES / "django_shop"
    environment = {"TICKWHEEL_SERVER": service.url, "SHOP_DATABASE": str(database), "DJANGO_SETTINGS_MODULE": "shop.settings"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(folder))
    django.setup()
    call_command("migrate", verbosity=0)
    call_command("makemigrations", check=True, verbosity=0)
    with program(str(folder / "manage.py"), "run_worker", **environment) as worker:
        call_command("order", "a teapot", stdout=io.StringIO())
        with pytest.raises(CommandError, match="declined"):
            call_command("order", "a kettle", fail=True)
        eventually(lambda: sqlite3.connect(database).execute("select shipped from shop_order").fetchall() == [(1,)], 60)
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0, worker.errors
    assert [client.get(task.id).payload for task in client.list(callback="ship")] == [{"order": 1}]
