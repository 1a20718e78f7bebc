//! The notes tell a node which tasks wait, by callback, as far as it has seen. They are for figures, and nothing rests on them.
//!
//! A note ends by itself, on the monotonic clock: a wall clock that leaps, and a task that went elsewhere, leave no note for
//! ever. Memory is bounded by the number of notes.

use std::{collections::HashMap, sync::Arc};

use crate::{
    model::{ids::TaskId, time::Millis},
    time_source::Moment,
};

/// A note of a task.
#[derive(Debug, Clone, Copy)]
pub(in crate::flow) struct Note {
    /// When the task was due, or began to wait.
    pub(in crate::flow) due: Millis,
    /// It is known to wait until then.
    pub(in crate::flow) until: Moment,
    /// When it was last known to wait.
    pub(in crate::flow) seen: Moment,
}

/// The tasks of one callback that are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::flow) struct Count {
    pub(in crate::flow) callback: Arc<str>,
    pub(in crate::flow) tasks: u64,
    /// Since when the oldest is due.
    pub(in crate::flow) oldest: Millis,
}

#[derive(Debug)]
struct Callback {
    name: Arc<str>,
    tasks: usize,
}

/// The notes.
#[derive(Debug, Default)]
pub(in crate::flow) struct Notes {
    /// Each with the place of its callback.
    tasks: HashMap<TaskId, (usize, Note)>,
    callbacks: Vec<Callback>,
    /// Where callbacks are that have tasks.
    places: HashMap<Arc<str>, usize>,
    /// Places of callbacks that have none any more.
    free: Vec<usize>,
}

impl Notes {
    /// Notes that a task waits. A note that is there lasts as long as the longer of both. Tells whether there is room.
    pub(in crate::flow) fn put(
        &mut self,
        id: TaskId,
        callback: &str,
        note: Note,
        max: usize,
    ) -> bool {
        if let Some((_, known)) = self.tasks.get_mut(&id) {
            *known = Note {
                due: known.due.max(note.due),
                until: known.until.max(note.until),
                seen: known.seen.max(note.seen),
            };
            return true;
        }
        if self.tasks.len() >= max {
            return false;
        }
        let place = self.place(callback);
        if let Some(callback) = self.callbacks.get_mut(place) {
            callback.tasks += 1;
        }
        self.tasks.insert(id, (place, note));
        true
    }

    /// Notes that a task waits still: its note lasts until `until`, or longer if it did.
    pub(in crate::flow) fn seen(&mut self, id: TaskId, now: Moment, until: Option<Moment>) {
        if let Some((_, note)) = self.tasks.get_mut(&id) {
            note.seen = now;
            note.until = note.until.max(until.unwrap_or(note.until));
        }
    }

