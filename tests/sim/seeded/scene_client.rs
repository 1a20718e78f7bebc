//! The clients of a scene register its tasks, each at its time, and make the later calls about them.
//!
//! A task has an id that its client made, so that a registration without an answer is repeated and stays one task. Tasks
//! that name others wait until those are registered, as a client would.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tickwheel::{
    flow::{
        base::api::{Fault, NewTask, TaskView, View},
        life::asked::{Answer, AskedTask, RequestMark},
        stages::service::Service,
    },
    model::{
        action::{Action, Actions, Deed, When},
        after::{After, Asked, Condition},
        backoff::{Backoff, Jitter},
        chain::{FollowStart, FollowUp},
        draft::TaskDraft,
        email::Email,
        http_call::{HttpCall, Method},
        ids::TaskId,
        key::OnConflict,
        kin::Kin,
        look_step::LookStep,
        notify::{Destination, EndStates, Notify},
        preference::mix,
        state::State,
        target::Target,
        task::{Body, Content, Priority, Spec},
        wheel::WheelNumber,
    },
};

use super::{
    chance::Chance,
    client,
    history::{Entered, Entry},
    network::PATIENCE,
    operator,
    scene::{CLAIM_TIMEOUT, FollowPlan, HEARTBEAT_TIMEOUT, ItemPlan, ScenePlan},
    world::{ENDS, Sim},
};

/// Tries of a registration before its client gives up, and the pause between two.
const TRIES: usize = 12;
const PAUSE: Duration = Duration::from_millis(700);

/// How long a client waits for the registration of another task.
const OTHERS_WAITED: Duration = Duration::from_secs(60);

/// Makes all calls of a scene.
pub(crate) async fn run(sim: Arc<Sim>, scene: ScenePlan) {
    let scene = Arc::new(scene);
    operator::configure(&sim, &scene).await;
    for item in scene.items.iter().filter(|item| !item.template) {
        tokio::spawn(one(Arc::clone(&sim), Arc::clone(&scene), item.clone()));
    }
    operator::run(sim, scene).await;
}

/// The id of a task, as its client makes it.
fn id_of(sim: &Sim, scene: &ScenePlan, item: &ItemPlan) -> TaskId {
    let name = (scene.number * 1000 + item.number) as u64;
    let random = mix(mix(sim.seed).wrapping_add(name));
    let wheels = u64::from(sim.rules.shape.wheels());
    let wheel = u16::try_from(random % wheels).unwrap_or(0);
    let wheel = WheelNumber::new(wheel).expect("a wheel");
    let step = LookStep::covering(Duration::from_millis(CLAIM_TIMEOUT));
    let start = Sim::instant(item.start.cast_signed());
    TaskId::new(start, wheel, random).with_look_step(step)
}

/// The id of another task of the scene.
pub(super) fn id_at(sim: &Sim, scene: &ScenePlan, item: usize) -> TaskId {
    id_of(sim, scene, scene.item(item).expect("a task of the scene"))
}

/// Registers a task and makes the later calls about it.
async fn one(sim: Arc<Sim>, scene: Arc<ScenePlan>, item: ItemPlan) {
    let stream = 3_000_000 + (scene.number * 1000 + item.number) as u64;
    let mut chance = Chance::new(sim.seed, stream);
    sim.until(item.at).await;
    for other in item.parent.iter().chain(&item.after) {
        await_other(&sim, &scene, *other).await;
    }
    let id = (!item.marked).then(|| id_of(&sim, &scene, &item));
    let entered = Entered {
        id,
        asked: sim.now(),
        answers: Vec::new(),
        unsure: false,
    };
    let entered_at = |sim: &Sim| sim.history().scene(scene.number).entered.clone();
    sim.history()
        .scene(scene.number)
        .entered
        .insert(item.number, entered);
    enter(&sim, &scene, &item, &mut chance).await;
    if item.marked {
        sim.time.sleep(PAUSE).await;
        enter(&sim, &scene, &item, &mut chance).await;
    }
    let made = entered_at(&sim).get(&item.number).and_then(Entered::task);
    let Some((id, _)) = made else { return };
    sim.history().of(id).place = Some((scene.number, item.number));
    if item.is_parent {
        tokio::spawn(watch(Arc::clone(&sim), scene.number, id));
    }
    for call in &item.calls {
        sim.until(call.at).await;
        client::make(&sim, id, *call, &mut chance).await;
    }
}

