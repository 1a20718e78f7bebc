//! The steps of the model of sequences, as the rooms in `src/flow/features/sequence` take them.

use super::{
    A, At, B, BEHIND, Entry, Flaw, Late, Life, NO_TURN, NOBODY, OVERTAKEN, Process, ROWS, Row,
    Sequence, Steps, Turn, World,
};

impl Sequence {
    /// Adds all steps.
    pub(super) fn all(&self, steps: &mut Steps<'_, World>) {
        for number in 0..3 {
            let at = steps.from.processes[number].at;
            match at {
                At::Idle => self.begin(steps, number),
                At::ClaimRead
                | At::ClaimHolder
                | At::ClaimFree
                | At::ClaimRows
                | At::ClaimJudge
                | At::ClaimRemove
                | At::ClaimTake
                | At::ClaimTask
                | At::Run => self.claim(steps, number),
                At::EndRemove
                | At::EndRead
                | At::EndRows
                | At::EndJudge
                | At::EndGive
                | At::EndDrop => self.end(steps, number),
                At::PlaceOpen
                | At::PlaceEntry
                | At::PlaceTask
                | At::PlaceRead
                | At::PlaceTouch
                | At::PlaceSure
                | At::PlaceCheck => self.take_place(steps, number),
            }
            if at != At::Idle {
                steps.add("crash", number as i64, |world| idle(world, number));
            }
        }
        for row in 0..ROWS.len() {
            let call = steps.from.processes[0];
            let acknowledges = call.at == At::PlaceCheck && call.row == row;
            let open = steps.from.rows[row] == Row::Open || acknowledges;
            if open && !steps.from.closed[row] {
                steps.add("closes", row as i64, |world| world.closed[row] = true);
            }
        }
        self.come_late(steps);
    }

    /// A node begins to claim or to look, or the client cancels.
    fn begin(&self, steps: &mut Steps<'_, World>, number: usize) {
        let world = steps.from;
        if number == 0 {
            let waits = matches!(world.tasks[A].life, Life::Waits | Life::Retries);
            if world.cancel && waits {
                steps.add("cancel", 0, |world| {
                    world.cancel = false;
                    world.tasks[A].life = Life::Ended;
                    world.touched(A);
                    world.processes[0] = Process::new(At::EndRemove, A, 0);
                });
            }
            return;
        }
        let nodes = world.processes.iter().skip(1);
        if nodes.filter(|node| node.at != At::Idle).count() >= self.nodes {
            return;
        }
        for member in [A, B] {
            let (task, who) = (world.tasks[member], member as i64);
            let claim = |generation, fresh| Process {
                fresh,
                ..Process::new(At::ClaimRead, member, generation)
            };
            let known = task.entry == Entry::Ahead;
            if known && task.life == Life::Ended {
                steps.add("look, ended", who, |world| {
                    world.processes[number] = Process {
                        flag: true,
                        ..Process::new(At::EndRemove, member, task.generation)
                    };
                });
            } else if known && !(task.life == Life::Runs && world.runs(member)) {
                steps.add("take", who, |world| {
                    world.processes[number] = claim(task.generation, true);
                });
            }
            if task.generation == 1 {
                steps.add("old generation", who, |world| {
                    world.processes[number] = claim(0, false);
                });
            }
            if known || task.entry == Entry::Dropped {
                steps.add("old message", who, |world| {
                    world.processes[number] = claim(task.generation, false);
                });
            }
        }
    }

