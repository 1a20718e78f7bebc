//! The steps of the model of sequences that give a task its place, as registrations and moves take them.

use super::{
    A, At, Entry, Flaw, Late, Life, Process, Row, Sequence, Steps, Turn, World, steps::idle,
};

impl Sequence {
    /// A registration or a move takes a place.
    pub(super) fn take_place(&self, steps: &mut Steps<'_, World>, number: usize) {
        let world = steps.from;
        let me = world.processes[number];
        let (row, who, moves) = (me.row, number as i64, me.generation == 1);
        let to = |at: At| move |world: &mut World| world.processes[number].at = at;
        match me.at {
            At::PlaceOpen => steps.add("open place", who, |world| {
                world.rows[row] = Row::Open;
                to(if moves { At::PlaceTask } else { At::PlaceEntry })(world);
            }),
            At::PlaceEntry => {
                let written = |world: &mut World| world.tasks[A].entry = Entry::Ahead;
                steps.add("write entry", who, |world| {
                    // A second try finds it there, or ended and dropped.
                    if world.tasks[A].entry == Entry::None {
                        written(world);
                    }
                    to(At::PlaceRead)(world);
                });
                if self.late && world.late == Late::None {
                    steps.add("late entry", who, |world| {
                        world.late = Late::Entry;
                        idle(world, number);
                    });
                }
            }
            At::PlaceTask => self.move_task(steps, number),
            At::PlaceRead => steps.add("read turn", who, |world| {
                let turn = world.turn;
                let process = &mut world.processes[number];
                (process.turn, process.current, process.at) = (turn, true, At::PlaceTouch);
                if self.flaw == Flaw::NotTouched {
                    process.at = At::PlaceSure;
                }
            }),
            At::PlaceTouch => {
                let place = self.place(A, me.generation);
                let from = me.turn.from.min(place);
                if me.current {
                    self.write(steps, number, At::PlaceSure, |turn| Turn { from, ..turn });
                } else {
                    steps.add("touch is refused", who, |world| {
                        let turn = world.turn;
                        let process = &mut world.processes[number];
                        (process.turn, process.current) = (turn, true);
                        if turn.from <= place {
                            process.at = At::PlaceSure;
                        }
                    });
                }
            }
            At::PlaceSure => {
                let sure = move |world: &mut World| {
                    if world.rows[row] == Row::Open {
                        world.rows[row] = Row::Sure;
                    }
                };
                steps.add("make sure", who, |world| {
                    sure(world);
                    to(At::PlaceCheck)(world);
                });
                if self.late && world.late == Late::None {
                    steps.add("late sure", who, |world| {
                        world.late = Late::Sure(row);
                        idle(world, number);
                    });
                }
            }
            _ => self.acknowledge(steps, number),
        }
    }

    fn move_task(&self, steps: &mut Steps<'_, World>, number: usize) {
        let world = steps.from;
        let (me, who) = (world.processes[number], number as i64);
        let task = world.tasks[A];
        let waits = matches!(task.life, Life::Waits | Life::Retries);
        if world.closed[me.row] || !waits || !me.fresh || task.generation > 0 {
            steps.add("move is given up", who, |world| {
                world.rows[me.row] = Row::Gone;
                idle(world, number);
            });
            return;
        }
        let moved = |world: &mut World| {
            let task = &mut world.tasks[A];
            (task.life, task.generation, task.acknowledged) = (Life::Waits, 1, false);
            world.touched(A);
        };
        steps.add("move", who, |world| {
            moved(world);
            world.processes[number].at = At::PlaceRead;
        });
        if self.late && world.late == Late::None {
            steps.add("late move", who, |world| {
                world.late = Late::Move;
                idle(world, number);
            });
        }
    }

    fn acknowledge(&self, steps: &mut Steps<'_, World>, number: usize) {
        let world = steps.from;
        let (me, who) = (world.processes[number], number as i64);
        let tries_again = self.again && me.row % 2 == 0;
        if !world.closed[me.row] || self.flaw == Flaw::NoDeadline {
            steps.add("acknowledge", who, |world| {
                let task = &mut world.tasks[A];
                task.acknowledged |= task.generation == me.generation;
                world.processes[number] = if me.generation == 1 {
                    Process::new(At::EndRemove, A, 0)
                } else {
                    Process::IDLE
                };
            });
        } else if tries_again {
            steps.add("try again", who, |world| {
                world.rows[me.row + 1] = Row::Open;
                let process = &mut world.processes[number];
                (process.row, process.at) = (me.row + 1, At::PlaceRead);
            });
        } else {
            steps.add("give up", who, |world| idle(world, number));
        }
    }
}
