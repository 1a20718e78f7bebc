//! The filter of a list tells for people and jobs which tasks they want.
//!
//! Callback, collection and start are known of an entry, state and error of a row. Labels lie with the content. So they are
//! looked at last, and only of tasks that fit otherwise.

use std::collections::BTreeMap;

use crate::{
    flow::base::{
        api::{Fault, TaskView, VisibleState},
        read::find::Finder,
    },
    model::{
        entry::{Entry, Kind},
        error_class::is_of_class,
        ids::TaskId,
        task::Spec,
        time::Millis,
    },
};

/// Which tasks are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Those of this callback.
    pub callback: Option<String>,
    /// Those of callbacks whose names begin with this.
    pub beginning: Option<String>,
    /// Those of this collection.
    pub collection: Option<String>,
    /// Those in this state.
    pub state: Option<VisibleState>,
    /// Those with all of these labels.
    pub labels: BTreeMap<String, String>,
    /// Those whose last error is of this class ([`is_of_class`]).
    pub error: Option<String>,
    /// Those that start at or after this; none: however long ago.
    pub from: Option<Millis>,
    /// Those that start before this; none: all, or within [`LIST_HORIZON`](crate::limits::LIST_HORIZON) where slots lie apart.
    pub to: Option<Millis>,
    /// Only those that have not ended: a list that leaves the others out does not walk over them.
    pub pending: bool,
    /// Only those that have ended, by their rows.
    pub ended: bool,
    /// Every one: not by the rows of a label, which tasks lack that were registered before their callback named it.
    pub every: bool,
    /// Also the service's own tasks.
    pub internal: bool,
    /// Only those that are no children.
    pub roots: bool,
    /// The runs of this schedule.
    pub schedule: Option<String>,
}

impl Filter {
    /// Tells whether only tasks are wanted that have ended, and have a row that says so.
    pub(super) fn wants_ended_only(&self) -> bool {
        let of_row = |state: VisibleState| state.is_terminal() && state != VisibleState::Published;
        self.ended || (!self.pending && self.state.is_some_and(of_row))
    }

    /// Tells whether tasks that have ended are wanted among others, or alone.
    pub(super) fn wants_ended(&self) -> bool {
        !self.pending && (self.state.is_none() || self.wants_ended_only())
    }

    /// Tells whether a task of this id, of this callback and collection can be wanted.
    pub(super) fn may_be_of(&self, id: TaskId, spec: &Spec) -> bool {
        let names = |wanted: &Option<String>, has| wanted.is_none() || wanted.as_deref() == has;
        let begins = |beginning: &String| {
            spec.callback()
                .is_some_and(|name| name.starts_with(beginning))
        };
        (self.internal || !id.is_internal())
            && !(self.roots && spec.parent().is_some())
            && names(&self.callback, spec.callback())
            && self.beginning.as_ref().is_none_or(begins)
            && names(&self.collection, Some(&spec.collection))
            && names(
                &self.schedule,
                spec.scheduled.as_ref().map(|run| &*run.schedule),
            )
    }

    /// Tells, before any other read, whether an entry can be the place of a wanted task. Only a due entry says
    /// for certain when its task starts: an entry that lies elsewhere is not its place.
    pub(super) fn may_match(&self, entry: &Entry, to: Millis) -> bool {
        let certain = !matches!(entry.kind, Kind::Look { .. });
        self.may_be_of(entry.key.id, &entry.spec) && (!certain || self.in_range(entry.start, to))
    }

    /// Tells whether the task of an entry may be wanted whose row cannot be understood.
    pub(super) fn may_be(&self, entry: &Entry, to: Millis) -> bool {
        self.may_be_of(entry.key.id, &entry.spec) && self.in_range(entry.start, to)
    }

    /// Tells whether a task is wanted by all but its labels.
    pub(super) fn matches(&self, task: &TaskView, to: Millis) -> bool {
        let in_state = self.state.is_none_or(|state| task.state == state);
        let has_ended = task.state.is_terminal();
        let is_other = (self.pending && has_ended) || (self.ended && !has_ended);
        in_state && !is_other && self.in_range(task.start, to) && self.matches_traits(task)
    }

