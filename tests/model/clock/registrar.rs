//! The registrar of the model writes tasks: a registration that may come late, the near path, a
//! cancel without a row.

use super::{
    Clock, Flaw,
    world::{BEGIN, Copy, EARLY, LATE, Registrar, State, tick_of},
};
use crate::search::Steps;

impl Clock {
    /// A task that was registered long ago lies in any tick.
    pub(super) fn place_early(&self, steps: &mut Steps<'_, State>) {
        for number in 1..=self.ticks {
            steps.add("lies in", number, |s| {
                s.unplaced = false;
                *s.copy(EARLY, number) = Copy::Visible;
            });
        }
    }

    pub(super) fn registration(&self, steps: &mut Steps<'_, State>) {
        let opened = steps.from.clock.opened;
        match steps.from.registrar {
            Registrar::Idle => self.begin(steps),
            Registrar::Writing(number, seen) => {
                let there = steps.from.copy_at(LATE, number);
                if !matches!(there, Copy::None | Copy::InFlight) {
                    steps.add("durable", number, |s| {
                        s.registrar = Registrar::Durable(number, seen);
                    });
                }
            }
            Registrar::Durable(number, seen) => self.look_at_clock(number, seen, opened, steps),
            Registrar::Acknowledged(number) => {
                self.cancel(number, steps);
                self.inherit(number, steps);
            }
            Registrar::Near(number) => self.near(number, steps),
            Registrar::Cancelling(number) => {
                if steps.from.copy_at(LATE, number) != Copy::MarkInFlight {
                    steps.add("mark durable", number, |s| {
                        s.registrar = Registrar::CancelDurable(number);
                    });
                }
            }
            Registrar::CancelDurable(number) => self.answer_cancel(number, steps),
            Registrar::Cancelled => {}
        }
    }

    /// The registrar knows any hand of the past, and writes behind it.
    fn begin(&self, steps: &mut Steps<'_, State>) {
        if self.flaw == Flaw::NearWithoutRecord {
            steps.add("keep in memory", 0, |s| s.registrar = Registrar::Near(1));
        }
        for guess in BEGIN.0..=steps.from.clock.opened.0 {
            let number = guess + 1 - BEGIN.0;
            if number <= self.ticks + 1 {
                self.write(number, steps);
            }
        }
    }

    fn write(&self, number: i64, steps: &mut Steps<'_, State>) {
        let opened = steps.from.clock.opened;
        let there = steps.from.copy_at(LATE, number);
        let mut write = |copy: Copy| {
            steps.add("write", number, |s| {
                *s.copy(LATE, number) = copy;
                s.registrar = Registrar::Writing(number, opened);
            });
        };
        match there {
            Copy::None => write(Copy::InFlight),
            // The write lies beside a tombstone that is newer or older than it.
            Copy::Erased => {
                write(Copy::Shadowed);
                write(Copy::InFlight);
            }
            Copy::InFlight | Copy::Visible | Copy::MarkInFlight | Copy::Marked | Copy::Shadowed => {
            }
        }
    }

    fn look_at_clock(
        &self,
        number: i64,
        seen: tickwheel::model::time::Tick,
        opened: tickwheel::model::time::Tick,
        steps: &mut Steps<'_, State>,
    ) {
        let hand = match self.flaw {
            Flaw::NoCheck => BEGIN,
            Flaw::CheckBeforeDurable => seen,
            _ => opened,
        };
        if tick_of(number) > hand {
            steps.add("acknowledge", number, |s| {
                s.registrar = Registrar::Acknowledged(number);
            });
            if self.near {
                steps.add("acknowledge near", number, |s| {
                    s.registrar = Registrar::Near(number);
                });
            }
            return;
        }
        // The registrar writes further on; the copy that came too late is marked, or that mark is lost.
        steps.add("again", number, |s| {
            s.registrar = Registrar::Idle;
            s.moved = true;
        });
        if steps.from.copy_at(LATE, number) == Copy::Visible {
            steps.add("again, marks", number, |s| {
                s.registrar = Registrar::Idle;
                s.moved = true;
                *s.copy(LATE, number) = Copy::MarkInFlight;
            });
        }
    }

    /// The node fires the task from its memory, or dies and leaves it to its record.
    fn near(&self, number: i64, steps: &mut Steps<'_, State>) {
        steps.add("memory is lost", 0, |s| {
            s.registrar = Registrar::Acknowledged(number);
            s.cancels = 0;
        });
        let acts = steps.from.copy_at(LATE, number) == Copy::Visible;
        if self.flaw == Flaw::MarksBeforePublish && acts {
            steps.add("mark", number, |s| {
                *s.copy(LATE, number) = Copy::MarkInFlight;
            });
        }
        steps.add("publish from memory", 0, |s| s.published[LATE] = true);
    }

    /// Another node finds the record of a task whose node has died, and holds the task in its own memory. The record stands.
    fn inherit(&self, number: i64, steps: &mut Steps<'_, State>) {
        if !self.near || !steps.from.copy_at(LATE, number).acts() {
            return;
        }
        steps.add("inherit", number, |s| {
            s.registrar = Registrar::Near(number);
            if self.flaw == Flaw::MarksInherited {
                *s.copy(LATE, number) = Copy::MarkInFlight;
            }
        });
    }

    /// A `kafka` task is cancelled by a mark over its only entry, while its tick is not open.
    fn cancel(&self, number: i64, steps: &mut Steps<'_, State>) {
        let may = !steps.from.moved || self.flaw == Flaw::CancelsMoved;
        let open = tick_of(number) > steps.from.clock.opened;
        if steps.from.cancels > 0
            && may
            && open
            && steps.from.copy_at(LATE, number) == Copy::Visible
        {
            steps.add("cancel", number, |s| {
                s.cancels -= 1;
                *s.copy(LATE, number) = Copy::MarkInFlight;
                s.registrar = Registrar::Cancelling(number);
            });
        }
    }

    /// The answer is certain only if the tick is still not open; otherwise the task is kept, further on.
    fn answer_cancel(&self, number: i64, steps: &mut Steps<'_, State>) {
        let open = tick_of(number) > steps.from.clock.opened;
        if open || self.flaw == Flaw::CancelWithoutCheck {
            steps.add("answer cancelled", number, |s| {
                s.registrar = Registrar::Cancelled;
            });
        } else if self.flaw == Flaw::CancelledIsNotKept {
            steps.add("answer too late", number, |s| {
                s.registrar = Registrar::Acknowledged(number);
            });
        } else {
            steps.add("keep", number, |s| {
                s.registrar = Registrar::Idle;
                s.moved = true;
            });
        }
    }
}
