//! The path extractor gives the handlers what the path of a request names.

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
use uuid::Uuid;

use crate::{
    api::text::shorten,
    http::{
        Api,
        convert::{self, callback::callback_name, own},
        error::{Code, Error},
    },
    model::ids::{NotATaskId, TaskId},
};

/// The parameter of the path, read as `K` says. A text that cannot be read is an empty one.
#[derive(Debug)]
pub(in crate::http) struct Named<K: InPath>(pub(in crate::http) K::Value);

impl<K: InPath> FromRequestParts<Api> for Named<K> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Error> {
        let text = Path::<String>::from_request_parts(parts, api).await;
        K::read(text.map_or_else(|_| String::new(), |Path(text)| text)).map(Self)
    }
}

/// A kind of name in a path.
pub(in crate::http) trait InPath {
    /// The value of a name.
    type Value;

    /// Reads the text.
    fn read(text: String) -> Result<Self::Value, Error>;
}

/// Makes kinds of names: the value of each, and its reading.
macro_rules! in_path {
    ($($(#[$about:meta])* $name:ident: $value:ty = $read:expr;)*) => {$(
        $(#[$about])*
        #[derive(Debug)]
        pub(in crate::http) struct $name;

        impl InPath for $name {
            type Value = $value;

            fn read(text: String) -> Result<$value, Error> {
                $read(text)
            }
        }
    )*};
}

in_path! {
    /// A task.
    TaskPath: TaskId = |text: String| task_id(&text);
    /// A task that clients may change: none of the service's own.
    ClientTaskPath: TaskId = |text: String| own::refuse_task(task_id(&text)?);
    /// A job. A text that is no id is the id of no job.
    JobPath: Uuid = |text: String| text.parse().map_err(|_| Error::job_not_found());
    /// A schedule.
    SchedulePath: String = |text| {
        let name = convert::name(text);
        name.map_err(|detail| Error::field(Code::InvalidRequest, "/name", detail))
    };
    /// A callback.
    CallbackPath: String = callback_name;
    /// Something whose text is read later.
    TextPath: String = Ok;
}

/// Reads the id of a task.
///
/// # Errors
/// [`Code::InvalidTaskId`].
pub(in crate::http) fn task_id(text: &str) -> Result<TaskId, Error> {
    text.parse().map_err(|error: NotATaskId| {
        let detail = format!("`{}`: {error}", shorten(text));
        Error::new(Code::InvalidTaskId, detail)
    })
}
