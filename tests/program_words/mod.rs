//! These tests check the words of the program for its users: refusals at a terminal, log lines of
//! a service and a worker.

mod logs;
mod terminal;

/// The files that people meet before the program; without an engine only the text of an image can
/// be checked here.
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
