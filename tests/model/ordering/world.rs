//! The world of the model of sequences: one turn, the rows of two members, their tasks, and what is under way.

/// No task has the turn.
pub(super) const NOBODY: u8 = 0;

/// Behind every place.
pub(super) const BEHIND: u8 = 9;

/// The member that is registered, moved or cancelled.
pub(super) const A: usize = 0;

/// The member that is there all the time.
pub(super) const B: usize = 1;

/// A row of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Row {
    Absent,
    Open,
    Sure,
    Gone,
}

/// The rows: of the first start of A by its first and its second try, of its second start by both, of B.
pub(super) const ROWS: [(usize, u8); 5] = [(A, 0), (A, 0), (A, 1), (A, 1), (B, 0)];

/// The life of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Life {
    Waits,
    Runs,
    Retries,
    Ended,
}

/// The entry of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Entry {
    None,
    Ahead,
    Dropped,
}

/// A task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Task {
    pub(super) life: Life,
    pub(super) generation: u8,
    pub(super) entry: Entry,
    /// Its present place was acknowledged.
    pub(super) acknowledged: bool,
}

/// The turn: who has it (1 and 2 are the generations of A, 3 is B), and from which place on rows count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Turn {
    pub(super) holder: u8,
    pub(super) from: u8,
}

/// The next step of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum At {
    Idle,
    /// A claim reads the turn.
    ClaimRead,
    /// It judges the holder.
    ClaimHolder,
    /// It frees the turn of a holder that is over.
    ClaimFree,
    /// It reads the rows before its own.
    ClaimRows,
    /// It judges the first of them.
    ClaimJudge,
    /// It removes that one.
    ClaimRemove,
    /// It takes the turn.
    ClaimTake,
    /// It claims the task.
    ClaimTask,
    /// An attempt is alive.
    Run,
    /// An end, or a move, removes rows.
    EndRemove,
    /// It reads the turn.
    EndRead,
    /// It reads the rows.
    EndRows,
    /// It judges the first of them.
    EndJudge,
    /// It writes the turn.
    EndGive,
    /// Its look is dropped.
    EndDrop,
    /// A registration or a move writes its row.
    PlaceOpen,
    /// A registration writes its entry.
    PlaceEntry,
    /// A move writes the row of its task.
    PlaceTask,
    /// It reads the turn.
    PlaceRead,
    /// It touches the turn.
    PlaceTouch,
    /// It makes its row sure.
    PlaceSure,
    /// It looks at the clock, and acknowledges.
    PlaceCheck,
}

/// A process: a call of a client, or a node that claims or looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Process {
    pub(super) at: At,
    pub(super) member: usize,
    pub(super) generation: u8,
    /// All that it knows of the row of its task is so still.
    pub(super) fresh: bool,
    /// The turn as it read it.
    pub(super) turn: Turn,
    /// No process wrote the turn since.
    pub(super) current: bool,
    /// The row that it looks at.
    pub(super) row: usize,
    /// The turn that it gives.
    pub(super) to: Turn,
    /// Others wrote the turn while it tried; or it is a look.
    pub(super) flag: bool,
    /// It passes on the turn of a task that waits for its next attempt.
    pub(super) waits: bool,
}

impl Process {
    pub(super) const IDLE: Self = Self {
        at: At::Idle,
        member: 0,
        generation: 0,
        fresh: false,
        turn: Turn {
            holder: NOBODY,
            from: 0,
        },
        current: false,
        row: 0,
        to: Turn {
            holder: NOBODY,
            from: 0,
        },
        flag: false,
        waits: false,
    };

    pub(super) const fn new(at: At, member: usize, generation: u8) -> Self {
        Self {
            at,
            member,
            generation,
            fresh: true,
            ..Self::IDLE
        }
    }
}

impl Process {
    /// Tells whether it takes a place.
    pub(super) const fn places(&self) -> bool {
        matches!(
            self.at,
            At::PlaceOpen
                | At::PlaceEntry
                | At::PlaceTask
                | At::PlaceRead
                | At::PlaceTouch
                | At::PlaceSure
                | At::PlaceCheck
        )
    }