    /// Tells whether a task is noted.
    pub(in crate::flow) fn has(&self, id: TaskId) -> bool {
        self.tasks.contains_key(&id)
    }

    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let name: Arc<str> = Arc::from(name);
        let callback = Callback {
            name: Arc::clone(&name),
            tasks: 0,
        };
        let place = self.free.pop().unwrap_or(self.callbacks.len());
        match self.callbacks.get_mut(place) {
            Some(old) => *old = callback,
            None => self.callbacks.push(callback),
        }
        self.places.insert(name, place);
        place
    }

    /// Forgets a task.
    pub(in crate::flow) fn forget(&mut self, id: TaskId) {
        let Some((place, _)) = self.tasks.remove(&id) else {
            return;
        };
        if let Some(callback) = self.callbacks.get_mut(place) {
            callback.tasks -= 1;
            if callback.tasks == 0 {
                self.places.remove(&callback.name);
                self.free.push(place);
            }
        }
    }

    /// Forgets the tasks whose notes have ended.
    pub(in crate::flow) fn expire(&mut self, now: Moment) {
        let old = self.tasks.iter().filter(|(_, (_, note))| note.until <= now);
        let old: Vec<TaskId> = old.map(|(id, _)| *id).collect();
        for id in old {
            self.forget(id);
        }
    }

    /// Returns tasks that were seen to wait before `before`, at most `max`: those that were seen longest ago, in their order.
    pub(in crate::flow) fn seen_before(&self, before: Moment, max: usize) -> Vec<TaskId> {
        let old = self.tasks.iter();
        let old = old.filter(|(_, (_, note))| note.seen < before);
        let mut old: Vec<(Moment, TaskId)> = old.map(|(id, (_, note))| (note.seen, *id)).collect();
        if old.len() > max {
            old.select_nth_unstable(max);
            old.truncate(max);
        }
        old.sort_unstable();
        old.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns how many tasks of each callback are due at `now`, the most first.
    pub(in crate::flow) fn counts(&self, now: Millis) -> Vec<Count> {
        let mut sums: Vec<(u64, Millis)> = vec![(0, now); self.callbacks.len()];
        for (place, note) in self.tasks.values().filter(|(_, note)| note.due <= now) {
            if let Some((tasks, oldest)) = sums.get_mut(*place) {
                *tasks += 1;
                *oldest = note.due.min(*oldest);
            }
        }
        let counted = self.callbacks.iter().zip(sums);
        let mut counts: Vec<Count> = counted
            .filter(|(_, (tasks, _))| *tasks > 0)
            .map(|(callback, (tasks, oldest))| Count {
                callback: Arc::clone(&callback.name),
                tasks,
                oldest,
            })
            .collect();
        counts.sort_by(|one, other| {
            let order = other.tasks.cmp(&one.tasks);
            order.then_with(|| one.callback.cmp(&other.callback))
        });
        counts
    }

    /// Returns the tasks that are due at `at`, with their callbacks.
    pub(in crate::flow) fn due(&self, at: Millis) -> Vec<(TaskId, Arc<str>)> {
        let due = self.tasks.iter().filter(|(_, (_, note))| note.due <= at);
        let named = due.filter_map(|(id, (place, _))| {
            let callback = self.callbacks.get(*place)?;
            Some((*id, Arc::clone(&callback.name)))
        });
        named.collect()
    }

    /// Returns how many tasks of a callback are due at `now`, and since when the oldest is.
    pub(in crate::flow) fn of(&self, callback: &str, now: Millis) -> (u64, Option<Millis>) {
        let place = self.places.get(callback).copied();
        let tasks = self.tasks.values();
        let due = tasks.filter(|(at, note)| Some(*at) == place && note.due <= now);
        due.fold((0, None), |(tasks, oldest), (_, note)| {
            let oldest: Option<Millis> = oldest;
            let older = oldest.map_or(note.due, |oldest| oldest.min(note.due));
            (tasks + 1, Some(older))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{model::wheel::WheelNumber, time_source::TimeSource};

    fn id(number: u64) -> TaskId {
        TaskId::new(Millis(0), WheelNumber::new(0).unwrap(), number)
    }

    fn counts(notes: &Notes, now: i64) -> Vec<(String, u64, i64)> {
        let counts = notes.counts(Millis(now)).into_iter();
        let of = |one: Count| (one.callback.to_string(), one.tasks, one.oldest.0);
        counts.map(of).collect()
    }

    #[test]
    fn a_task_counts_once_and_until_it_is_taken() {
        let mut notes = Notes::default();
        let began = TimeSource::real().moment();
        let at = |ms| began.after(Duration::from_millis(ms));
        let note = |due: u64, until| Note {
            due: Millis(due as i64),
            until: at(until),
            seen: at(due),
        };
        for (number, due) in [(1, 100), (2, 200), (2, 150), (3, 300)] {
            assert!(notes.put(id(number), "mail", note(due, 9999), 4));
        }
        assert!(notes.put(id(4), "bill", note(50, 1000), 4));
        assert!(!notes.put(id(5), "bill", note(50, 9999), 4));
        assert_eq!(notes.seen_before(at(101), 9), [id(4), id(1)]);
        assert_eq!(notes.seen_before(at(999), 3), [id(4), id(1), id(2)]);
        let expected = [("mail".to_owned(), 3, 100), ("bill".to_owned(), 1, 50)];
        assert_eq!(counts(&notes, 900), expected);
        assert_eq!(notes.of("mail", Millis(250)), (2, Some(Millis(100))));
        notes.forget(id(1));
        notes.forget(id(1));
        notes.expire(at(999));
        assert!(notes.has(id(4)), "its note has not ended");
        notes.expire(at(1000));
        assert_eq!(counts(&notes, 1001), [("mail".to_owned(), 2, 200)]);
        assert_eq!((notes.places.len(), notes.free.len()), (1, 1));
        assert!(notes.put(id(6), "ship", note(50, 9999), 4));
        assert_eq!(notes.callbacks.len(), 2, "places are used again");
    }

    #[test]
    fn a_note_lasts_as_long_as_the_longest_says() {
        let mut notes = Notes::default();
        let began = TimeSource::real().moment();
        let at = |ms| began.after(Duration::from_millis(ms));
        let note = |until, seen| Note {
            due: Millis(0),
            until: at(until),
            seen: at(seen),
        };
        notes.put(id(1), "mail", note(500, 100), 9);
        // A wall clock that was ahead for a while has put this one.
        notes.put(id(1), "mail", note(300, 50), 9);
        notes.expire(at(499));
        assert_eq!(notes.seen_before(at(101), 9), [id(1)]);
        notes.seen(id(1), at(200), None);
        assert_eq!(notes.seen_before(at(200), 9), []);
        notes.expire(at(500));
        assert!(!notes.has(id(1)), "nothing has made it longer");
        notes.put(id(2), "mail", note(500, 100), 9);
        notes.seen(id(2), at(200), Some(at(700)));
        notes.expire(at(699));
        assert!(notes.has(id(2)));
        notes.expire(at(700));
        assert!(!notes.has(id(2)));
    }
}
