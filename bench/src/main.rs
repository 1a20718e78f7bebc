//! Load harness of Tickwheel.
fn main() {}