    fn forget(&mut self) {
        let at = self.at;
        let reads = matches!(at, At::ClaimRows | At::ClaimJudge | At::ClaimRemove)
            || matches!(at, At::EndRows | At::EndJudge | At::ClaimHolder);
        let writes = matches!(
            at,
            At::ClaimFree | At::ClaimTake | At::EndGive | At::PlaceTouch
        );
        if !(reads || writes && self.current) {
            self.turn = Self::IDLE.turn;
        }
        if !reads && !writes {
            self.current = false;
        }
        if !(matches!(at, At::EndJudge | At::EndGive | At::ClaimTake) && self.current) {
            self.to = Self::IDLE.to;
        }
        let looks_at = matches!(at, At::ClaimJudge | At::ClaimRemove | At::EndJudge);
        if !looks_at && !self.places() {
            self.row = 0;
        }
        let ends = matches!(
            at,
            At::EndRemove | At::EndRead | At::EndRows | At::EndJudge | At::EndGive | At::EndDrop
        );
        if ends || self.places() && !matches!(at, At::PlaceOpen | At::PlaceTask) {
            self.fresh = true;
        }
    }
}

/// A write whose reply was lost, and that may come later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Late {
    None,
    Entry,
    Sure(usize),
    /// A turn, while nobody else has written it.
    Turn(Turn),
    /// A claim, while the row of its task is as it was.
    Claim(usize),
    Move,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) turn: Turn,
    pub(super) rows: [Row; 5],
    /// The places that have closed.
    pub(super) closed: [bool; 5],
    pub(super) tasks: [Task; 2],
    /// The call of the client, and two nodes.
    pub(super) processes: [Process; 3],
    /// The attempt that the holder has the turn for has ended, and it waits for the next one.
    pub(super) spent: bool,
    pub(super) late: Late,
    /// A cancel is still to come.
    pub(super) cancel: bool,
    pub(super) broken: Option<&'static str>,
}

impl World {
    /// Returns the number of a holder.
    pub(super) const fn holder(member: usize, generation: u8) -> u8 {
        if member == B { 3 } else { 1 + generation }
    }

    /// Tells whether a task is over in this generation.
    pub(super) fn is_over(&self, member: usize, generation: u8) -> bool {
        let task = &self.tasks[member];
        task.generation > generation || task.generation == generation && task.life == Life::Ended
    }

    /// Forgets what nothing depends on any more, so that there are fewer states.
    pub(super) fn forget(&mut self) {
        for process in &mut self.processes {
            process.forget();
        }
        let call = self.processes[0];
        for row in 0..ROWS.len() {
            let is_placed = call.places() && call.row == row;
            if self.rows[row] != Row::Open && !is_placed {
                self.closed[row] = false;
            }
        }
        for task in &mut self.tasks {
            task.acknowledged |= task.life == Life::Ended;
        }
        // The two nodes are alike.
        let [_, one, other] = &mut self.processes;
        if one > other {
            std::mem::swap(one, other);
        }
    }

    /// Tells whether an attempt of a task is alive.
    pub(super) fn runs(&self, member: usize) -> bool {
        let runs = |one: &&Process| one.at == At::Run && one.member == member && one.fresh;
        self.processes.iter().any(|one| runs(&one))
    }

    /// The row of a task has changed: what others know of it is old.
    pub(super) fn touched(&mut self, member: usize) {
        for process in &mut self.processes {
            if process.member == member {
                process.fresh = false;
            }
        }
        if self.late == Late::Claim(member) || self.late == Late::Move && member == A {
            self.late = Late::None;
        }
    }

    /// Writes the turn: what others have read of it is old.
    pub(super) fn write_turn(&mut self, turn: Turn) {
        self.spent &= turn.holder == self.turn.holder;
        self.turn = turn;
        for process in &mut self.processes {
            process.current = false;
        }
        if matches!(self.late, Late::Turn(_)) {
            self.late = Late::None;
        }
    }
}
