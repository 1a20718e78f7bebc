//! A timer that is always near lets a paused clock pass while bytes cross a real socket.
//!
//! A paused clock jumps to the next timer as soon as no task can go on, also while bytes are on the wire. With this timer it
//! goes by small steps. At each of them the thread rests: on a busy machine the kernel delivers bytes in a thread of its own,
//! which has to get its turn before the clock goes on. Without the rest 78 s went by instead of 30.

use std::time::Duration;

use tickwheel::time_source::TimeSource;

/// Begins it, in the runtime of the test.
pub(crate) fn keep_near(time: TimeSource) {
    tokio::spawn(async move {
        loop {
            time.sleep(Duration::from_millis(20)).await;
            std::thread::park_timeout(Duration::from_micros(50));
        }
    });
}