    /// Tells whether a task is of the callback, the collection and the class of error.
    fn matches_traits(&self, task: &TaskView) -> bool {
        let of_class = |wanted: &String| {
            let error = task.error.as_deref();
            error.is_some_and(|error| is_of_class(error, wanted))
        };
        self.may_be_of(task.id, &task.spec) && self.error.as_ref().is_none_or(of_class)
    }

    fn in_range(&self, start: Millis, to: Millis) -> bool {
        self.from.is_none_or(|from| start >= from) && start < to
    }
}

/// Tells whether a task has all of these labels. Those of a content that is kept apart are read.
///
/// # Errors
/// When the store cannot be read.
pub(in crate::flow) async fn has_labels(
    finder: &Finder,
    task: &TaskView,
    wanted: &BTreeMap<String, String>,
) -> Result<bool, Fault> {
    if wanted.is_empty() {
        return Ok(true);
    }
    if let Some(content) = task.spec.content() {
        return Ok(are_among(&content.labels, wanted));
    }
    let content = finder.with_content(task.clone()).await?.content;
    Ok(content.is_some_and(|content| are_among(&content.labels, wanted)))
}

fn are_among(labels: &[(String, String)], wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(name, value)| {
        labels
            .iter()
            .any(|(has, with)| (has, with) == (name, value))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        flow::base::read::find::view_of_entry,
        model::{error_class::error_class, fixtures::spec, wheel::WheelNumber},
    };

    const START: Millis = Millis(1_000_500);

    fn task() -> TaskView {
        let spec = Spec {
            collection: "nightly".to_owned(),
            ..spec()
        };
        let id = TaskId::new(START, WheelNumber::from_low_bits(1), 7);
        let entry = Entry::due(id, 0, 0, START, Arc::new(spec), 0);
        let mut task = view_of_entry(&entry, false);
        task.error = Some("connection 17 refused\nat line 3".to_owned());
        task
    }

    #[test]
    fn each_field_of_a_filter_leaves_out_the_others() {
        let task = task();
        let name = task.spec.callback().map(str::to_owned);
        let fits = Filter {
            beginning: name.clone().map(|name| name[..2].to_owned()),
            callback: name,
            collection: Some("nightly".to_owned()),
            state: Some(task.state),
            error: Some(error_class("connection 18 refused")),
            from: Some(START),
            ..Filter::default()
        };
        let to = Millis(START.0 + 1);
        assert!(fits.matches(&task, to));
        assert!(!fits.matches(&task, START), "it starts at the end");
        let text = |text: &str| Some(text.to_owned());
        let others: [Filter; 7] = [
            Filter {
                callback: text("another"),
                ..fits.clone()
            },
            Filter {
                beginning: text("another"),
                ..fits.clone()
            },
            Filter {
                collection: text(""),
                ..fits.clone()
            },
            Filter {
                state: Some(VisibleState::Dead),
                ..fits.clone()
            },
            Filter {
                error: text("connection refused"),
                ..fits.clone()
            },
            Filter {
                from: Some(to),
                ..fits.clone()
            },
            Filter {
                error: text(""),
                ..fits
            },
        ];
        for other in others {
            assert!(!other.matches(&task, to), "{other:?}");
        }
    }

    #[test]
    fn a_task_has_all_labels_that_are_wanted() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let labels = [pair("tenant", "acme"), pair("tier", "gold")];
        let wants = |pairs: &[(String, String)]| {
            are_among(&labels, &pairs.iter().cloned().collect::<BTreeMap<_, _>>())
        };
        assert!(wants(&[]));
        assert!(wants(&labels[..1]) && wants(&labels));
        assert!(!wants(&[pair("tenant", "acme"), pair("tier", "silver")]));
        assert!(!wants(&[pair("acme", "tenant")]));
    }
}
