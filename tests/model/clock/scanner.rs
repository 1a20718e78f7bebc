//! The two nodes of the model fire tasks: they swap the row and run the stages of a term.

use tickwheel::model::{
    clock::{ClockRow, Move, Position, Situation, next},
    time::Millis,
};

use super::{
    Clock, Flaw,
    world::{
        BEGIN, Copy, EARLY, LATE, Node, Registrar, State, TICKS, Term, lapsed, node_id, position,
        rules, tick, tick_of,
    },
};
use crate::search::Steps;

impl Clock {
    /// A node takes a row that is known to be in the store and to be its own.
    fn adopt(&self, node: &mut Node, row: ClockRow) {
        let begins = node.term.is_none();
        node.adopt(row);
        if self.flaw == Flaw::BeginsAtOpened && begins {
            let fired = Position::behind(tick().end_of(row.opened));
            node.term = Some(Term::new(&ClockRow { fired, ..row }));
        }
    }

    /// Returns the swaps that a node may propose: at every tick, as one that stays or one that leaves the
    /// wheel to the other.
    fn proposals(&self, node: usize, row: &ClockRow, term: Option<&Term>) -> Vec<ClockRow> {
        let mut rows: Vec<ClockRow> = Vec::new();
        let other = node_id(1 - node);
        for ended in 0..=self.ticks {
            for (leaving, preferred) in [(false, None), (true, None), (false, Some(other))] {
                if (leaving || preferred.is_some()) && !self.hands_over {
                    continue;
                }
                let s = Situation {
                    me: node_id(node),
                    now: tick().end_of(BEGIN.plus(ended)),
                    median_wall: None,
                    preferred,
                    leaving,
                    free_since: Some(Millis::EPOCH),
                    avoid_until: None,
                    progress: term.map(Term::progress),
                };
                let Move::Swap { to, .. } = next(row, &rules(), &s) else {
                    continue;
                };
                assert!(row.may_become(&to, &rules().shape), "{row:?} {to:?}");
                let to = lapsed(to);
                // A mere renewal changes nothing here, since no lease holds anyway.
                let news = ClockRow {
                    version: row.version,
                    ..to
                } != *row;
                if news && !rows.contains(&to) {
                    rows.push(to);
                }
            }
        }
        rows
    }

    pub(super) fn swaps(&self, node: usize, steps: &mut Steps<'_, State>) {
        let (from, me, who) = (steps.from, node_id(node), node as i64);
        let state = &from.nodes[node];
        if let Some(to) = state.unknown {
            self.settle(node, to, steps);
            return;
        }
        if state.owned.is_none() && state.term.is_some() {
            steps.add("read clock", who, |s| {
                if s.clock.owner == me {
                    s.nodes[node].owned = Some(s.clock);
                } else {
                    s.nodes[node].forget();
                }
            });
            return;
        }
        let row = state.owned.unwrap_or(from.clock);
        if row.version != from.clock.version {
            steps.add("conflict", who, |s| s.nodes[node].forget());
            return;
        }
        if row.version >= self.versions {
            return;
        }
        for to in self.proposals(node, &row, state.term.as_ref()) {
            steps.add("swap", who, |s| {
                s.clock = to;
                if to.owner == me {
                    self.adopt(&mut s.nodes[node], to);
                } else {
                    s.nodes[node].forget();
                }
            });
            steps.add("swap, reply lost", who, |s| {
                s.clock = to;
                s.nodes[node].unknown = Some(to);
            });
            if from.late.is_none() {
                steps.add("swap, timed out", who, |s| {
                    s.late = Some(to);
                    s.nodes[node].unknown = Some(to);
                });
            }
        }
    }

    /// The clock stage settles an unknown outcome by a serial read, or not at all if that fails, too.
    fn settle(&self, node: usize, to: ClockRow, steps: &mut Steps<'_, State>) {
        let (row, me, who) = (steps.from.clock, node_id(node), node as i64);
        if self.flaw == Flaw::UnknownIsApplied {
            steps.add("assume applied", who, |s| {
                s.nodes[node].unknown = None;
                self.adopt(&mut s.nodes[node], to);
            });
            return;
        }
        steps.add("serial read", who, |s| {
            let node = &mut s.nodes[node];
            node.unknown = None;
            if row.version >= to.version && row.owner == to.owner && row.owner == me {
                self.adopt(node, row);
            } else if row.owner == me && node.term.is_some() {
                node.owned = Some(row);
            } else {
                node.forget();
            }
        });
        steps.add("serial read fails", who, |s| {
            s.nodes[node].unknown = None;
            s.nodes[node].owned = None;
        });
    }

