//! The walk reads dead letters from the index for lists and counts, newest first, in bounded steps.
//!
//! The letters of a day lie in shards, each of which is in order. A page merges them, and reads a shard on only when its
//! letters are used up.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::{
    flow::base::{
        api::Fault,
        context::Context,
        tables::letters::{Part, Scope, Spot, directory},
    },
    limits::{
        DEAD_LETTER_GROUPS_MAX, DEAD_LETTER_PARTS_IN_FLIGHT_MAX, DEAD_LETTERS_AHEAD,
        DEAD_LETTERS_COUNTED_MAX, DEAD_LETTERS_LOOKED_AT_MAX, INDEX_PAGE_ROWS_MAX,
    },
    model::{ids::TaskId, time::Millis},
    schema::{self, LetterValue},
    store::{
        self,
        index::{IndexPage, IndexRange, IndexRow},
    },
};

/// The group of errors that are too many to tell apart.
pub const OTHER: &str = "(other)";

/// The letters that are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Those of one callback, of several, or of all.
    pub scope: Scope,
    /// Those with this class of error.
    pub error: Option<String>,
}

/// A letter that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it lies in the order of the list.
    pub spot: Spot,
    /// The task.
    pub id: TaskId,
    /// The callback.
    pub callback: String,
    /// The class of the error.
    pub error: String,
    /// The attempts.
    pub attempts: u32,
    /// The stamp of the death.
    pub stamp: i64,
}

/// Letters in order.
#[derive(Debug, Default)]
pub struct Walked {
    /// The letters.
    pub letters: Vec<Found>,
    /// Where there may be more; none at the end.
    pub next: Option<Spot>,
}

/// The letters of one callback with one class of error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The callback.
    pub callback: String,
    /// The class of the error.
    pub error: String,
    /// How many.
    pub tasks: u64,
    /// When the first of them died.
    pub oldest: Millis,
    /// When the last of them died.
    pub newest: Millis,
}

/// The result of a count.
#[derive(Debug, Default)]
pub struct Groups {
    /// The groups, the largest first.
    pub groups: Vec<Group>,
    /// There are more letters than one call counts.
    pub cut: bool,
}

/// One shard of a day that is being read.
struct Shard {
    part: Part,
    read: VecDeque<Found>,
    /// Reads on behind this; none once all was read.
    after: Option<Option<Bytes>>,
}

/// Reads letters of a filter behind a spot, at most so many.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn walk(
    ctx: &Context,
    wanted: &Wanted,
    behind: Option<Spot>,
    letters_max: usize,
) -> Result<Walked, Fault> {
    let mut walked = Walked::default();
    let mut looked_at = 0;
    for (day, shards) in days(ctx, &wanted.scope, behind).await? {
        let after = behind.filter(|spot| spot.day() == day).map(Spot::sort);
        let open = |shard| Shard {
            part: Part { day, shard },
            read: VecDeque::new(),
            after: Some(after.clone()),
        };
        let mut shards: Vec<Shard> = shards.into_iter().map(open).collect();
        loop {
            fill(ctx, &wanted.scope, &mut shards, letters_max).await?;
            let heads = shards.iter_mut().filter(|shard| !shard.read.is_empty());
            let first = heads.min_by_key(|shard| shard.read.front().map(|head| head.spot.order()));
            let Some(letter) = first.and_then(|shard| shard.read.pop_front()) else {
                break;
            };
            looked_at += 1;
            let spot = letter.spot;
            if wanted.takes(&letter) {
                walked.letters.push(letter);
            }
            if walked.letters.len() >= letters_max || looked_at >= DEAD_LETTERS_LOOKED_AT_MAX {
                walked.next = Some(spot);
                return Ok(walked);
            }
        }
    }
    Ok(walked)
}

impl Wanted {
    fn takes(&self, letter: &Found) -> bool {
        let of_class = |error: &String| *error == letter.error;
        self.scope.has(&letter.callback) && self.error.as_ref().is_none_or(of_class)
    }
}

/// Reads the shards on that have nothing left in memory.
async fn fill(
    ctx: &Context,
    scope: &Scope,
    shards: &mut [Shard],
    letters_max: usize,
) -> Result<(), Fault> {
    let is_dry = |shard: &&mut Shard| shard.read.is_empty() && shard.after.is_some();
    let dry = shards.iter_mut().filter(is_dry);
    // Most pages are spread over all shards.
    let rows_max = (letters_max / 8 + 8).min(DEAD_LETTERS_AHEAD);
    let reads = dry.map(|shard| async move {
        // A page may have no rows and not be the last.
        while shard.read.is_empty() {
            let Some(after) = shard.after.take() else {
                break;
            };
            let page = read(ctx, scope, shard.part, after, rows_max).await?;
            shard.after = page.next.map(Some);
            let found = page.rows.into_iter().map(|row| found(scope, row));
            shard.read = found.collect::<Result<_, _>>()?;
        }
        Ok::<(), Fault>(())
    });
    futures_util::future::try_join_all(reads).await.map(drop)
}

async fn read(
    ctx: &Context,
    scope: &Scope,
    part: Part,
    after: Option<Bytes>,
    rows_max: usize,
) -> Result<IndexPage, Fault> {
    let range = IndexRange {
        partition: part.partition(scope)?,
        after,
        rows_max,
    };
    Ok(ctx.store.index_range(&range).await?)
}