/// Waits until another task of the scene is registered, or its client has given up.
async fn await_other(sim: &Arc<Sim>, scene: &ScenePlan, item: usize) {
    let until = sim.time.moment().after(OTHERS_WAITED);
    loop {
        let known = {
            let mut history = sim.history();
            let entered = history.scene(scene.number).entered.get(&item);
            entered.is_some_and(|entered| !entered.answers.is_empty())
        };
        if known || sim.time.moment() >= until {
            return;
        }
        sim.time.sleep(PAUSE / 4).await;
    }
}

/// Registers a task until that is answered, or the client gives up.
async fn enter(sim: &Arc<Sim>, scene: &ScenePlan, item: &ItemPlan, chance: &mut Chance) {
    for _ in 0..TRIES {
        let asked = asked(sim, scene, item);
        let answer = sim
            .call(chance, &mut None, PATIENCE, |service| async move {
                service.register_asked(vec![asked]).await.pop()
            })
            .await
            .answer;
        let now = sim.now();
        let found = match answer {
            Ok(Some(Ok(answer))) => read(answer),
            Ok(Some(Err(Fault::Family(_) | Fault::Join(_) | Fault::Chain(_)))) => {
                Some((Entry::Refused, id_of(sim, scene, item)))
            }
            Ok(Some(Err(_)) | None) | Err(_) => None,
        };
        let (number, at) = (scene.number, item.number);
        sim.note(format_args!("client of item {number}.{at}: {found:?}"));
        if note_answer(sim, (number, at), found.map(|(entry, id)| (entry, id, now))) {
            return;
        }
        sim.time.sleep(PAUSE).await;
    }
}

/// Notes the answer to a registration; returns whether there was one.
fn note_answer(
    sim: &Sim,
    (scene, item): (usize, usize),
    answer: Option<(Entry, TaskId, i64)>,
) -> bool {
    let mut history = sim.history();
    let entered = history.scene(scene).entered.get_mut(&item);
    let entered = entered.expect("it was noted before it was sent");
    entered.unsure |= answer.is_none();
    entered.answers.extend(answer);
    answer.is_some()
}

fn read(answer: Answer) -> Option<(Entry, TaskId)> {
    let entry = |entry, view: Box<TaskView>| Some((entry, view.id));
    match answer {
        Answer::Created(view) => entry(Entry::Created, view),
        Answer::Existing(view) => entry(Entry::Existing, view),
        Answer::Replaced(view) => entry(Entry::Replaced, view),
        Answer::KeyTaken(view) => entry(Entry::KeyTaken, view),
        Answer::OtherRequest => None,
    }
}

fn asked(sim: &Sim, scene: &ScenePlan, item: &ItemPlan) -> AskedTask {
    let mark = format!("{}.{}", scene.number, item.number);
    AskedTask {
        task: NewTask {
            start: Sim::instant(item.start.cast_signed()),
            draft: draft(sim, scene, item),
        },
        id: (!item.marked).then(|| id_of(sim, scene, item)),
        request: item.marked.then_some(RequestMark { key: mark, hash: 7 }),
        on_conflict: item.key.map_or(OnConflict::Reject, |(_, wish)| wish),
    }
}

/// A task of a scene, as its client writes it.
pub(crate) fn draft(sim: &Sim, scene: &ScenePlan, item: &ItemPlan) -> TaskDraft {
    let mut draft = TaskDraft::from(spec(scene, item));
    if !item.after.is_empty() {
        let condition = if item.all_succeed {
            Condition::AllSucceeded
        } else {
            Condition::AllEnded
        };
        draft.after = Some(Box::new(Asked {
            after: After {
                condition,
                later: false,
                deadline: None,
                tasks: u32::try_from(item.after.len()).unwrap_or(0),
            },
            ids: (item.after.iter().map(|other| id_at(sim, scene, *other))).collect(),
        }));
    }
    if item.is_parent || item.parent.is_some() {
        draft.kin = Some(Box::new(Kin {
            parent: item.parent.map(|parent| id_at(sim, scene, parent)),
            is_parent: item.is_parent,
            after_parent: item.after_parent,
            undoes: false,
            children_within: None,
        }));
    }
    let then = item.then.iter().filter_map(|follow| {
        let template = scene.item(follow.item)?;
        Some(follow_up(follow, draft_of_template(sim, scene, template)))
    });
    draft.then = then.collect();
    draft
}