    fn claim(&self, steps: &mut Steps<'_, World>, number: usize) {
        let world = steps.from;
        let me = world.processes[number];
        let (who, mine) = (number as i64, World::holder(me.member, me.generation));
        match me.at {
            At::ClaimRead => steps.add("read turn", who, |world| {
                let (turn, spent) = (world.turn, world.spent);
                let other_generation = self.flaw == Flaw::NoGeneration
                    && me.member == A
                    && matches!(turn.holder, 1 | 2);
                let process = &mut world.processes[number];
                (process.turn, process.current) = (turn, true);
                process.to = turn;
                let spent = spent && process.fresh && self.flaw != Flaw::NotRenewed;
                process.at = if turn.holder == mine && spent {
                    At::ClaimTake
                } else if self.flaw == Flaw::TurnNotAsked || turn.holder == mine || other_generation
                {
                    At::ClaimTask
                } else if turn.holder == NOBODY {
                    At::ClaimRows
                } else {
                    At::ClaimHolder
                };
            }),
            At::ClaimHolder => steps.add("judge holder", who, |world| {
                let (member, generation) = named(me.turn.holder);
                let over = world.is_over(member, generation) || me.current && world.spent;
                if over && self.flaw != Flaw::HolderStays {
                    world.processes[number].at = At::ClaimFree;
                } else {
                    idle(world, number);
                }
            }),
            At::ClaimFree => self.write(steps, number, At::ClaimRead, |turn| Turn {
                holder: NOBODY,
                ..turn
            }),
            At::ClaimRows => self.each_way(steps, "read rows", who, |world, passes| {
                let until = self.place(me.member, me.generation);
                let but = |member, generation| (member, generation) == (me.member, me.generation);
                let from = self.passed(world, passes).min(until);
                let skipped = |member, generation| {
                    but(member, generation) || passes && Self::waits(world, member, generation)
                };
                let first = self.first(world, me.turn.from, until, skipped);
                let process = &mut world.processes[number];
                (process.at, process.row) = match first {
                    Some(row) => (At::ClaimJudge, row),
                    None => (At::ClaimTake, 0),
                };
                process.to = Turn { holder: mine, from };
            }),
            At::ClaimJudge => steps.add("judge row", who, |world| {
                if self.counts(world, me.row) {
                    idle(world, number);
                } else {
                    world.processes[number].at = At::ClaimRemove;
                }
            }),
            At::ClaimRemove => steps.add("remove row", who, |world| {
                world.rows[me.row] = Row::Gone;
                world.processes[number].at = At::ClaimRows;
            }),
            At::ClaimTake => self.write(steps, number, At::ClaimTask, |_| me.to),
            At::ClaimTask => self.claim_task(steps, number),
            _ => self.run(steps, number),
        }
    }

    fn claim_task(&self, steps: &mut Steps<'_, World>, number: usize) {
        let world = steps.from;
        let me = world.processes[number];
        let (member, who) = (me.member, number as i64);
        let task = world.tasks[member];
        let lost = task.life == Life::Runs && !world.runs(member);
        let may = matches!(task.life, Life::Waits | Life::Retries) || lost;
        if me.fresh && task.generation == me.generation && may {
            steps.add("claim", who, |world| {
                if world.turn.holder != World::holder(member, me.generation) {
                    world.broken = Some(NO_TURN);
                }
                world.tasks[member].life = Life::Runs;
                world.touched(member);
                world.processes[number] = Process::new(At::Run, member, me.generation);
            });
            if self.late && world.late == Late::None && !lost {
                steps.add("late claim", who, |world| {
                    world.late = Late::Claim(member);
                    idle(world, number);
                });
            }
            return;
        }
        steps.add("claim is refused", who, |world| {
            let over = world.is_over(member, me.generation);
            if over || self.flaw == Flaw::LoserFrees {
                world.processes[number] = Process::new(At::EndRead, member, me.generation);
            } else {
                idle(world, number);
            }
        });
    }

    fn run(&self, steps: &mut Steps<'_, World>, number: usize) {
        let me = steps.from.processes[number];
        let (member, who) = (me.member, number as i64);
        if !me.fresh {
            steps.add("settle is refused", who, |world| idle(world, number));
            return;
        }
        steps.add("end", who, |world| {
            world.tasks[member].life = Life::Ended;
            world.touched(member);
            world.processes[number] = Process::new(At::EndRemove, member, me.generation);
        });
        steps.add("retry", who, |world| {
            world.tasks[member].life = Life::Retries;
            world.touched(member);
            let has_it = world.turn.holder == World::holder(member, me.generation);
            world.spent |= self.skips && has_it;
            world.processes[number] = if self.flaw == Flaw::PassedAtRetry {
                Process::new(At::EndRead, member, me.generation)
            } else if self.skips {
                Process {
                    waits: true,
                    ..Process::new(At::EndRead, member, me.generation)
                }
            } else {
                Process::IDLE
            };
        });
    }