/// Returns the days that have letters, the newest first, with their shards. Days before `behind` are left out.
async fn days(
    ctx: &Context,
    scope: &Scope,
    behind: Option<Spot>,
) -> Result<Vec<(i64, BTreeSet<u8>)>, Fault> {
    let mut days: BTreeMap<i64, BTreeSet<u8>> = BTreeMap::new();
    let mut after = Some(None);
    while let Some(behind) = after {
        let range = IndexRange {
            partition: directory(scope)?,
            after: behind,
            rows_max: INDEX_PAGE_ROWS_MAX,
        };
        let page = ctx.store.index_range(&range).await?;
        for row in page.rows {
            let part = Part::read(&row.sort).ok_or_else(|| corrupt("the directory"))?;
            days.entry(part.day).or_default().insert(part.shard);
        }
        after = page.next.map(Some);
    }
    let from = behind.map_or(i64::MAX, Spot::day);
    let days = days.into_iter().rev();
    Ok(days.filter(|(day, _)| *day <= from).collect())
}

fn found(scope: &Scope, row: IndexRow) -> Result<Found, Fault> {
    let spot = Spot::read(&row.sort).ok_or_else(|| corrupt("a dead letter"))?;
    let LetterValue {
        callback,
        error,
        attempts,
    } = schema::decode_letter(row.value).map_err(|cause| corrupt(&cause.to_string()))?;
    let callback = match scope {
        Scope::All | Scope::Beginning(_) => callback,
        Scope::Callback(name) => name.clone(),
    };
    Ok(Found {
        spot,
        id: TaskId::from_uuid(spot.id).ok_or_else(|| corrupt("a dead letter"))?,
        callback,
        error,
        attempts,
        stamp: row.written,
    })
}

fn corrupt(what: &str) -> Fault {
    store::Error::Corrupt {
        operation: "read dead letters",
        reason: format!("a row of the index is malformed: {what}"),
    }
    .into()
}

/// Counts the letters of a filter by callback and class of error.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn count(ctx: &Context, wanted: &Wanted) -> Result<Groups, Fault> {
    count_up_to(ctx, wanted, DEAD_LETTERS_COUNTED_MAX).await
}

/// Counts about so many letters of a filter at most, by callback and class of error.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn count_up_to(
    ctx: &Context,
    wanted: &Wanted,
    letters_max: usize,
) -> Result<Groups, Fault> {
    let parts = days(ctx, &wanted.scope, None).await?.into_iter();
    let parts =
        parts.flat_map(|(day, shards)| shards.into_iter().map(move |shard| Part { day, shard }));
    let looked_at = AtomicUsize::new(0);
    let mut counted = stream::iter(parts)
        .map(|part| count_part(ctx, wanted, part, (&looked_at, letters_max)))
        .buffer_unordered(DEAD_LETTER_PARTS_IN_FLIGHT_MAX);
    let mut tally = Tally::default();
    while let Some(part) = counted.try_next().await? {
        for (key, group) in part.0 {
            tally.add(key, group);
        }
    }
    drop(counted);
    Ok(Groups {
        groups: tally.groups(),
        cut: looked_at.into_inner() >= letters_max,
    })
}

/// Counts one part, up to the bound of the whole.
async fn count_part(
    ctx: &Context,
    wanted: &Wanted,
    part: Part,
    (looked_at, letters_max): (&AtomicUsize, usize),
) -> Result<Tally, Fault> {
    let mut tally = Tally::default();
    let mut after = Some(None);
    while let Some(behind) = after {
        let page = read(ctx, &wanted.scope, part, behind, INDEX_PAGE_ROWS_MAX).await?;
        let before = looked_at.fetch_add(page.rows.len(), Relaxed);
        for row in page.rows {
            let letter = found(&wanted.scope, row)?;
            if wanted.takes(&letter) {
                let time = letter.spot.time;
                tally.add((letter.callback, letter.error), (1, time, time));
            }
        }
        after = page.next.map(Some);
        if before >= letters_max {
            break;
        }
        // A count of a million must not keep others from the processor.
        tokio::task::yield_now().await;
    }
    Ok(tally)
}

/// Groups by callback and class: how many, the oldest, the newest.
#[derive(Debug, Default)]
struct Tally(BTreeMap<(String, String), (u64, Millis, Millis)>);

impl Tally {
    fn add(&mut self, key: (String, String), (tasks, oldest, newest): (u64, Millis, Millis)) {
        let is_known = self.0.contains_key(&key);
        let key = if is_known || self.0.len() < DEAD_LETTER_GROUPS_MAX {
            key
        } else {
            (OTHER.to_owned(), OTHER.to_owned())
        };
        let group = self.0.entry(key).or_insert((0, oldest, newest));
        *group = (group.0 + tasks, group.1.min(oldest), group.2.max(newest));
    }

    fn groups(self) -> Vec<Group> {
        let group = |((callback, error), (tasks, oldest, newest))| Group {
            callback,
            error,
            tasks,
            oldest,
            newest,
        };
        let mut groups: Vec<Group> = self.0.into_iter().map(group).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.tasks));
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_beyond_the_bound_are_counted_together_and_none_is_lost() {
        let mut tally = Tally::default();
        let many = DEAD_LETTER_GROUPS_MAX as u64 + 50;
        for number in 0..many {
            let time = Millis(i64::try_from(number).unwrap());
            tally.add(("work".to_owned(), format!("e{number}")), (1, time, time));
        }
        tally.add(
            ("work".to_owned(), "e0".to_owned()),
            (5, Millis(-1), Millis(3)),
        );
        let groups = tally.groups();
        assert_eq!(
            groups.iter().map(|group| group.tasks).sum::<u64>(),
            many + 5
        );
        assert_eq!(groups.len(), DEAD_LETTER_GROUPS_MAX + 1);
        assert_eq!((groups[0].error.as_str(), groups[0].tasks), (OTHER, 50));
        assert_eq!(
            (groups[1].oldest, groups[1].newest),
            (Millis(-1), Millis(3))
        );
    }
}