fn draft_of_template(sim: &Sim, scene: &ScenePlan, item: &ItemPlan) -> TaskDraft {
    draft(sim, scene, item)
}

fn follow_up(plan: &FollowPlan, task: TaskDraft) -> FollowUp<TaskDraft> {
    let states = if plan.success {
        EndStates::of([State::Succeeded])
    } else {
        EndStates::of([State::Failed, State::Dead, State::Cancelled, State::Expired])
    };
    FollowUp {
        when: When::Run(states.expect("terminal states")),
        start: FollowStart::After(Duration::from_millis(plan.wait)),
        with_result: true,
        in_tree: plan.in_tree,
        task,
    }
}

fn notify(item: &ItemPlan) -> Option<Notify> {
    let topic = ENDS.to_owned();
    let notify = Notify::of_run(Destination::Kafka { topic }, EndStates::ALL);
    item.told.then_some(notify)
}

fn actions(item: &ItemPlan) -> Option<Box<Actions>> {
    let email = Email {
        to: vec!["ada@example.org".to_owned()],
        cc: Vec::new(),
        subject: "{{task.id}}".to_owned(),
        body: "{{task.state}}".to_owned(),
    };
    let actions = Actions {
        at_ends: vec![Action {
            when: When::Run(EndStates::ALL),
            deed: Deed::Email(Box::new(email)),
        }],
        checks: Vec::new(),
    };
    item.mailed.then(|| Box::new(actions))
}

fn target(scene: &ScenePlan) -> Target {
    let name = scene.callback();
    if !scene.for_host {
        return Target::Callback { name };
    }
    let call = HttpCall {
        url: format!("https://{name}.example/"),
        method: Method::Post,
        headers: Vec::new(),
        timeout: None,
        message_id: None,
    };
    Target::Http {
        callback: name,
        call: Box::new(call),
    }
}

fn spec(scene: &ScenePlan, item: &ItemPlan) -> Spec {
    let place = Bytes::from(format!("{}.{}", scene.number, item.number));
    Spec {
        indexed: Vec::new(),
        target: target(scene),
        collection: format!("c{}", item.collection),
        priority: Priority::Normal,
        max_attempts: item.max_attempts,
        backoff: Backoff {
            initial: Duration::from_millis(700),
            factor_milli: 1500,
            max: Duration::from_secs(5),
            jitter: Jitter::Full,
        },
        claim_timeout: Duration::from_millis(CLAIM_TIMEOUT),
        heartbeat_timeout: Duration::from_millis(HEARTBEAT_TIMEOUT),
        attempt_timeout: None,
        ordering_key: item.ordering_key.map(|key| format!("sequence{key}")),
        dead_retention: None,
        expire_after: None,
        retention: Duration::from_secs(3 * 3600),
        create_time: Sim::instant(item.at.cast_signed()),
        asked_start: None,
        scheduled: None,
        key: item.key.map(|(key, _)| format!("key{key}")),
        notify: notify(item),
        actions: actions(item),
        kin: None,
        after: None,
        then: Vec::new(),
        body: Body::Inline(Content {
            payload: place,
            content_type: "text/plain".to_owned(),
            ..Content::default()
        }),
    }
}

/// Reads a parent until its tree has ended, and notes when that was seen.
async fn watch(sim: Arc<Sim>, scene: usize, id: TaskId) {
    let mut chance = Chance::new(sim.seed, 4_000_000 + scene as u64);
    loop {
        sim.time.sleep(PAUSE).await;
        let asked = sim.now();
        let get = |service: Arc<Service>| async move { service.get(id, View::Basic).await };
        let answer = sim.call(&mut chance, &mut None, PATIENCE, get).await.answer;
        if let Ok(Ok(Some(view))) = answer
            && view.state.is_terminal()
        {
            let answered = sim.now();
            sim.note(format_args!("the tree of {id} has ended, as is told"));
            let mut history = sim.history();
            let trees = &mut history.scene(scene).trees;
            trees.insert(id, (asked, answered));
            return;
        }
    }
}
