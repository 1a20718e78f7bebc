//! The words of the program: refusals at a terminal, log lines of a service, lines of a worker.

mod logs;
mod terminal;

/// The files that somebody meets before the program: an image can be checked here only as far as text goes, without an engine.
#[test]
fn the_image_keeps_its_tasks_in_a_volume_that_its_user_owns() {
    let text = include_str!("../../Dockerfile");
    let place = |words: &str| {
        let found = text.find(words);
        found.unwrap_or_else(|| panic!("{words:?} is not in the Dockerfile"))
    };
    let owned = place("install --directory --owner=tickwheel --group=tickwheel");
    let volume = place("VOLUME /var/lib/tickwheel");
    let user = place("USER tickwheel");
    place("ENV TICKWHEEL_DATA_DIR=/var/lib/tickwheel");
    place("WORKDIR /var/lib/tickwheel");
    assert!(owned < volume && volume < user);
}