    /// The end of a task in this generation; the member is left out of what comes next.
    fn end(&self, steps: &mut Steps<'_, World>, number: usize) {
        let me = steps.from.processes[number];
        let (who, out) = (number as i64, (me.member, me.generation));
        let after = if me.flag { At::EndDrop } else { At::Idle };
        let finish = move |world: &mut World| {
            if after == At::Idle {
                idle(world, number);
            } else {
                world.processes[number].at = after;
            }
        };
        match me.at {
            At::EndRemove => steps.add("remove rows", who, |world| {
                for (row, (member, generation)) in ROWS.into_iter().enumerate() {
                    let there = matches!(world.rows[row], Row::Open | Row::Sure);
                    if there && member == me.member && generation <= me.generation {
                        world.rows[row] = Row::Gone;
                    }
                }
                world.processes[number].at = At::EndRead;
            }),
            At::EndRead => steps.add("read turn", who, |world| {
                let turn = world.turn;
                let has_it = turn.holder != NOBODY && {
                    let (member, generation) = named(turn.holder);
                    member == me.member && generation <= me.generation
                };
                let has_it = has_it && (!me.waits || world.spent);
                if has_it {
                    let process = &mut world.processes[number];
                    (process.turn, process.current, process.at) = (turn, true, At::EndRows);
                } else {
                    finish(world);
                }
            }),
            At::EndRows => self.each_way(steps, "read rows", who, |world, passes| {
                let but = |member, generation| {
                    let left = !me.waits && member == out.0 && generation <= out.1;
                    left || passes && Self::waits(world, member, generation)
                };
                let from = self.passed(world, passes);
                let first = self.first(world, me.turn.from, BEHIND, but);
                let process = &mut world.processes[number];
                (process.at, process.row) = match first {
                    Some(row) => (At::EndJudge, row),
                    None => (At::EndGive, 0),
                };
                process.to = Turn {
                    holder: NOBODY,
                    from,
                };
            }),
            At::EndJudge => steps.add("judge row", who, |world| {
                if !self.counts(world, me.row) {
                    world.rows[me.row] = Row::Gone;
                    world.processes[number].at = At::EndRows;
                    return;
                }
                let (member, generation) = ROWS[me.row];
                let holder = if world.rows[me.row] == Row::Sure {
                    World::holder(member, generation)
                } else {
                    NOBODY
                };
                let from = me.to.from.min(self.place(member, generation));
                let process = &mut world.processes[number];
                (process.to, process.at) = (Turn { holder, from }, At::EndGive);
            }),
            At::EndGive => self.write(steps, number, after, |_| me.to),
            _ => steps.add("drop", who, |world| {
                world.tasks[me.member].entry = Entry::Dropped;
                idle(world, number);
            }),
        }
    }

    /// Writes the turn, if nobody has written it since it was read.
    pub(super) fn write(
        &self,
        steps: &mut Steps<'_, World>,
        number: usize,
        then: At,
        to: impl Fn(Turn) -> Turn,
    ) {
        let world = steps.from;
        let (me, who) = (world.processes[number], number as i64);
        let turn = to(me.turn);
        if !me.current {
            steps.add("write is refused", who, |world| {
                let process = &mut world.processes[number];
                process.at = if matches!(me.at, At::EndGive) {
                    At::EndRead
                } else {
                    At::ClaimRead
                };
            });
            return;
        }
        let takes = matches!(me.at, At::ClaimTake | At::EndGive);
        steps.add("write turn", who, |world| {
            self.give(world, turn);
            world.spent &= !takes;
            if then == At::Idle {
                idle(world, number);
            } else {
                world.processes[number].at = then;
            }
        });
        if self.late && world.late == Late::None {
            steps.add("late turn", who, |world| {
                world.late = Late::Turn(turn);
                idle(world, number);
            });
        }
    }