    pub(super) fn stages(&self, node: usize, steps: &mut Steps<'_, State>) {
        let Some(term) = &steps.from.nodes[node].term else {
            return;
        };
        let who = node as i64;
        if term.cursor <= term.opened {
            self.read(node, term, steps);
        }
        for (number, task, tick) in &term.held {
            steps.add("publish", *tick, |s| {
                s.published[usize::from(*task)] = true;
                if let Some(term) = &mut s.nodes[node].term {
                    s.too_early |= tick_of(*tick) > term.opened;
                    term.held.retain(|held| held.0 != *number);
                    term.ledger.done(*number);
                }
            });
        }
        if self.erases
            && let Some(number) = term.erasable()
        {
            self.erase(node, number, steps);
        }
        steps.add("lease ends", who, |s| s.nodes[node].forget());
    }

    /// Reads the entries of a tick's span in its slot, behind the position that the term began with.
    fn read(&self, node: usize, term: &Term, steps: &mut Steps<'_, State>) {
        let shape = rules().shape;
        let (slot, span) = (shape.slot_of(term.cursor), shape.span_of(term.cursor));
        let held = matches!(steps.from.registrar, Registrar::Near(_));
        let passes = self.flaw == Flaw::PassesHeld && held;
        let mut found: Vec<(Position, usize, i64)> = Vec::new();
        for number in 1..=TICKS as i64 {
            for task in [LATE, EARLY] {
                if task == LATE && passes {
                    continue;
                }
                let at = position(task, number);
                let inside = span.contains(at.due) || self.flaw == Flaw::ReadsWholeSlot;
                let there = shape.slot_of_due(at.due) == slot && inside;
                if there && at > term.behind && steps.from.copy_at(task, number).acts() {
                    found.push((at, task, number));
                }
            }
        }
        found.sort_unstable();
        let early = self.flaw == Flaw::FiredBeforePublished;
        let at = term.cursor.0 - BEGIN.0;
        steps.add("read slot", at, |s| {
            let Some(term) = &mut s.nodes[node].term else {
                return;
            };
            for (at, task, number) in found {
                let noted = term.ledger.note(at);
                if early {
                    term.ledger.done(noted);
                } else {
                    term.held.push((noted, task as u8, number));
                }
            }
            term.ledger
                .reached(Position::behind(tick().end_of(term.cursor)));
            term.cursor = term.cursor.plus(1);
        });
    }

    /// One range delete of a tick's span in its slot.
    fn erase(&self, node: usize, number: i64, steps: &mut Steps<'_, State>) {
        let shape = rules().shape;
        let (slot, span) = (
            shape.slot_of(tick_of(number)),
            shape.span_of(tick_of(number)),
        );
        for survives in [false, true] {
            steps.add("erase", number, |s| {
                for other in 1..=TICKS as i64 {
                    for task in [LATE, EARLY] {
                        let due = position(task, other).due;
                        let inside = span.contains(due) || self.flaw == Flaw::ErasesPartition;
                        if inside && shape.slot_of_due(due) == slot {
                            let copy = s.copy(task, other);
                            *copy = erased(*copy, survives);
                        }
                    }
                }
                if let Some(term) = &mut s.nodes[node].term {
                    term.erased = tick_of(number);
                }
            });
        }
    }
}

/// Applies a range delete, which a write in flight survives if it is newer.
fn erased(copy: Copy, survives: bool) -> Copy {
    match copy {
        Copy::InFlight if survives => Copy::InFlight,
        Copy::InFlight | Copy::Shadowed => Copy::Shadowed,
        Copy::None | Copy::Visible | Copy::MarkInFlight | Copy::Marked | Copy::Erased => {
            Copy::Erased
        }
    }
}
