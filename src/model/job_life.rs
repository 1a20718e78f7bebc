//! The life of a job decides for every node what is done next about it, and what each answer makes of it.
//!
//! The document and its promises are in [`super::job`].

use std::time::Duration;

use uuid::Uuid;

use super::{
    job::{
        Counts, Found, HasEnded, Job, JobFilter, JobKind, JobState, KEPT, LEASE, Lease,
        PAGE_ITEMS_MAX, Place, SAMPLE_MAX, SEARCHES_FAILED_MAX, Step, TRIES_MAX, Tally,
    },
    time::Millis,
};

/// Longest pause after something failed.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A page with a rate takes this long.
const RATED_PAGE: Duration = Duration::from_secs(1);

/// Parts of a page with a rate: its tasks are spread over its time.
const PARTS: usize = 10;

/// Longest text about a failure, in characters.
const ERROR_CHARS_MAX: usize = 256;

impl Job {
    /// Returns a job that nobody has begun.
    #[must_use]
    pub const fn new(kind: JobKind, filter: JobFilter, created: Millis) -> Self {
        Self {
            kind,
            filter,
            by_rows: false,
            backfill: None,
            start: None,
            rate_milli: None,
            dry_run: false,
            created,
            request: None,
            state: JobState::Pending,
            ended: None,
            lease: None,
            page: 0,
            items: Vec::new(),
            tries: 0,
            place: Place::Start,
            searches_failed: 0,
            not_before: created,
            counts: Counts {
                done: 0,
                skipped: 0,
                failed: 0,
                matching: 0,
            },
            estimate: None,
            sample: Vec::new(),
            error: None,
        }
    }

    /// Returns the next step of a node. Where the store is of this process `alone`, every other leader is dead.
    #[must_use]
    pub fn step(&self, me: Uuid, alone: bool, now: Millis) -> Step {
        match self.state {
            JobState::Paused | JobState::Completed | JobState::Cancelled | JobState::Failed => {
                return Step::Rest;
            }
            JobState::Pending | JobState::Running => {}
        }
        // A time that no clock of ours can have meant is not waited for: the clock was set back.
        if now < self.not_before && self.not_before <= now.after(self.pause_max()) {
            return Step::Wait(self.not_before);
        }
        match self.lease {
            Some(lease) if lease.node == me => {
                let left = lease.until.since(now);
                if left > LEASE / 2 && left <= LEASE * 2 {
                    Step::Work
                } else {
                    Step::Lead
                }
            }
            Some(lease) if !alone && now < lease.until && lease.until <= now.after(LEASE * 2) => {
                Step::Wait(lease.until)
            }
            Some(_) | None => Step::Lead,
        }
    }

    /// Returns the job as led by a node.
    #[must_use]
    pub fn led(&self, me: Uuid, now: Millis) -> Self {
        Self {
            state: JobState::Running,
            lease: Some(Lease {
                node: me,
                until: now.after(LEASE),
            }),
            ..self.clone()
        }
    }

    /// Returns how many tasks the next page has at most.
    #[must_use]
    pub fn page_items(&self) -> usize {
        if self.decides_each() {
            return 1;
        }
        let Some(rate) = self.rate_milli.filter(|_| !self.dry_run) else {
            return PAGE_ITEMS_MAX;
        };
        let items = rate.saturating_mul(whole_millis(RATED_PAGE)) / 1_000_000;
        usize::try_from(items)
            .unwrap_or(usize::MAX)
            .clamp(1, PAGE_ITEMS_MAX)
    }

    /// Returns how many tasks of the page are worked on together.
    #[must_use]
    pub fn part_items(&self) -> usize {
        if self.rate_milli.is_none() {
            return PAGE_ITEMS_MAX;
        }
        (self.page_items() / PARTS).max(1)
    }

    /// Returns how long so many tasks take at the rate of the job.
    #[must_use]
    pub fn span(&self, items: usize) -> Duration {
        let Some(rate) = self.rate_milli.filter(|_| !self.dry_run) else {
            return Duration::ZERO;
        };
        let items = u64::try_from(items).unwrap_or(u64::MAX);
        let micros = items.saturating_mul(1_000_000_000).div_ceil(rate.max(1));
        Duration::from_micros(micros)
    }

    /// Tells whether the end of one run decides about the next. The decision is in the record before the run is entered, so two
    /// leaders at once cannot decide differently.
    #[must_use]
    pub fn decides_each(&self) -> bool {
        let is_strict = self.backfill.as_ref().is_some_and(|of| of.is_strict());
        is_strict && !self.dry_run
    }

    fn pause_max(&self) -> Duration {
        self.span(self.page_items()).max(PAUSE_MAX) + RATED_PAGE
    }

    /// Returns the job behind a page, on which the work began at `began`; none when another page has taken its place.
    ///
    /// A job that was paused or ended meanwhile counts what was done, and stays as it is.
    #[must_use]
    pub fn advanced(
        &self,
        page: u64,
        tally: Tally,
        found: Option<Found>,
        (began, now): (Millis, Millis),
    ) -> Option<Self> {
        if self.page != page {
            return None;
        }
        let mut next = self.clone();
        next.page = page.saturating_add(1);
        let worked = if self.dry_run { 0 } else { self.items.len() };
        next.not_before = began.after(self.span(worked));
        next.count(tally, now);
        match found {
            Some(found) if next.items.is_empty() => next.take(found, now),
            Some(_) | None => {}
        }
        if next.state == JobState::Running {
            if let Some(lease) = &mut next.lease {
                lease.until = now.after(LEASE);
            }
            if next.items.is_empty() && next.place == Place::End {
                next.end(JobState::Completed, now);
            }
        }
        if next.state.has_ended() {
            next.items.clear();
        }
        Some(next)
    }

