//! The clients of the key model register by the rules, one read or write a step, with every fault between two steps.

use super::{
    Flaw, Keys, Steps, Verdict,
    world::{Client, IDLE, Late, Mode, Next, Row, World},
};

impl Keys {
    /// A conditional write with all its outcomes: `then` when it was applied, `otherwise` when it was refused, `unknown` when
    /// its client does not know.
    fn swap(
        &self,
        steps: &mut Steps<'_, World>,
        c: usize,
        write: Late,
        then: impl Fn(&mut Client),
        otherwise: impl Fn(&World, &mut Client),
        unknown: Next,
    ) {
        let who = c as i64;
        if steps.from.holds(write) {
            steps.add("written", who, |world| {
                world.apply(write);
                then(&mut world.clients[c]);
            });
        } else {
            steps.add("refused", who, |world| {
                let mut client = world.clients[c];
                otherwise(world, &mut client);
                world.clients[c] = client;
            });
        }
        if steps.from.lost == 0 {
            return;
        }
        let not_known = |world: &mut World| {
            world.lost -= 1;
            world.clients[c].next = unknown;
            world.clients[c].out = true;
        };
        if steps.from.holds(write) {
            steps.add("unknown, written", who, |world| {
                world.apply(write);
                not_known(world);
            });
        }
        steps.add("unknown", who, not_known);
        steps.add("unknown, later", who, |world| {
            world.late.push(write);
            not_known(world);
        });
    }

    pub(super) fn client(&self, steps: &mut Steps<'_, World>, c: usize) {
        let (world, who) = (steps.from, c as i64);
        let client = world.clients[c];
        match client.next {
            Next::Begin => self.begin(steps, c),
            Next::Record | Next::Take => self.ask(steps, c),
            Next::ReadRecord => steps.add("read", who, |world| {
                let named = world.record;
                let client = &mut world.clients[c];
                client.named = named;
                let reads = self.flaw != Flaw::OwnRowNotRead;
                client.next = match named {
                    _ if client.out && reads && named != client.mine => Next::ReadOwnRow,
                    0 => Next::Record,
                    _ => Next::ReadRow,
                };
            }),
            Next::ReadOwnRow => steps.add("read own row", who, |world| {
                let row = world.rows[client.mine - 1];
                let client = &mut world.clients[c];
                client.next = match client.named {
                    _ if !matches!(row, Row::Absent | Row::Expired) => {
                        client.named = client.mine;
                        Next::Answer
                    }
                    0 => Next::Record,
                    _ => Next::ReadRow,
                };
            }),
            Next::ReadRow => self.read_row(steps, c),
            Next::WriteEntry => steps.add("entry", who, |world| {
                world.apply(Late::Entry(client.named));
                let first = self.flaw == Flaw::EntryFirst && world.record != client.named;
                world.clients[c].next = if first { Next::Record } else { Next::Answer };
            }),
            Next::Replace => self.replace(steps, c),
            Next::Advance => self.advance(steps, c),
            Next::ReadAdvanced => steps.add("read", who, |world| {
                let mut client = world.clients[c];
                advanced(world, &mut client);
                world.clients[c] = client;
            }),
            Next::Answer => self.answer(steps, c),
            Next::Nothing if client.again == 0 => steps.add("again", who, |world| {
                world.clients[c] = Client { again: 1, ..IDLE };
            }),
            Next::Nothing => {}
        }
        self.crash(steps, c);
    }

    fn begin(&self, steps: &mut Steps<'_, World>, c: usize) {
        steps.add("begin", c as i64, |world| {
            let client = &mut world.clients[c];
            let again = usize::from(client.again);
            let is_marked = self.modes[c] == Mode::Marked;
            client.mine = if is_marked {
                1 + 2 * c
            } else {
                1 + 2 * c + again
            };
            client.out = again > 0 && is_marked;
            client.next = Next::Record;
            if self.flaw == Flaw::EntryFirst {
                client.named = client.mine;
                client.next = Next::WriteEntry;
            }
        });
    }