    /// The turn is written: a task that comes to it must overtake none.
    fn give(&self, world: &mut World, turn: Turn) {
        if turn.holder != NOBODY && turn.holder != world.turn.holder {
            let (member, generation) = named(turn.holder);
            let (other, place) = (1 - member, self.place(member, generation));
            let task = world.tasks[other];
            let over = world.is_over(member, generation);
            let passed_over = self.skips && task.life == Life::Retries;
            let waits = !over && !passed_over && task.acknowledged && task.life != Life::Ended;
            if waits && self.place(other, task.generation) < place {
                world.broken = Some(OVERTAKEN);
            }
        }
        world.write_turn(turn);
    }

    /// A write whose reply was lost comes, or never does.
    fn come_late(&self, steps: &mut Steps<'_, World>) {
        let late = steps.from.late;
        if late == Late::None {
            return;
        }
        steps.add("never comes", 0, |world| world.late = Late::None);
        steps.add("late write", 0, |world| {
            world.late = Late::None;
            match late {
                Late::None => {}
                Late::Entry => world.tasks[A].entry = Entry::Ahead,
                Late::Sure(row) => {
                    if world.rows[row] == Row::Open {
                        world.rows[row] = Row::Sure;
                    }
                }
                Late::Turn(turn) => self.give(world, turn),
                Late::Claim(member) => {
                    world.tasks[member].life = Life::Runs;
                    world.touched(member);
                }
                Late::Move => {
                    let task = &mut world.tasks[A];
                    (task.life, task.generation, task.acknowledged) = (Life::Waits, 1, false);
                    world.touched(A);
                }
            }
        });
    }

    /// Adds a step; of a sequence that skips also the step that passes over tasks that wait for their next attempt.
    fn each_way(
        &self,
        steps: &mut Steps<'_, World>,
        name: &'static str,
        who: i64,
        act: impl Fn(&mut World, bool),
    ) {
        steps.add(name, who, |world| act(world, false));
        if self.skips {
            steps.add(name, who, |world| act(world, true));
        }
    }

    /// Tells whether a task waits for its next attempt, in this generation.
    fn waits(world: &World, member: usize, generation: u8) -> bool {
        let task = world.tasks[member];
        task.life == Life::Retries && task.generation == generation
    }

    /// The place of the first task that is passed over; behind all others where there is none.
    fn passed(&self, world: &World, passes: bool) -> u8 {
        let waits = |member: &usize| passes && world.tasks[*member].life == Life::Retries;
        let places = [A, B].into_iter().filter(waits);
        let places = places.map(|member| self.place(member, world.tasks[member].generation));
        places.min().unwrap_or(BEHIND)
    }

    /// The first row from one place to another, without some.
    fn first(
        &self,
        world: &World,
        from: u8,
        until: u8,
        but: impl Fn(usize, u8) -> bool,
    ) -> Option<usize> {
        let place = |row: &usize| {
            let (member, generation) = ROWS[*row];
            self.place(member, generation)
        };
        let rows = (0..ROWS.len()).filter(|row| {
            let (member, generation) = ROWS[*row];
            let there = matches!(world.rows[*row], Row::Open | Row::Sure);
            there && !but(member, generation) && (from..until).contains(&place(row))
        });
        rows.min_by_key(|row| (place(row), *row))
    }

    /// Tells whether a row counts, as `member_stands` does with the row and the entry of its task.
    fn counts(&self, world: &World, row: usize) -> bool {
        let (member, generation) = ROWS[row];
        let task = world.tasks[member];
        if world.is_over(member, generation) {
            return self.flaw == Flaw::RowsStay;
        }
        if world.rows[row] != Row::Open || !world.closed[row] || self.flaw == Flaw::GhostStays {
            return true;
        }
        let has_row = task.life != Life::Waits || task.generation > 0;
        task.generation == generation && (has_row || task.entry != Entry::None)
    }
}

/// The member and the generation of a holder.
const fn named(holder: u8) -> (usize, u8) {
    match holder {
        3 => (B, 0),
        holder => (A, holder - 1),
    }
}

pub(super) fn idle(world: &mut World, number: usize) {
    world.processes[number] = Process::IDLE;
}
