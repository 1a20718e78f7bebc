//! The lateness of callbacks tells operators how late this node handed over the tasks of each callback in the last five minutes.
//!
//! It knows a bounded number of callbacks: one that has fired nothing for that long makes room for another. It is forgotten
//! with the process.

use std::collections::{HashMap, VecDeque};

use super::second::{KEPT, Second, classes};
use crate::{limits::CALLBACKS_TOLD_MAX, model::time::Millis};

/// How long the parts are in which work is counted.
const STEP_MS: i64 = 10_000;

/// The work for each callback, part by part, the oldest first.
#[derive(Debug, Default)]
pub(super) struct CallbackLateness {
    callbacks: HashMap<String, VecDeque<Second>>,
}

impl CallbackLateness {
    /// Notes a task that was handed over at `at`, so many milliseconds late.
    pub(super) fn note(&mut self, at: Millis, callback: &str, late_ms: i64) {
        let step = at.0.div_euclid(STEP_MS);
        if !self.callbacks.contains_key(callback) {
            if self.callbacks.len() >= CALLBACKS_TOLD_MAX {
                let is_old = |part: &Second| is_over(part, step);
                self.callbacks
                    .retain(|_, parts| parts.back().is_some_and(|part| !is_old(part)));
            }
            if self.callbacks.len() >= CALLBACKS_TOLD_MAX {
                return;
            }
            self.callbacks.insert(callback.to_owned(), VecDeque::new());
        }
        let Some(parts) = self.callbacks.get_mut(callback) else {
            return;
        };
        // A clock that was set back starts the record anew.
        if parts.back().is_some_and(|last| last.at > step) {
            parts.clear();
        }
        if parts.back().is_none_or(|last| last.at < step) {
            while parts.front().is_some_and(|part| is_over(part, step)) {
                parts.pop_front();
            }
            parts.push_back(Second::new(step));
        }
        if let Some(part) = parts.back_mut() {
            part.fire(late_ms);
        }
    }

    /// Returns how late the tasks of a callback were lately: how many of each class, and the latest.
    pub(super) fn of(&self, now: Millis, callback: &str) -> (Vec<u64>, i64) {
        let step = now.0.div_euclid(STEP_MS);
        let parts = self.callbacks.get(callback).into_iter().flatten();
        let lately: Vec<Second> = parts.filter(|part| !is_over(part, step)).cloned().collect();
        classes(&lately)
    }

    /// Returns the callbacks of which tasks were handed over lately.
    pub(super) fn names(&self, now: Millis) -> Vec<String> {
        let step = now.0.div_euclid(STEP_MS);
        let is_lately =
            |parts: &VecDeque<Second>| parts.back().is_some_and(|part| !is_over(part, step));
        let lately = self.callbacks.iter().filter(|(_, parts)| is_lately(parts));
        lately.map(|(name, _)| name.clone()).collect()
    }
}

/// Tells whether a part lies too far behind.
fn is_over(part: &Second, step: i64) -> bool {
    let steps = i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX) / STEP_MS;
    part.at + steps < step
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::base::figures::second::lateness_of;

    const AT: Millis = Millis(1_000_000_000);

    #[test]
    fn each_callback_has_its_own_and_what_is_old_counts_no_more() {
        let mut known = CallbackLateness::default();
        known.note(AT, "mail", 7_000);
        for _ in 0..199 {
            known.note(Millis(AT.0 + 20_000), "mail", 2);
        }
        known.note(AT, "work", 40);
        let of = |known: &CallbackLateness, after: i64, callback| {
            let (late, latest) = known.of(Millis(AT.0 + after), callback);
            let late = lateness_of(&late, latest)?;
            Some((late.p50_ms, late.p99_ms, late.max_ms))
        };
        assert_eq!(of(&known, 20_000, "mail"), Some((2, 2, 7_000)));
        assert_eq!(of(&known, 20_000, "work"), Some((40, 40, 40)));
        assert_eq!(of(&known, 20_000, "other"), None);
        assert_eq!(of(&known, 310_000, "mail"), Some((2, 2, 2)));
        assert_eq!(of(&known, 310_000, "work"), None);
    }

    #[test]
    fn invented_callbacks_take_no_room_for_ever() {
        let mut known = CallbackLateness::default();
        for number in 0..1000 {
            known.note(AT, &format!("c{number}"), 1);
        }
        assert_eq!(known.callbacks.len(), CALLBACKS_TOLD_MAX);
        known.note(AT, "mail", 1);
        assert_eq!(known.of(AT, "mail").0.iter().sum::<u64>(), 0);
        let later = Millis(AT.0 + 400_000);
        known.note(later, "mail", 1);
        assert_eq!(known.of(later, "mail").0.iter().sum::<u64>(), 1);
        assert_eq!(known.names(later), ["mail"]);
        assert_eq!(known.callbacks.len(), 1);
    }
}
