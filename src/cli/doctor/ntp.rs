//! This look tells operators how far the clock of this machine is from that of a time server.
//!
//! It asks once, by the simple form of NTP (RFC 5905, section 14). The error of the answer is at most half of the time that it
//! took.

use std::{io, time::Duration};

use rsntp::{AsyncSntpClient, Config, SynchronizationError};

use crate::{
    cli::finding::{Finding, bad, good},
    time_source::TimeSource,
};

const ABOUT: &str = "clock";

/// How long an answer is waited for.
const LIMIT: Duration = Duration::from_secs(3);

/// Largest offset of a healthy clock: half of what two nodes may differ by.
const OFFSET_MAX: Duration = Duration::from_millis(500);

/// Asks a server: `HOST` or `HOST:PORT`.
pub(super) async fn look(server: &str, time: &TimeSource) -> Finding {
    match time.within(LIMIT, ask(server)).await {
        Some(Ok((offset_ms, took))) => judged(server, offset_ms, took),
        Some(Err(error)) => bad(ABOUT, format!("{server} was not asked: {error}")),
        None => bad(
            ABOUT,
            format!("{server} does not answer: is it a time server, is UDP let through?"),
        ),
    }
}

fn judged(server: &str, offset_ms: i64, took: Duration) -> Finding {
    let error_ms = took.as_millis() / 2;
    let direction = if offset_ms < 0 { "ahead of" } else { "behind" };
    let ms = offset_ms.unsigned_abs();
    let text = format!("{ms} ms {direction} {server}, to {error_ms} ms");
    if u128::from(ms) > OFFSET_MAX.as_millis() {
        bad(
            ABOUT,
            format!("{text}: let a daemon such as chrony keep the time"),
        )
    } else {
        good(ABOUT, text)
    }
}

/// Returns by how much the server is ahead, in milliseconds, and how long the answer took on its way.
async fn ask(server: &str) -> io::Result<(i64, Duration)> {
    // The caller has the limit: the library's own must not come first.
    let client = AsyncSntpClient::with_config(Config::default().timeout(LIMIT * 2));
    let answer = client
        .synchronize(server)
        .await
        .map_err(|error| match error {
            SynchronizationError::IOError(error) => error,
            SynchronizationError::ProtocolError(error) => odd(&error.to_string()),
        })?;
    let (offset, way) = (answer.clock_offset(), answer.round_trip_delay());
    let [size, took] = [offset, way].map(|duration| duration.abs_as_std_duration());
    let size = size
        .ok()
        .and_then(|size| i64::try_from(size.as_millis()).ok());
    let (Some(size), Ok(took)) = (size, took) else {
        return Err(odd("its time is out of bounds"));
    };
    Ok((size * i64::from(offset.signum()), took))
}

fn odd(reason: &str) -> io::Error {
    let text = format!("the answer is not one of a time server: {reason}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use tokio::net::UdpSocket;

    use super::*;

    /// Bytes of a packet without extensions.
    const PACKET: usize = 48;

    /// Seconds from the epoch of NTP, 1900, to that of Unix.
    const EPOCH: i64 = 2_208_988_800;

    /// A server that answers once: it changes what a healthy one with a clock that is off by so much would say.
    async fn server(
        ahead_ms: i64,
        time: TimeSource,
        change: impl FnOnce(&mut [u8; PACKET]) + Send + 'static,
    ) -> String {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let mut question = [0; PACKET];
            let (bytes, from) = socket.recv_from(&mut question).await.unwrap();
            // Version 4, from a client.
            assert_eq!((bytes, question[0]), (PACKET, 0x23));
            let now = time.now().0 + ahead_ms;
            let seconds = u32::try_from(now / 1000 + EPOCH).unwrap();
            let part = u32::try_from(((now % 1000) << 32) / 1000).unwrap();
            let mut answer = [0; PACKET];
            // Version 4, from a server, one hop from a clock.
            (answer[0], answer[1]) = (0x24, 2);
            answer[24..32].copy_from_slice(&question[40..48]);
            for at in [32, 40] {
                answer[at..at + 4].copy_from_slice(&seconds.to_be_bytes());
                answer[at + 4..at + 8].copy_from_slice(&part.to_be_bytes());
            }
            change(&mut answer);
            socket.send_to(&answer, from).await.unwrap();
        });
        address
    }

    #[tokio::test]
    async fn a_clock_is_compared_with_that_of_a_server() {
        let time = TimeSource::real();
        for (ahead_ms, expected, direction) in [
            (0, true, ""),
            (60_000, false, "ms behind 127.0.0.1:"),
            (-60_000, false, "ms ahead of 127.0.0.1:"),
        ] {
            let address = server(ahead_ms, time.clone(), |_| {}).await;
            let result = look(&address, &time).await.result;
            assert_eq!(result.is_ok(), expected, "{ahead_ms}: {result:?}");
            let (Ok(said) | Err(said)) = result;
            assert!(said.contains(direction), "{said}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_none_of_a_time_server_is_refused_in_words() {
        let time = TimeSource::real();
        // Of another question, of a client, and of a server that does not know the time.
        let changes: [(usize, u8); 3] = [(31, 0x55), (0, 0x23), (1, 16)];
        for (place, byte) in changes {
            let address = server(0, time.clone(), move |answer| answer[place] ^= byte).await;
            let said = look(&address, &time).await.result.unwrap_err();
            let says = "was not asked: the answer is not one of a time server";
            assert!(said.contains(says), "{place}: {said}");
        }
    }

    #[test]
    fn half_a_second_is_judged_at_both_ends() {
        for (offset_ms, expected) in [(500, true), (-500, true), (501, false), (-501, false)] {
            let finding = judged("x", offset_ms, Duration::from_millis(2));
            assert_eq!(finding.result.is_ok(), expected, "{offset_ms}");
        }
    }
}
