"""The examples of the description as constants in TypeScript, on standard output.

The compiler checks each against the generated type of its call, so a call that the generator has left out is an error.
"""

import json

from description import load


def constant(name, type_name, body):
    media, described = body
    kind = f'NonNullable<operations["{type_name[0]}"]{type_name[1]}>["content"]["{media}"]'
    return f"export const {name} = {json.dumps(described['example'])} satisfies {kind};"


def main():
    print('import type { operations } from "./schema.js";')
    for name, operation in load().operations.items():
        print(f'export type {name}_call = operations["{name}"];')
        if operation.request:
            print(constant(f"{name}_request", (name, '["requestBody"]'), operation.request))
        for status, body in operation.successes().items():
            if body and "example" in body[1]:
                print(constant(f"{name}_{status}", (name, f'["responses"][{status}]'), body))


main()
