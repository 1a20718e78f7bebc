"""The description of the API, `schemas/openapi.json`, as an independent validator of JSON Schema reads it.

    description.py        checks the description against OpenAPI 3.1, each reference, and each example against its schema
"""

import copy
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

PATH = pathlib.Path(__file__).parents[2] / "schemas" / "openapi.json"
Body = tuple[str, dict[str, Any]]
METHODS = {"get", "put", "post", "delete", "patch", "head", "options", "trace"}


class Operation:
    """A call: its method and path, and what its example and its schemas say."""

    def __init__(self, path: str, method: str, raw: dict[str, Any]) -> None:
        self.path, self.method, self.raw = path, method, raw
        self.id: str = raw["operationId"]
        self.parameters = [one for one in raw.get("parameters", []) if one["in"] == "path"]
        self.request = only(raw.get("requestBody", {}).get("content", {}))
        self.answers = {status: only(answer.get("content", {})) for status, answer in raw["responses"].items()}

    def successes(self) -> dict[str, Body | None]:
        """The bodies of the answers that tell of success, by status: a media type and what is said of it, or None."""
        return {status: body for status, body in self.answers.items() if status.startswith("2")}


def only(content: dict[str, Any]) -> Body | None:
    """The first media type, JSON where there are several."""
    return min(content.items(), default=None)


class Description:
    """The description, with validators for its schemas."""

    def __init__(self, text: str) -> None:
        self.raw = json.loads(text)
        calls = ((path, method, raw) for path, item in self.raw["paths"].items() for method, raw in item.items())
        every = [Operation(*call) for call in calls if call[1] in METHODS]
        self.operations = {operation.id: operation for operation in every}
        if len(self.operations) < len(every):
            sys.exit("description.py: two operations have the same id")
        self.components = closed(self.raw["components"])

    def mistakes(self, schema: Any, value: Any) -> list[str]:
        """What is wrong with a value. An answer may have members of a later version, but one of ours has none."""
        whole = {**closed(schema), "components": self.components}
        validator = Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER)
        return [f"{error.json_path}: {error.message}"[:300] for error in validator.iter_errors(value)]

    def broken_references(self) -> list[str]:
        return [name for name in set(references(self.raw)) if not self.leads_somewhere(name)]

    def leads_somewhere(self, name: str) -> bool:
        found = self.raw
        for part in name.removeprefix("#/").split("/"):
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        return found is not None


def closed(schema: Any) -> Any:
    """The same schema, in which an object has the members that are described and no others."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    shut = {name: closed(item) for name, item in schema.items()}
    if isinstance(shut.get("properties"), dict):
        shut.setdefault("additionalProperties", False)
    return shut


def references(value: Any) -> Iterator[str]:
    """The places that a description refers to."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references(item)


def example_mistakes(description: Description, operation: Operation) -> Iterator[str]:
    """What is wrong with the example of a call, or lacks in it."""
    for parameter in operation.parameters:
        if "example" not in parameter:
            yield f"no example of `{parameter['name']}` in the path"
    bodies = {"request": operation.request, **operation.successes()}
    for name, body in bodies.items():
        if body is None or body[0] == "application/octet-stream":
            continue
        if "example" not in body[1]:
            yield f"no example of {name}: put it into schemas/examples.json"
        else:
            yield from (f"example of {name}: {error}" for error in description.mistakes(body[1]["schema"], body[1]["example"]))


def load() -> Description:
    return Description(PATH.read_text())


def main() -> None:
    description = load()
    mistakes = [f"{name} leads nowhere" for name in description.broken_references()]
    if not mistakes:
        mistakes = [str(error.message) for error in OpenAPIV31SpecValidator(copy.deepcopy(description.raw)).iter_errors()]
    for operation in description.operations.values():
        mistakes += [f"{operation.id}: {mistake}" for mistake in example_mistakes(description, operation)]
    print("\n".join(mistakes), file=sys.stderr, end="\n" if mistakes else "")
    print(f"{len(description.operations)} operations are described, with examples" if not mistakes else "the description is wrong")
    sys.exit(1 if mistakes else 0)


if __name__ == "__main__":
    main()
