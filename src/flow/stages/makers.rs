//! The makers build the stages of a node, each of what it needs.

use std::sync::Arc;

use super::{
    cluster::members::Members,
    ends::outcomes::Outcomes,
    jobs,
    letters::desk::Desk,
    poll::Poller,
    query::{
        await_end::Awaiter, figures::Figures, forecast::Forecaster, list::Lister,
        remembered::Remembered, shares::Shares, why::Explainer,
    },
    schedules,
    schedules::tasks::RunTasks,
    service::Service,
    tree::{cancel::TreeCanceller, read::TreeReader, reopen::Opener, retry::Retrier},
    wheel::{look::Looker, recover::Recovery, republish::Republisher},
};
use crate::flow::{
    base::{
        context::Context,
        entries::{entry_writer::EntryWriter, watermarks::Watermarks},
        permits::{catch_up::CatchUp, read_permits::ReadPermits},
        read::find::Finder,
        records::{audit::Audit, callbacks::Callbacks, refusals::Refusals},
    },
    features::{
        ends::{dead_letter_topic::Deaths, notices::Notices},
        gate::gatekeeper::Gatekeeper,
        join::enlist::Enlister,
        key::keys::Keys,
        limit::limiter::Limiter,
    },
    life::{
        add::Admission, adopt::Adopter, asked::Asker, cancel::Canceller, claim::Claimer,
        claimed::ClaimedRows, door::Door, enter::Entrance, erase::Eraser,
        existence::ExistenceCheck, near::Near, register::Registrar, reschedule::Rescheduler,
        send::Sender, settle::Settler, withdraw::Withdrawer,
    },
};

/// The stages that make tasks and move their starts.
pub(super) fn registration(
    ctx: &Arc<Context>,
    (watermarks, entry_writer, near, entrance): (Watermarks, EntryWriter, Near, Entrance),
    door: &Door,
    canceller: &Canceller,
    known: &Remembered,
) -> (Registrar, Asker, Rescheduler) {
    let ctx = || Arc::clone(ctx);
    let finder = Finder::new(ctx());
    let (callbacks, leftovers) = (known.callbacks.clone(), known.leftovers.clone());
    let standing = ExistenceCheck::new(ctx(), watermarks.clone(), finder.clone());
    let (changes, entered) = (door.clone(), entrance.clone());
    let adopter = Adopter::new(ctx(), changes, finder.clone(), standing, entered);
    let registrar = Registrar::new(
        ctx(),
        entrance,
        callbacks,
        (
            Admission::new(ctx(), adopter),
            Enlister::new(ctx(), finder.clone()),
        ),
    );
    let (changes, found) = (door.clone(), finder.clone());
    let rescheduler = Rescheduler::new(
        ctx(),
        watermarks.clone(),
        entry_writer,
        near,
        changes,
        found,
        leftovers,
    );
    let acts = (registrar.clone(), canceller.clone(), rescheduler.clone());
    let asker = Asker::new(ctx(), watermarks, finder, acts, door.clone());
    (registrar, asker, rescheduler)
}

/// The desks for dead tasks and for jobs, with what changes their tasks.
pub(super) fn desks(
    ctx: Arc<Context>,
    door: &Door,
    finder: &Finder,
    canceller: &Canceller,
    rescheduler: &Rescheduler,
    (runs, callbacks): (RunTasks, Callbacks),
) -> (Desk, jobs::desk::Desk) {
    let eraser = Eraser::new(Arc::clone(&ctx), door.clone());
    let letters = Desk::new(Arc::clone(&ctx), rescheduler.clone(), eraser.clone());
    let by = jobs::changers::Changers {
        retrier: retrier(Arc::clone(&ctx), finder, rescheduler),
        finder: finder.clone(),
        canceller: canceller.clone(),
        rescheduler: rescheduler.clone(),
        letters: letters.clone(),
        eraser,
        runs,
        callbacks,
    };
    (letters, jobs::desk::Desk::new(ctx, by))
}

/// The stage that cancels tasks.
pub(super) fn canceller(
    ctx: &Arc<Context>,
    (watermarks, entry_writer): (Watermarks, EntryWriter),
    door: &Door,
    finder: &Finder,
    known: &Remembered,
) -> Canceller {
    let (deadlines, leftovers) = (known.deadlines.clone(), known.leftovers.clone());
    let (door, finder) = (door.clone(), finder.clone());
    let ctx = Arc::clone(ctx);
    Canceller::new(
        ctx,
        watermarks,
        entry_writer,
        door,
        finder,
        deadlines,
        leftovers,
    )
}

