//! The outcomes tell for readers of a task how its actions and checks went, as the rows of their internal tasks say.

use std::sync::Arc;

use crate::{
    flow::{
        base::{
            api::{Fault, TaskView},
            context::Context,
            rows::stored,
        },
        features::ends::actions::end_of,
    },
    model::{
        action::{Action, Branch, Check, End},
        action_task::{action_id, check_id},
        ids::TaskId,
        row::{State, TaskRow},
        time::Millis,
    },
};

/// How an action or a check stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Where it stands; none when its time has not come.
    pub stage: Option<Stage>,
    /// Attempts so far.
    pub attempt: u32,
    /// The last failure.
    pub error: Option<String>,
    /// The answer of a check, once it is known.
    pub branch: Option<Branch>,
}

/// Where an action or a check stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It will be done.
    Pending,
    /// It failed, and is tried again.
    Retrying,
    /// It is done.
    Done,
    /// It is not tried any more.
    GivenUp,
}

/// The reader of how actions and checks went.
#[derive(Debug)]
pub struct Outcomes {
    ctx: Arc<Context>,
}

impl Outcomes {
    /// Reads through this.
    #[must_use]
    pub(in crate::flow) const fn new(ctx: Arc<Context>) -> Self {
        Self { ctx }
    }

    /// Returns how the actions and the checks of a task stand, in their order. A task without any costs no read.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn of(
        &self,
        view: &TaskView,
        now: Millis,
    ) -> Result<(Vec<Standing>, Vec<Standing>), Fault> {
        let Some(actions) = view.spec.actions.as_deref() else {
            return Ok((Vec::new(), Vec::new()));
        };
        let run = end_of(view).map(|(state, end)| End::Run(state, end));
        let tree = view.tree.map(End::Tree);
        let of_action = |(place, action): (usize, &Action)| {
            let of_run = run.map(|end| (view.run_generation, end));
            let ends = of_run
                .into_iter()
                .chain(tree.map(|end| (view.generation, end)));
            // Before an end that it follows, it is that at the first claim, if it has one.
            let mut all = ends.chain(view.first_claim);
            let state = view.run_state.unwrap_or(State::Claimed);
            let (generation, end) = all.find(|(_, end)| action.when.has(*end, state))?;
            Some(action_id(view.id, generation, end, place))
        };
        let of_check = |(place, check): (usize, &Check)| {
            let has_come = check.time(view.id) <= now;
            has_come.then(|| check_id(view.id, check, place))
        };
        let at_ends = actions.at_ends.iter().enumerate().map(of_action);
        let checks = actions.checks.iter().enumerate().map(of_check);
        let ids: Vec<Option<TaskId>> = at_ends.chain(checks).collect();
        let asked: Vec<TaskId> = ids.iter().flatten().copied().collect();
        let mut rows = self.read(&asked).await?.into_iter();
        let standings = ids.into_iter().map(|id| match id {
            None => Standing::default(),
            Some(_) => standing(rows.next().flatten().as_ref()),
        });
        let mut standings: Vec<Standing> = standings.collect();
        let checks = standings.split_off(actions.at_ends.len());
        Ok((standings, checks))
    }

    async fn read(&self, ids: &[TaskId]) -> Result<Vec<Option<TaskRow>>, Fault> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows = stored::rows_each(&self.ctx, ids).await.into_iter();
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// Tells how the task of an action or a check stands; one without row was not begun.
fn standing(row: Option<&TaskRow>) -> Standing {
    let stage = match row.map(|row| row.state) {
        None | Some(State::New | State::Claimed) => Stage::Pending,
        Some(State::Retrying) => Stage::Retrying,
        Some(State::Succeeded) => Stage::Done,
        Some(State::Failed | State::Cancelled | State::Expired | State::Dead) => Stage::GivenUp,
    };
    let result = row.and_then(|row| row.detail.result.as_ref()?.bytes());
    let answer: Option<String> = result.and_then(|bytes| serde_json::from_slice(bytes).ok());
    let branches = [Branch::Then, Branch::Else];
    Standing {
        stage: Some(stage),
        attempt: row.map_or(0, |row| row.attempt),
        error: row
            .filter(|_| stage != Stage::Done)
            .and_then(|row| row.detail.error.clone()),
        branch: branches
            .into_iter()
            .find(|branch| answer.as_deref() == Some(branch.name())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::model::fixtures;

    #[test]
    fn a_standing_is_that_of_its_task() {
        assert_eq!(standing(None).stage, Some(Stage::Pending));
        let spec = Arc::new(fixtures::spec());
        for (state, stage) in [
            (State::Claimed, Stage::Pending),
            (State::Retrying, Stage::Retrying),
            (State::Succeeded, Stage::Done),
            (State::Failed, Stage::GivenUp),
        ] {
            let mut row = fixtures::row(state, &spec);
            row.detail.error = Some("no route".to_owned());
            row.detail.result = Some(Bytes::from_static(b"\"else\"").into());
            let found = standing(Some(&row));
            assert_eq!(
                (found.stage, found.branch),
                (Some(stage), Some(Branch::Else))
            );
            assert_eq!(found.error.is_none(), stage == Stage::Done, "{state:?}");
        }
    }
}
