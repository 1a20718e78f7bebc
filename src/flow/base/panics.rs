//! A panic costs the piece of work that it came from, and nothing beside it.
//!
//! A stage that panics is started anew ([`crate::flow::stages::wheel::stages`]), and then what it holds besides is gone, and
//! comes again with a look, minutes later. So pieces of work that lie beside each other in one stage are caught one by one
//! (`caught`): such a panic is a fault like others, which the stage knows how to repeat.
//!
//! In a debug build a test makes stages and pieces panic, by their names, on its own thread.

use std::{any::Any, panic::AssertUnwindSafe, pin::pin, time::Duration};

use futures_util::FutureExt as _;

use super::api::Fault;

/// Does a piece of work; a panic in it is a fault. `work` names it in the log and the metric.
pub(in crate::flow) fn caught<T>(
    work: &'static str,
    act: impl Future<Output = Result<T, Fault>> + Send,
) -> impl Future<Output = Result<T, Fault>> + Send {
    // Locks are entered again after a panic everywhere, so what is shared stays usable.
    let act = AssertUnwindSafe(strikable(work, Box::pin(act))).catch_unwind();
    act.map(move |done| done.unwrap_or_else(|panic| Err(failed(work, said(&*panic)))))
}

fn failed(work: &'static str, panic: &str) -> Fault {
    tracing::error!(work, panic, "a piece of work failed; it is tried again");
    metrics::counter!("tickwheel_stage_restarts_total", "stage" => work).increment(1);
    Fault::Unavailable {
        reason: format!("{work}: {panic}"),
        retry_after: Duration::from_secs(1),
    }
}

/// Returns the words of a panic.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it panicked")
}

/// The same future, which panics when a test wants it, at any point where it waits.
pub(in crate::flow) async fn strikable<T>(work: &'static str, act: impl Future<Output = T>) -> T {
    let mut act = pin!(act);
    std::future::poll_fn(|context| {
        strikes::pass(work);
        act.as_mut().poll(context)
    })
    .await
}

#[cfg(any(debug_assertions, feature = "flaws"))]
pub use strikes::{Strike, names, strike, strikes_left};

#[cfg(any(debug_assertions, feature = "flaws"))]
mod strikes {
    use std::{cell::RefCell, collections::BTreeSet};

    /// The panics that a test has asked for.
    #[derive(Debug, Clone, Copy)]
    pub struct Strike {
        /// The name of the stage or the piece of work.
        pub work: &'static str,
        /// It goes on so many times unharmed before.
        pub after: u32,
        /// Then it panics so many times.
        pub times: u32,
    }

    thread_local! {
        static ASKED: RefCell<Option<Strike>> = const { RefCell::new(None) };
        static NAMES: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
    }

    /// Has something panic on this thread, or nothing from now on.
    pub fn strike(strike: Option<Strike>) {
        ASKED.set(strike);
    }

    /// Returns how many panics that were asked for have not come yet.
    #[must_use]
    pub fn strikes_left() -> u32 {
        ASKED.with_borrow(|asked| asked.map_or(0, |strike| strike.times))
    }

    /// Returns the names of all stages and pieces of work that have run on this thread.
    #[must_use]
    pub fn names() -> BTreeSet<&'static str> {
        NAMES.with_borrow(Clone::clone)
    }

    pub(super) fn pass(work: &'static str) {
        NAMES.with_borrow_mut(|names| names.insert(work));
        let panics = ASKED.with_borrow_mut(|asked| {
            let Some(strike) = asked.as_mut().filter(|strike| strike.work == work) else {
                return false;
            };
            if strike.after > 0 {
                strike.after -= 1;
                return false;
            }
            let panics = strike.times > 0;
            strike.times = strike.times.saturating_sub(1);
            panics
        });
        assert!(!panics, "a panic that the test asked for");
    }
}

#[cfg(not(any(debug_assertions, feature = "flaws")))]
mod strikes {
    #[inline(always)]
    pub(super) const fn pass(_: &str) {}
}
