//! A task on its way into the wheel, and what becomes of a large content of it.

use std::sync::Arc;

use crate::{
    limits,
    model::{
        dispatch::Dispatch,
        holder::Holder,
        ids::TaskId,
        task::{Body, CONTENT_WRITTEN, Content, Spec},
        time::Millis,
    },
    schema,
};

/// A task with its id, on its way into the wheel.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Incoming {
    pub(in crate::flow) id: TaskId,
    pub(in crate::flow) start: Millis,
    pub(in crate::flow) spec: Arc<Spec>,
    /// The content, if it is kept apart.
    pub(in crate::flow) content: Option<Arc<Content>>,
    /// The write time of that content.
    pub(in crate::flow) content_written: i64,
    /// The tasks that it waits for.
    pub(in crate::flow) after: Vec<TaskId>,
    /// The rows of that wait are durable.
    pub(in crate::flow) enlisted: bool,
}

impl Incoming {
    /// The task that the record of a key names. A content that is kept apart was written before the record.
    pub(in crate::flow) fn of_holder(holder: Holder) -> Self {
        Self {
            id: holder.id,
            start: holder.id.first_start(),
            spec: holder.spec,
            content: None,
            content_written: CONTENT_WRITTEN,
            // Their rows are durable before anything names the task.
            after: Vec::new(),
            enlisted: true,
        }
    }

    /// A task of the service's own. A large content is taken out of its spec: it is written again whenever the task is.
    pub(in crate::flow) fn of_internal(holder: Holder) -> Self {
        let (spec, content) = apart(Arc::unwrap_or_clone(holder.spec));
        let spec = Arc::new(spec);
        Self {
            content,
            ..Self::of_holder(Holder { spec, ..holder })
        }
    }

    /// Returns its first publication.
    pub(super) const fn dispatch(&self) -> Dispatch {
        Dispatch::first(self.id, self.start)
    }
}

/// Takes a large content out of its spec.
pub(super) fn apart(mut spec: Spec) -> (Spec, Option<Arc<Content>>) {
    let Body::Inline(content) = &mut spec.body else {
        return (spec, None);
    };
    let bytes = schema::content_bytes(content);
    if bytes <= limits::INLINE_BYTES_MAX {
        return (spec, None);
    }
    let content = Arc::new(std::mem::take(content));
    let bytes = bytes as u64;
    spec.body = Body::Apart { bytes };
    (spec, Some(content))
}