    /// Counts the work on the page. Tasks that may be changed later stay, unless they were tried too often.
    fn count(&mut self, tally: Tally, now: Millis) {
        self.counts.done += tally.done;
        self.counts.skipped += tally.skipped;
        self.counts.failed += tally.failed;
        if let Some(error) = &tally.error {
            self.error = Some(shortened(error));
        }
        self.items = tally.again;
        if self.items.is_empty() {
            self.tries = 0;
            return;
        }
        self.tries += 1;
        if self.tries >= TRIES_MAX || self.state.has_ended() {
            self.counts.failed += self.items.len() as u64;
            self.items.clear();
            self.tries = 0;
        } else {
            self.not_before = self.not_before.max(now.after(pause(self.tries)));
        }
    }

    /// Takes the page that was found.
    fn take(&mut self, found: Found, now: Millis) {
        match found {
            Found::Page {
                items,
                place,
                unread,
            } => {
                self.place = place;
                self.searches_failed = 0;
                self.counts.failed += unread.len() as u64;
                if let Some(id) = unread.first() {
                    self.error = Some(format!("{id}: its row cannot be understood"));
                }
                if self.dry_run {
                    self.counts.matching += items.len() as u64;
                    let room = SAMPLE_MAX.saturating_sub(self.sample.len());
                    self.sample
                        .extend(items.iter().map(|item| item.id).take(room));
                } else {
                    if let Some(backfill) = self.backfill.as_mut().filter(|of| of.is_strict()) {
                        backfill.last = items.last().map(|item| item.id).or(backfill.last);
                    }
                    self.items = items;
                }
            }
            Found::Passed(place) => {
                self.place = place;
                self.searches_failed = 0;
                self.counts.skipped += 1;
                // It has had its turn.
                self.not_before = self.not_before.max(now.after(self.span(1)));
            }
            Found::Wait(until) => {
                self.searches_failed = 0;
                self.not_before = self.not_before.max(until);
            }
            Found::Failed(error) => {
                self.error = Some(shortened(&error));
                self.searches_failed += 1;
                self.not_before = self.not_before.max(now.after(pause(self.searches_failed)));
                if self.searches_failed >= SEARCHES_FAILED_MAX && !self.state.has_ended() {
                    self.end(JobState::Failed, now);
                }
            }
        }
    }

    fn end(&mut self, state: JobState, now: Millis) {
        self.state = state;
        self.ended = Some(now);
        self.lease = None;
    }

    /// Returns the job as it is when a person pauses it. The page that is being worked on is finished.
    ///
    /// # Errors
    /// [`HasEnded`].
    pub fn paused(&self) -> Result<Self, HasEnded> {
        self.turned(JobState::Paused)
    }

    /// Returns the job as it is when a person lets it go on.
    ///
    /// # Errors
    /// [`HasEnded`].
    pub fn resumed(&self) -> Result<Self, HasEnded> {
        match self.state {
            // Also the node that led it before has to say anew that it does.
            JobState::Paused if self.page == 0 => Ok(Self {
                lease: None,
                ..self.turned(JobState::Pending)?
            }),
            JobState::Paused => self.turned(JobState::Running),
            _ => self.turned(self.state),
        }
    }

    /// Returns the job as it is when a person ends it. Its work so far stays done.
    ///
    /// # Errors
    /// [`HasEnded`], unless it was cancelled before.
    pub fn cancelled(&self, now: Millis) -> Result<Self, HasEnded> {
        if self.state == JobState::Cancelled {
            return Ok(self.clone());
        }
        let mut job = self.turned(JobState::Cancelled)?;
        job.end(JobState::Cancelled, now);
        Ok(job)
    }

    fn turned(&self, state: JobState) -> Result<Self, HasEnded> {
        if self.state.has_ended() {
            return Err(HasEnded);
        }
        Ok(Self {
            state,
            ..self.clone()
        })
    }

    /// Returns how many tasks there are, once that is known or was told before.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        let Counts {
            done,
            skipped,
            failed,
            matching,
        } = self.counts;
        if self.dry_run {
            return Some(matching + failed);
        }
        let found = done + skipped + failed + self.items.len() as u64;
        if self.place == Place::End || self.state == JobState::Completed {
            return Some(found);
        }
        self.estimate.map(|estimate| estimate.max(found))
    }

    /// Returns from when on its record may be gone.
    #[must_use]
    pub fn expires(&self) -> Option<Millis> {
        self.ended.map(|ended| ended.after(KEPT))
    }

    /// Tells whether a task whose start is so may be moved by a reschedule. One that starts then already, or is due when the job
    /// means now, is passed over: the search meets tasks that the job itself has moved.
    #[must_use]
    pub fn moves(&self, start: Millis, effective: Millis, now: Millis) -> bool {
        self.start
            .is_some_and(|target| start != target && !(target <= now && effective <= now))
    }
}

/// The pause behind so many failures in a row.
fn pause(failures: u32) -> Duration {
    let seconds = 1u64 << failures.saturating_sub(1).min(6);
    Duration::from_secs(seconds).min(PAUSE_MAX)
}

fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn shortened(text: &str) -> String {
    text.chars().take(ERROR_CHARS_MAX).collect()
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
