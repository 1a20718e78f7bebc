import { ValidationError } from "./errors.js";

/** A schema as zod, valibot, arktype and others have them: https://standardschema.dev. */
export interface StandardSchema<Input = unknown, Output = Input> {
    readonly "~standard": {
        readonly version: 1;
        readonly vendor: string;
        readonly validate: (value: unknown) => StandardSchema.Result<Output> | Promise<StandardSchema.Result<Output>>;
        readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    };
}

export declare namespace StandardSchema {
    type Result<Output> =
        | { readonly value: Output; readonly issues?: undefined }
        | { readonly issues: ReadonlyArray<Issue> };
    interface Issue {
        readonly message: string;
        readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined;
    }
    type Input<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["input"];
    type Output<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["output"];
}

/** Returns a value as its schema has it, or the error about one that does not fit. */
export async function validated<S extends StandardSchema>(
    schema: S,
    value: unknown,
    subject: string,
): Promise<StandardSchema.Output<S> | ValidationError> {
    const result = await schema["~standard"].validate(value);
    if (!result.issues) return result.value;
    const issues = result.issues.map(({ message, path = [] }) => ({
        message,
        path: path.map((part) => String(typeof part === "object" ? part.key : part)).join("."),
    }));
    return new ValidationError(subject, issues);
}
