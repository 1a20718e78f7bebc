//! These tests check of the description what `tests/openapi/clients` takes for granted: it is the one checked in, and
//! generators of clients can read it.

use serde_json::Value;

use super::examples;
use crate::http::document;

#[test]
fn openapi_document_is_the_one_checked_in() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/openapi.json");
    if std::env::var_os("TICKWHEEL_UPDATE_GOLDEN").is_some() {
        std::fs::write(path, document()).unwrap();
    }
    let checked_in = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        checked_in == document(),
        "schemas/openapi.json is not what the code says; write it anew with \
         `TICKWHEEL_UPDATE_GOLDEN=1 cargo test --lib openapi` and look at the difference"
    );
}

fn description() -> Value {
    serde_json::from_str(&document()).unwrap()
}

#[test]
fn openapi_document_describes_this_service() {
    let value = description();
    assert!(value["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(value["info"]["title"], "Tickwheel");
    assert!(value["paths"]["/v1/tasks:batchCreate"]["post"].is_object());
}

/// Calls `look` with each value below `value`, and with its place.
fn walk(value: &Value, place: &str, look: &mut impl FnMut(&str, &Value)) {
    look(place, value);
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                walk(member, &format!("{place}/{name}"), look);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &format!("{place}/{index}"), look);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn operations(description: &Value) -> Vec<(&str, &Value)> {
    let paths = description["paths"].as_object().unwrap();
    let operations = paths.values().flat_map(|path| path.as_object().unwrap());
    let named =
        operations.map(|(_, operation)| (operation["operationId"].as_str().unwrap(), operation));
    named.collect()
}

#[test]
fn every_reference_of_the_openapi_document_leads_somewhere() {
    let whole = description();
    let mut broken = Vec::new();
    walk(&whole, "#", &mut |place, value| {
        if let Some(target) = value.get("$ref").and_then(Value::as_str)
            && whole.pointer(target.trim_start_matches('#')).is_none()
        {
            broken.push(format!("{place}: {target}"));
        }
    });
    assert_eq!(broken, Vec::<String>::new());
}

/// A generated client sends the default of a schema with each request, and so overrules what the service would decide.
#[test]
fn no_schema_of_the_openapi_document_has_a_default() {
    let mut found = Vec::new();
    walk(&description(), "#", &mut |place, value| {
        if value.get("default").is_some() && !place.ends_with("/responses") {
            found.push(place.to_owned());
        }
    });
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn every_union_of_the_openapi_document_is_one_of_named_objects() {
    let whole = description();
    let mut unnamed = Vec::new();
    walk(&whole["components"]["schemas"], "", &mut |place, value| {
        let parts =
            ["oneOf", "anyOf", "allOf"].map(|word| value.get(word).and_then(Value::as_array));
        let is_unnamed = |variant: &Value| variant.get("properties").is_some();
        if parts.into_iter().flatten().flatten().any(is_unnamed) {
            unnamed.push(format!("{place}: give the variants a `title`"));
        }
    });
    assert_eq!(unnamed, Vec::<String>::new());
    let target = &whole["components"]["schemas"]["TargetResponse"];
    assert_eq!(target["discriminator"]["propertyName"], "type");
    let http = "#/components/schemas/HttpTargetResponse";
    assert_eq!(target["discriminator"]["mapping"]["http"], http);
}

/// Generators for Go name the answer to `claim` `ClaimResponse`, whatever the schema of its body is called.
#[test]
fn no_schema_of_the_openapi_document_has_the_name_of_an_answer() {
    let whole = description();
    let taken = operations(&whole).into_iter().filter_map(|(id, _)| {
        let (first, rest) = id.split_at(1);
        let name = format!("{}{rest}Response", first.to_uppercase());
        whole["components"]["schemas"].get(&name)?;
        Some(format!("{name}: rename it with `schema(as = ..)`"))
    });
    assert_eq!(taken.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn every_example_belongs_to_a_call_of_the_openapi_document() {
    let whole = description();
    let calls = operations(&whole);
    let mut left = examples::read().unwrap();
    left.retain(|id, _| !calls.iter().any(|(call, _)| call == id));
    assert!(left.is_empty(), "{:?}", left.keys());
}
