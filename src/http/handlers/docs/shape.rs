//! The shape of the description is made one that generators of clients read without loss.
//!
//! Each variant of a union that is an object of its own gets a name among the components, and a member that tells the
//! variants apart becomes the discriminator. An object whose members come from several types is written as one object:
//! a request refuses members that it does not know, so an answer that holds those of a request would fit no schema. A
//! body that may be left out is not `null`, and a body of bytes is no list of numbers.

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::{
    Modify,
    openapi::{
        Content, Object, OpenApi, PathItem, Ref, RefOr, Schema,
        path::Operation,
        schema::{
            AllOf, Discriminator, KnownFormat, ObjectBuilder, OneOf, SchemaFormat, SchemaType, Type,
        },
    },
};

/// The components by name.
type Schemas = BTreeMap<String, RefOr<Schema>>;

/// Makes the description readable for generators of clients.
pub(super) struct Readable;

impl Modify for Readable {
    fn modify(&self, description: &mut OpenApi) {
        for operation in description.paths.paths.values_mut().flat_map(operations) {
            bodies(operation);
        }
        let schemas = &mut description.components.get_or_insert_default().schemas;
        write_as_one_object(schemas);
        name_variants(schemas);
    }
}

/// Returns the operations of a path.
pub(super) fn operations(path: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let methods = [
        &mut path.get,
        &mut path.put,
        &mut path.post,
        &mut path.delete,
    ];
    methods.into_iter().flatten()
}

fn bodies(operation: &mut Operation) {
    if let Some(RefOr::T(request)) = &mut operation.request_body {
        request.content.values_mut().for_each(without_null);
    }
    for answer in operation.responses.responses.values_mut() {
        let RefOr::T(answer) = answer else { continue };
        if let Some(RefOr::T(bytes)) = answer.content.get_mut("application/octet-stream") {
            let format = SchemaFormat::KnownFormat(KnownFormat::Binary);
            let schema = ObjectBuilder::new()
                .schema_type(Type::String)
                .format(Some(format));
            bytes.schema = Some(schema.into());
        }
    }
}

/// Names the type of a body that may be left out, without the `null` that stands for its absence in Rust.
fn without_null(content: &mut RefOr<Content>) {
    let RefOr::T(content) = content else { return };
    let Some(RefOr::T(Schema::OneOf(OneOf { items, .. }))) = &content.schema else {
        return;
    };
    if let [body, RefOr::T(Schema::Object(other))] = items.as_slice()
        && other.schema_type == SchemaType::Type(Type::Null)
    {
        content.schema = Some(body.clone());
    }
}

fn write_as_one_object(schemas: &mut Schemas) {
    let merged = schemas.iter().filter_map(|(name, schema)| {
        let RefOr::T(Schema::AllOf(parts)) = schema else {
            return None;
        };
        Some((name.clone(), merged(parts, schemas)?.into()))
    });
    let merged: Schemas = merged.collect();
    schemas.extend(merged);
}

/// Returns an object with the members of all parts, if each part is an object.
fn merged(parts: &AllOf, schemas: &Schemas) -> Option<Object> {
    let mut whole = Object::new();
    whole.description.clone_from(&parts.description);
    for part in &parts.items {
        let part = match part {
            RefOr::Ref(named) => schemas.get(named.ref_location.rsplit('/').next()?)?,
            RefOr::T(_) => part,
        };
        let RefOr::T(Schema::Object(part)) = part else {
            return None;
        };
        whole.properties.extend(part.properties.clone());
        whole.required.extend(part.required.clone());
    }
    Some(whole)
}

/// Moves variants that have a title to the components of that name.
fn name_variants(schemas: &mut Schemas) {
    let mut named = Schemas::new();
    for schema in schemas.values_mut() {
        let RefOr::T(Schema::OneOf(union)) = schema else {
            continue;
        };
        let mut kinds = BTreeMap::new();
        for variant in &mut union.items {
            let RefOr::T(Schema::Object(object)) = variant else {
                continue;
            };
            let Some(name) = object.title.take() else {
                continue;
            };
            let reference = Ref::from_schema_name(&name);
            if let Some(kind) = kind_of(object) {
                kinds.insert(kind, reference.ref_location.clone());
            }
            named.insert(name, std::mem::replace(variant, reference.into()));
        }
        if !kinds.is_empty() {
            union.discriminator = Some(Discriminator::with_mapping("type", kinds));
        }
    }
    schemas.extend(named);
}

/// Returns the one value of the member `type`, which tells a variant from the others.
fn kind_of(variant: &Object) -> Option<String> {
    let RefOr::T(Schema::Object(kind)) = variant.properties.get("type")? else {
        return None;
    };
    match kind.enum_values.as_deref()? {
        [Value::String(one)] => Some(one.clone()),
        _ => None,
    }
}
