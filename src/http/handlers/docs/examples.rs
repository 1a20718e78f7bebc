//! The examples of the description show for each call a request and its answers.
//!
//! They lie in `schemas/examples.json`, by the id of the operation. `tests/openapi/clients` checks each of them against
//! its schema, and sends the requests to a running service in the order of one story.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use utoipa::{
    Modify,
    openapi::{
        Content, OpenApi, RefOr,
        path::{Operation, ParameterBuilder},
    },
};

use super::shape::operations;

const EXAMPLES: &str = include_str!("../../../../schemas/examples.json");

/// The example of a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Example {
    /// The parameters of its path.
    #[serde(default)]
    path: BTreeMap<String, Value>,
    /// The body of its request.
    #[serde(default)]
    request: Option<Value>,
    /// The bodies of its answers, by status.
    #[serde(default)]
    answers: BTreeMap<String, Value>,
}

/// Adds the examples to the description.
pub(super) struct Examples;

impl Modify for Examples {
    fn modify(&self, description: &mut OpenApi) {
        let mut examples = read().unwrap_or_default();
        for operation in description.paths.paths.values_mut().flat_map(operations) {
            let id = operation.operation_id.as_deref().unwrap_or_default();
            if let Some(example) = examples.remove(id) {
                show(operation, example);
            }
        }
    }
}

/// Returns the examples by the ids of their operations.
pub(super) fn read() -> serde_json::Result<BTreeMap<String, Example>> {
    serde_json::from_str(EXAMPLES)
}

fn show(operation: &mut Operation, mut example: Example) {
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter
            && let Some(value) = example.path.remove(&parameter.name)
        {
            let shown = ParameterBuilder::from(parameter.clone()).example(Some(value));
            *parameter = shown.build();
        }
    }
    if let Some(RefOr::T(request)) = &mut operation.request_body {
        put(request.content.values_mut(), example.request);
    }
    for (status, answer) in &mut operation.responses.responses {
        if let RefOr::T(answer) = answer {
            put(answer.content.values_mut(), example.answers.remove(status));
        }
    }
}

/// Shows an example with the first media type, which is JSON where there are several.
fn put<'a>(mut contents: impl Iterator<Item = &'a mut RefOr<Content>>, example: Option<Value>) {
    if let Some(RefOr::T(content)) = contents.next() {
        content.example = example;
    }
}
