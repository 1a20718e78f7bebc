//! The makers build for a node the stages that make, move and cancel tasks.

use std::sync::Arc;

use super::{
    context::Context,
    dead_letters::desk::Desk,
    dispatch::near::Near,
    entries::{entry_writer::Placer, watermarks::Hands},
    family::{
        add::Admission, adopt::Adopter, cancel::Feller, reopen::Opener, retry::Retrier,
        tree::Forester,
    },
    jobs,
    joins::enlist::Enlister,
    query::{find::Finder, remembered::Remembered},
    records::callbacks::Callbacks,
    schedules::tasks::RunTasks,
    tasks::{
        asked::Asker, cancel::Canceller, erase::Eraser, register::Registrar, reschedule::Changer,
        standing::Standing, transition::Mover,
    },
};

/// The stages that make tasks and move their starts.
pub(super) fn registration(
    ctx: &Arc<Context>,
    (hands, placer, near): (Hands, Placer, Near),
    mover: &Mover,
    canceller: &Canceller,
    known: &Remembered,
) -> (Registrar, Asker, Changer) {
    let ctx = || Arc::clone(ctx);
    let finder = Finder::new(ctx(), mover.clone());
    let (callbacks, leftovers) = (known.callbacks.clone(), known.leftovers.clone());
    let standing = Standing::new(ctx(), hands.clone(), finder.clone());
    let (moves, puts) = (mover.clone(), placer.clone());
    let adopter = Adopter::new(ctx(), moves, finder.clone(), standing, puts);
    let registrar = Registrar::new(
        ctx(),
        hands.clone(),
        placer.clone(),
        near.clone(),
        callbacks,
        (
            Admission::new(ctx(), mover.clone(), adopter),
            Enlister::new(ctx(), mover.clone(), finder.clone()),
        ),
    );
    let (moved, found) = (mover.clone(), finder.clone());
    let changer = Changer::new(ctx(), hands.clone(), placer, near, moved, found, leftovers);
    let acts = (registrar.clone(), canceller.clone(), changer.clone());
    let asker = Asker::new(ctx(), hands, mover.clone(), finder, acts);
    (registrar, asker, changer)
}

/// The desks for dead tasks and for jobs, with what changes their tasks.
pub(super) fn desks(
    ctx: Arc<Context>,
    mover: &Mover,
    finder: &Finder,
    canceller: &Canceller,
    changer: &Changer,
    (runs, callbacks): (RunTasks, Callbacks),
) -> (Desk, jobs::desk::Desk) {
    let eraser = Eraser::new(Arc::clone(&ctx), mover.clone());
    let letters = Desk::new(
        Arc::clone(&ctx),
        mover.clone(),
        changer.clone(),
        eraser.clone(),
    );
    let by = jobs::changers::Changers {
        finder: finder.clone(),
        canceller: canceller.clone(),
        changer: changer.clone(),
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
    (hands, placer): (Hands, Placer),
    mover: &Mover,
    finder: &Finder,
    known: &Remembered,
) -> Canceller {
    let (deadlines, leftovers) = (known.deadlines.clone(), known.leftovers.clone());
    let (mover, finder) = (mover.clone(), finder.clone());
    let ctx = Arc::clone(ctx);
    Canceller::new(ctx, hands, placer, mover, finder, deadlines, leftovers)
}

/// The tasks of the runs of schedules.
pub(super) fn runs(
    ctx: &Arc<Context>,
    (registrar, asker): (&Registrar, &Asker),
    mover: &Mover,
    canceller: &Canceller,
) -> RunTasks {
    let by = (registrar.clone(), mover.clone(), canceller.clone());
    RunTasks::new(Arc::clone(ctx), by, asker.standing().clone())
}

/// The stage that runs the failed parts of trees again.
pub(super) fn retrier(
    ctx: Arc<Context>,
    mover: &Mover,
    finder: &Finder,
    changer: &Changer,
) -> Retrier {
    let opener = Opener::new(Arc::clone(&ctx), mover.clone(), changer.clone());
    Retrier::new(ctx, mover.clone(), finder.clone(), opener)
}

/// The stage that shows trees, and cancels them.
pub(super) fn forester(
    ctx: Arc<Context>,
    mover: &Mover,
    finder: &Finder,
    canceller: &Canceller,
) -> Forester {
    let feller = Feller::new(Arc::clone(&ctx), mover.clone(), canceller.clone());
    Forester::new(ctx, finder.clone(), canceller.clone(), feller)
}