    /// Asks for the key: of no task, or of one that has ended.
    fn ask(&self, steps: &mut Steps<'_, World>, c: usize) {
        let client = steps.from.clients[c];
        let takes = client.next == Next::Take;
        let expected = if takes { client.named } else { 0 };
        let to = client.mine;
        let entry_first = self.flaw == Flaw::EntryFirst;
        self.swap(
            steps,
            c,
            Late::Record { expected, to },
            |client| {
                client.named = client.mine;
                client.next = if entry_first {
                    Next::Answer
                } else {
                    Next::WriteEntry
                };
            },
            |world, client| {
                client.next = Next::ReadRecord;
                if !client.out && !takes {
                    client.named = world.record;
                    client.next = Next::ReadRow;
                }
            },
            Next::ReadRecord,
        );
    }

    fn read_row(&self, steps: &mut Steps<'_, World>, c: usize) {
        let (world, who) = (steps.from, c as i64);
        let client = world.clients[c];
        let at = client.named - 1;
        let absent = matches!(world.rows[at], Row::Absent | Row::Expired);
        let written = world.entries[at] != super::world::Entry::None;
        let mode = self.modes[c];
        let next = match self.judge(world, &client) {
            // A marked request names one task for a day, whatever that does.
            Verdict::Free if mode == Mode::Marked => Next::Answer,
            Verdict::Free => Next::Take,
            Verdict::Replaced => Next::Advance,
            Verdict::Live if self.flaw == Flaw::Takeover && absent && !written => Next::Take,
            Verdict::Live if mode == Mode::Replace && self.flaw == Flaw::RecordOnly => Next::Take,
            Verdict::Live if mode == Mode::Replace => Next::Replace,
            Verdict::Live if self.flaw == Flaw::NoHelp => Next::Answer,
            Verdict::Mine if !absent => Next::Answer,
            Verdict::Mine | Verdict::Live | Verdict::Redriven => Next::WriteEntry,
        };
        steps.add("read row", who, |world| {
            let instead = world.instead[at];
            world.clients[c].next = next;
            if next == Next::Advance {
                world.clients[c].instead = instead;
            }
        });
    }

    /// The moment of a replacement.
    fn replace(&self, steps: &mut Steps<'_, World>, c: usize) {
        let client = steps.from.clients[c];
        let (task, instead) = (client.named, client.mine);
        self.swap(
            steps,
            c,
            Late::Row { task, instead },
            |client| {
                client.instead = client.mine;
                client.next = Next::Advance;
            },
            |_, client| client.next = Next::ReadRecord,
            Next::ReadRecord,
        );
    }

    fn advance(&self, steps: &mut Steps<'_, World>, c: usize) {
        let client = steps.from.clients[c];
        let (expected, to) = (client.named, client.instead);
        self.swap(
            steps,
            c,
            Late::Record { expected, to },
            |client| {
                if client.instead == client.mine {
                    client.named = client.mine;
                    client.next = Next::WriteEntry;
                } else {
                    client.next = Next::ReadRecord;
                }
            },
            advanced,
            Next::ReadAdvanced,
        );
    }

    fn answer(&self, steps: &mut Steps<'_, World>, c: usize) {
        let who = c as i64;
        let told = |world: &mut World| {
            let named = world.clients[c].named;
            world.answered[named - 1] = true;
        };
        steps.add("answer", who, |world| {
            told(world);
            world.clients[c] = world.clients[c].over(2);
        });
        if steps.from.lost > 0 && steps.from.clients[c].again == 0 {
            steps.add("answer lost", who, |world| {
                told(world);
                world.lost -= 1;
                world.clients[c] = Client { again: 1, ..IDLE };
            });
        }
    }

    fn crash(&self, steps: &mut Steps<'_, World>, c: usize) {
        let (world, who) = (steps.from, c as i64);
        let client = world.clients[c];
        if world.crashes == 0 || matches!(client.next, Next::Begin | Next::Nothing) {
            return;
        }
        let dies = |world: &mut World| {
            world.crashes -= 1;
            world.clients[c] = client.over(client.again);
        };
        steps.add("crash", who, dies);
        if client.next == Next::WriteEntry {
            steps.add("crash, entry later", who, |world| {
                dies(world);
                world.late.push(Late::Entry(client.named));
            });
        }
    }
}

/// A record that names neither task any more was moved on by others: the replacement is finished.
fn advanced(world: &World, client: &mut Client) {
    let is_mine = client.instead == client.mine;
    client.next = if world.record == client.named {
        Next::Advance
    } else if is_mine {
        client.named = client.mine;
        if world.record == client.mine {
            Next::WriteEntry
        } else {
            Next::Answer
        }
    } else {
        Next::ReadRecord
    };
}
