"""The calls of the package beside the description of the API."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

import tickwheel
from tickwheel import _encode, models
from tickwheel._call import Answer, Call
from tickwheel._values import read_duration

ROOT = Path(__file__).parents[3]
PACKAGE = Path(tickwheel.__file__).parent
DESCRIPTION: dict[str, Any] = json.loads((ROOT / "schemas" / "openapi.json").read_text())


def described() -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Method, path and description of each operation."""
    return {
        one["operationId"]: (method.upper(), path, one)
        for path, item in DESCRIPTION["paths"].items()
        for method, one in item.items()
        if isinstance(one, dict) and "operationId" in one
    }


def offered(folder: str) -> dict[str, tuple[str, str, Any]]:
    """Method, path and type of the answer of each `Call(...)` in the code of a client."""
    calls: dict[str, tuple[str, str, Any]] = {}
    for path in (PACKAGE / folder).glob("*.py"):
        tree = ast.parse(path.read_text())
        names: dict[str, Any] = {**vars(models), "str": str, "bytes": bytes, "list": list}
        for statement in tree.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                try:
                    names[statement.targets[0].id] = eval(ast.unparse(statement.value), names)
                except NameError:
                    continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Call":
                operation, method, template, answer = (eval(ast.unparse(one), names) for one in node.args[:4])
                if answer is not str or operation not in calls:
                    calls[operation] = (method, template, answer)
    return calls


@pytest.mark.parametrize("folder", ["_sync", "_aio"])
def test_every_operation_can_be_called(folder: str) -> None:
    ours = {name: call[:2] for name, call in offered(folder).items()}
    theirs = {name: call[:2] for name, call in described().items()}
    assert ours == theirs


def examples() -> list[Any]:
    """Each example of an answer, with the type that its call reads."""
    calls = offered("_sync")
    found = []
    for name, (_, _, one) in described().items():
        for status, answer in one["responses"].items():
            for kind, content in answer.get("content", {}).items():
                if status.startswith("2") and kind == "application/json" and "example" in content:
                    found.append(pytest.param(calls[name][2], int(status), content["example"], id=f"{name}-{status}"))
    assert len(found) > 50
    return found


def alike(value: Any) -> Any:
    """A value of JSON as it can be compared: times without the zeros of their fractions, durations in one unit."""
    if isinstance(value, dict):
        return {name: alike(one) for name, one in value.items()}
    if isinstance(value, list):
        return [alike(one) for one in value]
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", value):
        return re.sub(r"\.?0*Z$", "Z", value) if "." in value else value
    if isinstance(value, str) and re.fullmatch(r"(\d+(ms|s|m|h|d))+", value):
        return read_duration(value)
    return value


@pytest.mark.parametrize(("wanted", "status", "example"), examples())
def test_every_answer_is_read_without_loss(wanted: Any, status: int, example: Any) -> None:
    call: Call[Any] = Call("x", "GET", "/", wanted)
    read = call.read("http://x", Answer(status, {}, json.dumps(example).encode()))
    again = [_encode.item(one) for one in read] if isinstance(read, list) else _encode.item(read)
    assert alike(again) == alike(example)


def test_the_fields_of_durations_are_those_of_the_description() -> None:
    def named(schema: Any, name: str = "") -> set[str]:
        if isinstance(schema, list):
            return set().union(*(named(one, name) for one in schema))
        if not isinstance(schema, dict):
            return set()
        if schema.get("$ref", "").endswith("/DurationText"):
            return {name}
        found = named(schema.get("oneOf", []), name)
        for key, one in schema.get("properties", {}).items():
            found |= named(one, key)
        return found

    requests = {
        name: one for name, one in DESCRIPTION["components"]["schemas"].items() if not name.endswith(("Answer", "Response"))
    }
    assert set().union(*(named(one) for one in requests.values())) - {"behind", "waited"} == _encode.DURATIONS


def test_the_version_is_that_of_the_service() -> None:
    cargo = (ROOT / "Cargo.toml").read_text()
    assert re.findall(r'^version = "(.*)"', cargo, re.M)[0] == tickwheel.__version__ == DESCRIPTION["info"]["version"]


def test_the_licence_is_that_of_the_service() -> None:
    assert (ROOT / "LICENSE").read_text() == (ROOT / "clients" / "python" / "LICENSE").read_text()