/// The tasks of the runs of schedules.
pub(super) fn runs(
    ctx: &Arc<Context>,
    (registrar, asker): (&Registrar, &Asker),
    door: &Door,
    canceller: &Canceller,
) -> RunTasks {
    let by = (registrar.clone(), door.clone(), canceller.clone());
    RunTasks::new(Arc::clone(ctx), by, asker.standing().clone())
}

/// The stage that runs the failed parts of trees again.
pub(super) fn retrier(ctx: Arc<Context>, finder: &Finder, rescheduler: &Rescheduler) -> Retrier {
    let opener = Opener::new(Arc::clone(&ctx), rescheduler.clone());
    Retrier::new(ctx, finder.clone(), opener)
}

/// The stage that shows trees, and cancels them.
pub(super) fn tree_reader(ctx: Arc<Context>, finder: &Finder, canceller: &Canceller) -> TreeReader {
    let tree_canceller = TreeCanceller::new(Arc::clone(&ctx), canceller.clone());
    TreeReader::new(ctx, finder.clone(), canceller.clone(), tree_canceller)
}

/// The memory wheel of near tasks.
pub(super) fn near(
    ctx: &Arc<Context>,
    sender: &Sender,
    entry_writer: &EntryWriter,
    catch_up: &Arc<CatchUp>,
    known: &Remembered,
) -> Near {
    let (ctx, catch_up) = (Arc::clone(ctx), Arc::clone(catch_up));
    let leftovers = known.leftovers.clone();
    Near::new(
        ctx,
        sender.clone(),
        entry_writer.clone(),
        catch_up,
        leftovers,
    )
}

/// The one way in which tasks come to be.
pub(super) fn entrance(
    ctx: &Arc<Context>,
    watermarks: &Watermarks,
    entry_writer: &EntryWriter,
    near: &Near,
    door: &Door,
) -> Entrance {
    let (watermarks, entry_writer, near) = (watermarks.clone(), entry_writer.clone(), near.clone());
    Entrance::new(
        Arc::clone(ctx),
        watermarks,
        entry_writer,
        near,
        door.clone(),
    )
}

/// The stage that finishes what cancels have left.
pub(super) fn withdrawer(
    ctx: &Arc<Context>,
    watermarks: &Watermarks,
    entry_writer: &EntryWriter,
    door: &Door,
) -> Withdrawer {
    let (watermarks, entry_writer, door) = (watermarks.clone(), entry_writer.clone(), door.clone());
    Withdrawer::new(Arc::clone(ctx), watermarks, entry_writer, door)
}

/// The poller, if the node makes consumers for workers that poll.
pub(super) fn poller(
    ctx: &Arc<Context>,
    claimer: &Claimer,
    settler: &Settler,
    limiter: &Limiter,
) -> Option<Arc<Poller>> {
    let subscriptions = ctx.subscriptions.clone()?;
    let (claimer, settler) = (claimer.clone(), settler.clone());
    Some(Poller::new(
        Arc::clone(ctx),
        subscriptions,
        claimer,
        settler,
        limiter.clone(),
    ))
}

/// The stage that hands tasks to the queue.
pub(super) fn sender(ctx: &Arc<Context>, known: &Remembered) -> Sender {
    let keeper = Gatekeeper::new(Arc::clone(ctx), known.callbacks.clone());
    let (pulse, demand) = (known.pulse.clone(), known.demand.clone());
    Sender::new(Arc::clone(ctx), pulse, demand, keeper)
}

/// The examiner of tasks.
pub(super) fn looker(
    ctx: &Arc<Context>,
    sender: &Sender,
    (entry_writer, entrance): (&EntryWriter, &Entrance),
    door: &Door,
    turns: &Arc<ReadPermits>,
    known: &Remembered,
) -> Looker {
    let (turns, demand) = (Arc::clone(turns), known.demand.clone());
    let republisher = Republisher::new(Arc::clone(ctx), entry_writer.clone(), sender.clone());
    Looker::new(
        Arc::clone(ctx),
        (entry_writer.clone(), entrance.clone()),
        (sender.clone(), republisher),
        door.clone(),
        turns,
        demand,
    )
}

