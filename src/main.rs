//! The `tickwheel` program.
fn main() {}
