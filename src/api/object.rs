//! The object readers make sure for all wire types that a structure is written as a JSON object.
//!
//! Serde would also read a list as a structure, field by field, but a list is never what the author meant.

use std::{cell::Cell, collections::BTreeMap, fmt, marker::PhantomData};

use serde::{Deserialize, Deserializer, de, de::value::MapAccessDeserializer};

/// Levels of tasks within tasks that are read: one more than a tree may have, so that a tree that is too deep by one is
/// refused with the place.
const TASK_LEVELS_READ_MAX: usize = 41;

/// A value that is read from an object only.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer
            .deserialize_any(Visitor(PhantomData))
            .map(Object)
    }
}

/// Reads a field that is an object or not there.
pub(crate) fn optional<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Option::<Object<T>>::deserialize(deserializer).map(|value| value.map(|Object(inner)| inner))
}

/// Reads a field that is a list of objects or not there.
pub(crate) fn optional_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let items = Option::<Vec<Object<T>>>::deserialize(deserializer)?;
    Ok(items.map(|items| items.into_iter().map(|Object(inner)| inner).collect()))
}

thread_local! {
    /// The levels of tasks within tasks that are being read on this thread.
    static LEVELS: Cell<usize> = const { Cell::new(0) };
}

/// A level of tasks within a task, as long as it is being read.
struct Depth;

impl Depth {
    fn begin<E: de::Error>() -> Result<Self, E> {
        let level = LEVELS.get() + 1;
        if level > TASK_LEVELS_READ_MAX {
            return Err(E::custom(format!(
                "tasks lie more than {TASK_LEVELS_READ_MAX} levels deep in each other: register some of them later, with `parent` or \
                 from a callback"
            )));
        }
        LEVELS.set(level);
        Ok(Self)
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        LEVELS.set(LEVELS.get() - 1);
    }
}

/// Reads a field that is a list of tasks within a task, or not there. Each level takes room on the stack, so they are
/// bounded before any rule is checked.
pub(crate) fn optional_tasks<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let _level = Depth::begin()?;
    optional_list(deserializer)
}

/// Reads an object of texts in which no name comes twice: one of the two values would be lost silently.
pub(crate) fn texts<'de, A: de::MapAccess<'de>>(
    mut map: A,
) -> Result<BTreeMap<String, String>, A::Error> {
    let mut texts = BTreeMap::new();
    while let Some(name) = map.next_key::<String>()? {
        let value = map.next_value()?;
        if texts.contains_key(&name) {
            let name = super::text::shorten(&name);
            return Err(de::Error::custom(format!(
                "`{name}` is given twice: give it once"
            )));
        }
        texts.insert(name, value);
    }
    Ok(texts)
}

/// Reads a field that is such an object or not there.
pub(crate) fn optional_texts<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    struct Visitor;
    impl<'de> de::Visitor<'de> for Visitor {
        type Value = Option<BTreeMap<String, String>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of texts")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            texts(map).map(Some)
        }
    }
    deserializer.deserialize_any(Visitor)
}