/// The stage that publishes what the process before has left.
pub(super) fn recovery(
    ctx: &Arc<Context>,
    watermarks: &Watermarks,
    (looker, sender, near): (&Looker, &Sender, &Near),
    known: &Remembered,
) -> Recovery {
    Recovery {
        ctx: Arc::clone(ctx),
        watermarks: watermarks.clone(),
        looker: looker.clone(),
        sender: sender.clone(),
        near: near.clone(),
        deadlines: known.deadlines.clone(),
        began: known.began,
        progress: Arc::default(),
    }
}

/// The stage that gives attempts to workers.
pub(super) fn claimer(
    ctx: &Arc<Context>,
    door: &Door,
    claimed: &Arc<ClaimedRows>,
    known: &Remembered,
) -> Claimer {
    let ctx = || Arc::clone(ctx);
    Claimer::new(
        ctx(),
        door.clone(),
        Finder::new(ctx()),
        Arc::clone(claimed),
        known.deadlines.clone(),
        known.demand.clone(),
        (
            Gatekeeper::new(ctx(), known.callbacks.clone()),
            known.limiter.clone(),
        ),
    )
}

/// The stage that takes the reports of workers.
pub(super) fn settler(
    ctx: &Arc<Context>,
    door: &Door,
    stages: (Watermarks, EntryWriter, Near),
    claimed: Arc<ClaimedRows>,
    known: &Remembered,
) -> Settler {
    let (deadlines, retrying) = (known.deadlines.clone(), known.demand.retrying().clone());
    let ctx = Arc::clone(ctx);
    Settler::new(ctx, door.clone(), stages, claimed, deadlines, retrying)
}

/// The service that requests go to.
pub(super) fn service(
    ctx: &Arc<Context>,
    marks: &Watermarks,
    writer: &EntryWriter,
    (near, entrance): (&Near, &Entrance),
    door: &Door,
    members: &Members,
    known: &Remembered,
) -> Service {
    let ctx = || Arc::clone(ctx);
    let (marks, writer, near) = (|| marks.clone(), || writer.clone(), || near.clone());
    let (finder, claimed) = (Finder::new(ctx()), Arc::default());
    let claimer = claimer(&ctx(), door, &claimed, known);
    let settler = settler(&ctx(), door, (marks(), writer(), near()), claimed, known);
    let canceller = canceller(&ctx(), (marks(), writer()), door, &finder, known);
    let stages = (marks(), writer(), near(), entrance.clone());
    let (registrar, asker, rescheduler) = registration(&ctx(), stages, door, &canceller, known);
    let runs = runs(&ctx(), (&registrar, &asker), door, &canceller);
    let of_jobs = (runs.clone(), known.callbacks.clone());
    let (desk, jobs) = desks(ctx(), door, &finder, &canceller, &rescheduler, of_jobs);
    let audit = Audit::new(Arc::clone(&ctx().store), ctx().time.clone());
    let shares = Shares::new(ctx(), known.clone());
    let forecaster = Forecaster::new(ctx(), known.clone(), near());
    let seen = (known.clone(), shares.clone(), members.clone());
    Service {
        explainer: Explainer::new(ctx(), finder.clone(), seen),
        forecaster: forecaster.clone(),
        ctx: ctx(),
        schedules: schedules::desk::Desk::new(ctx(), runs, asker.clone(), finder.clone()),
        asker,
        registrar,
        keys: Keys::new(ctx()),
        callbacks: known.callbacks.clone(),
        api_keys: known.callbacks.api_keys(),
        refusals: Refusals::new(audit.clone(), ctx().time.clone()),
        audit,
        gatekeeper: Gatekeeper::new(ctx(), known.callbacks.clone()),
        retrier: retrier(ctx(), &finder, &rescheduler),
        poller: poller(&ctx(), &claimer, &settler, &known.limiter),
        shares,
        tree_reader: tree_reader(ctx(), &finder, &canceller),
        canceller,
        jobs,
        desk,
        rescheduler,
        claimer,
        settler,
        lister: Lister::new(ctx(), finder.clone(), Some(known.callbacks.clone())),
        notices: Notices::new(ctx()),
        outcomes: Outcomes::new(ctx()),
        deaths: Deaths::new(ctx()),
        awaiter: Awaiter::new(ctx(), finder.clone()),
        finder,
        members: members.clone(),
        figures: Figures::new(ctx(), known.clone(), near(), forecaster),
        pulse: known.pulse.clone(),
        demand: known.demand.clone(),
        settling: Default::default(),
    }
}
