//! The client of a run registers one task and makes the planned calls for it, one after the other.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tickwheel::{
    flow::base::api::{CancelOutcome, NewTask, RescheduleOutcome},
    model::{
        backoff::{Backoff, Jitter},
        ids::TaskId,
        target::Target,
        task::{Body, Content, Priority, Spec},
    },
};

use super::{
    chance::Chance,
    history::{Called, Registered, Told},
    network::{Lost, PATIENCE},
    plan::{CallPlan, Request, TaskPlan},
    world::{CALLBACK, Sim, TOPIC},
};

/// Tries of a call before the client gives up, and the pause between two.
const TRIES: usize = 4;
const PAUSE: Duration = Duration::from_millis(300);

/// Makes the planned calls for a task.
pub(crate) async fn run(sim: Arc<Sim>, plan: TaskPlan) {
    let mut chance = Chance::new(sim.seed, 5000 + plan.number as u64);
    sim.until(plan.at).await;
    let Some(id) = register(&sim, &plan, &mut chance).await else {
        return;
    };
    for call in &plan.calls {
        sim.until(call.at).await;
        make(&sim, id, *call, &mut chance).await;
    }
}

/// Registers until it is acknowledged. A registration whose answer was lost is another task,
/// which no client knows.
async fn register(sim: &Arc<Sim>, plan: &TaskPlan, chance: &mut Chance) -> Option<TaskId> {
    for _ in 0..TRIES {
        let task = NewTask {
            start: Sim::instant(plan.start.cast_signed()),
            draft: spec(plan).into(),
        };
        let answer = sim
            .call(chance, &mut None, PATIENCE, |service| async move {
                service.register(vec![task]).await.pop()
            })
            .await
            .answer;
        let answered = sim.now();
        if let Ok(Some(Ok(view))) = answer {
            let registered = Registered {
                number: plan.number,
                id: view.id,
                tracked: !plan.record,
                start: view.start.0 - Sim::instant(0).0,
                answered,
            };
            sim.note(format_args!(
                "client {} registered {}",
                plan.number, view.id
            ));
            sim.history().of(view.id).registered = Some(registered);
            return Some(view.id);
        }
        sim.note(format_args!("client {} could not register", plan.number));
        sim.time.sleep(PAUSE).await;
    }
    None
}

/// Makes a call, and again until it is answered.
pub(crate) async fn make(sim: &Arc<Sim>, id: TaskId, plan: CallPlan, chance: &mut Chance) {
    let asked = sim.now();
    for number in 0..TRIES {
        let reached = match plan.what {
            Request::Cancel => cancel(sim, id, chance).await,
            Request::Reschedule(to) => reschedule(sim, id, Some(to), chance).await,
            Request::Run => reschedule(sim, id, None, chance).await,
        };
        let answered = sim.now();
        sim.note(format_args!("client of {id}: {:?}: {reached:?}", plan.what));
        let told = reached.unwrap_or(Told::Unknown);
        if number > 0 && matches!(told, Told::TooLate | Told::NotFound) {
            // Too late for this try: an earlier one without an answer may have had its effect.
            break;
        }
        let called = Called {
            request: plan.what,
            asked,
            answered,
            told,
        };
        if told != Told::Unknown {
            sim.history().of(id).calls.push(called);
            return;
        }
        sim.time.sleep(PAUSE).await;
    }
    let answered = sim.now();
    let called = Called {
        request: plan.what,
        asked,
        answered,
        told: Told::Unknown,
    };
    sim.history().of(id).calls.push(called);
}

async fn cancel(sim: &Arc<Sim>, id: TaskId, chance: &mut Chance) -> Result<Told, Lost> {
    let act = |service: Arc<tickwheel::flow::stages::service::Service>| async move {
        service.cancel(id).await
    };
    Ok(
        match sim.call(chance, &mut None, PATIENCE, act).await.answer? {
            Ok(Some((CancelOutcome::Cancelled | CancelOutcome::AlreadyCancelled, _))) => {
                Told::Cancelled
            }
            Ok(Some((CancelOutcome::CancelRequested, _))) => Told::CancelRequested,
            Ok(Some((CancelOutcome::TooLate, _))) => Told::TooLate,
            Ok(None) => Told::NotFound,
            Err(_) => Told::Unknown,
        },
    )
}

async fn reschedule(
    sim: &Arc<Sim>,
    id: TaskId,
    to: Option<u64>,
    chance: &mut Chance,
) -> Result<Told, Lost> {
    let start = to.map(|to| Sim::instant(to.cast_signed()));
    let act = |service: Arc<tickwheel::flow::stages::service::Service>| async move {
        match start {
            Some(start) => service.reschedule(id, start, None).await,
            None => service.run(id, None).await,
        }
    };
    Ok(
        match sim.call(chance, &mut None, PATIENCE, act).await.answer? {
            Ok(Some((RescheduleOutcome::Rescheduled, view))) => {
                Told::Rescheduled(view.start.0 - Sim::instant(0).0)
            }
            Ok(Some((
                RescheduleOutcome::TooLate
                | RescheduleOutcome::InTree
                | RescheduleOutcome::Mismatch,
                _,
            ))) => Told::TooLate,
            Ok(None) => Told::NotFound,
            Err(_) => Told::Unknown,
        },
    )
}

fn spec(plan: &TaskPlan) -> Spec {
    let target = if plan.record {
        Target::Kafka {
            topic: TOPIC.to_owned(),
            partition: None,
        }
    } else {
        Target::Callback {
            name: CALLBACK.to_owned(),
        }
    };
    Spec {
        indexed: Vec::new(),
        target,
        collection: plan.number.to_string(),
        priority: Priority::ALL[usize::from(plan.priority)],
        max_attempts: plan.max_attempts,
        backoff: Backoff {
            initial: Duration::from_millis(700),
            factor_milli: 1500,
            max: Duration::from_secs(5),
            jitter: Jitter::Full,
        },
        claim_timeout: Duration::from_millis(plan.claim_timeout),
        heartbeat_timeout: Duration::from_millis(plan.heartbeat_timeout),
        attempt_timeout: None,
        ordering_key: None,
        dead_retention: None,
        expire_after: plan.expire_after.map(Duration::from_millis),
        retention: Duration::from_secs(3600),
        create_time: Sim::instant(plan.at.cast_signed()),
        asked_start: None,
        scheduled: None,
        key: None,
        notify: None,
        actions: None,
        kin: None,
        after: None,
        then: Vec::new(),
        body: Body::Inline(Content {
            payload: Bytes::from(vec![b'x'; plan.body_bytes]),
            content_type: "text/plain".to_owned(),
            record_key: Some(Bytes::from(plan.number.to_string())),
            ..Content::default()
        }),
    }
}
