//! The world of the key model has a record, the rows and entries of four tasks, two clients, and writes that arrive late.

/// Four tasks: client `c` at its try `k` makes number `1 + 2 * c + k`; 0 is none.
pub(super) const TASKS: usize = 4;

/// The wish of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Mode {
    Ignore,
    Replace,
    /// A request with an `Idempotency-Key`: its repetition takes the id of its first try.
    Marked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Row {
    Absent,
    Claimed,
    Retrying,
    Ended,
    /// It has ended, and its row is gone: readers take it for absent.
    Expired,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Entry {
    None,
    Ahead,
    Dropped,
}

/// The next thing that a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Next {
    Begin,
    Record,
    ReadRecord,
    ReadOwnRow,
    ReadRow,
    WriteEntry,
    Take,
    Replace,
    /// To let the record name the task that comes instead.
    Advance,
    ReadAdvanced,
    Answer,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) next: Next,
    pub(super) again: u8,
    pub(super) mine: usize,
    /// The task that the record was seen to name.
    pub(super) named: usize,
    /// The task that comes instead of it.
    pub(super) instead: usize,
    /// Its own task may have been registered already.
    pub(super) out: bool,
}

pub(super) const IDLE: Client = Client {
    next: Next::Begin,
    again: 0,
    mine: 0,
    named: 0,
    instead: 0,
    out: false,
};

impl Client {
    /// A client that does nothing more in its present try.
    pub(super) const fn over(self, again: u8) -> Self {
        Self {
            next: Next::Nothing,
            again,
            ..IDLE
        }
    }

    fn is_under_way(&self) -> bool {
        !matches!(self.next, Next::Begin | Next::Nothing)
    }
}

/// A write that arrives late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Late {
    Record { expected: usize, to: usize },
    Row { task: usize, instead: usize },
    Entry(usize),
}

impl Late {
    fn names(self, named: usize) -> bool {
        match self {
            Self::Record { expected, to } => expected == named || to == named,
            Self::Row { task, instead } => task == named || instead == named,
            Self::Entry(task) => task == named,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) record: usize,
    pub(super) rows: [Row; TASKS],
    /// The tasks that come instead, as the rows name them.
    pub(super) instead: [usize; TASKS],
    pub(super) entries: [Entry; TASKS],
    pub(super) clients: [Client; 2],
    pub(super) late: Vec<Late>,
    pub(super) crashes: u8,
    pub(super) lost: u8,
    pub(super) cancels: u8,
    pub(super) answered: [bool; TASKS],
    pub(super) resurrected: bool,
}

impl World {
    pub(super) fn new(crashes: u8, lost: u8) -> Self {
        Self {
            record: 0,
            rows: [Row::Absent; TASKS],
            instead: [0; TASKS],
            entries: [Entry::None; TASKS],
            clients: [IDLE; 2],
            late: Vec::new(),
            crashes,
            lost,
            cancels: 1,
            answered: [false; TASKS],
            resurrected: false,
        }
    }

    pub(super) fn is_live(&self, task: usize) -> bool {
        let at = task - 1;
        // A task that was replaced never starts again.
        self.instead[at] == 0
            && match self.rows[at] {
                Row::Claimed | Row::Retrying => true,
                Row::Absent => self.entries[at] == Entry::Ahead,
                Row::Ended | Row::Expired => false,
            }
    }

    /// Applies a conditional write of a record or a row, or the write of an entry. Tells whether it held.
    pub(super) fn apply(&mut self, late: Late) -> bool {
        let holds = self.holds(late);
        match late {
            _ if !holds => {}
            Late::Record { to, .. } => self.record = to,
            Late::Row { task, instead } => {
                let at = task - 1;
                self.instead[at] = instead;
                if self.rows[at] != Row::Claimed {
                    self.rows[at] = Row::Ended;
                }
            }
            Late::Entry(task) => self.entries[task - 1] = Entry::Ahead,
        }
        holds
    }

    pub(super) fn holds(&self, late: Late) -> bool {
        match late {
            Late::Record { expected, .. } => self.record == expected,
            Late::Row { task, .. } => {
                self.instead[task - 1] == 0 && self.rows[task - 1] != Row::Ended
            }
            Late::Entry(_) => true,
        }
    }

    /// Tells whether nothing is in flight that may write.
    pub(super) fn is_calm(&self) -> bool {
        let reads = |client: &Client| {
            matches!(
                client.next,
                Next::Record | Next::ReadRecord | Next::ReadRow | Next::Take
            )
        };
        let calm = |client: &Client| !client.is_under_way() || (reads(client) && !client.out);
        self.late.is_empty() && self.clients.iter().all(calm)
    }

    pub(super) fn is_busy(&self, task: usize) -> bool {
        let works = |client: &&Client| client.is_under_way();
        let mut clients = self.clients.iter().filter(works);
        let names =
            |client: &Client| client.mine == task || client.named == task || client.instead == task;
        clients.any(names) || self.late.iter().any(|late| late.names(task))
    }
}
