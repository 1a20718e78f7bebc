//! This look tells operators how far the clock of this machine is from that of a time server.
//!
//! It asks once, by the simple form of NTP (RFC 5905, section 14). The middle between sending and receiving stands for the moment
//! of the server's answer, so the error is at most half of the time that the answer took.

use std::{io, time::Duration};

use tokio::net::UdpSocket;

use crate::{
    cli::finding::{Finding, bad, good},
    time_source::TimeSource,
};

const ABOUT: &str = "clock";

/// How long an answer is waited for.
const LIMIT: Duration = Duration::from_secs(3);

/// Largest offset of a healthy clock: half of what two nodes may differ by.
const OFFSET_MAX: Duration = Duration::from_millis(500);

/// Seconds from the epoch of NTP, 1900, to that of Unix.
const EPOCH: i64 = 2_208_988_800;

/// Bytes of a packet without extensions.
const PACKET: usize = 48;

/// Version 4, from a client.
const QUESTION: u8 = 0x23;

/// Asks a server: `HOST` or `HOST:PORT`.
pub(super) async fn look(server: &str, time: &TimeSource) -> Finding {
    let has_port = server
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let address = if has_port {
        server.to_owned()
    } else {
        format!("{server}:123")
    };
    match time.within(LIMIT, ask(&address, time)).await {
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

/// Returns by how much the server is ahead, in milliseconds, and how long the answer took.
async fn ask(address: &str, time: &TimeSource) -> io::Result<(i64, Duration)> {
    let socket = UdpSocket::bind("0.0.0.0:0").await?;
    socket.connect(address).await?;
    let mut question = [0_u8; PACKET];
    if let Some(first) = question.first_mut() {
        *first = QUESTION;
    }
    let (sent, began) = (time.now(), time.moment());
    socket.send(&question).await?;
    let mut answer = [0_u8; PACKET];
    let bytes = socket.recv(&mut answer).await?;
    let took = time.moment().since(began);
    let odd = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the answer is not one of a time server",
        )
    };
    let answer = answer
        .get(..bytes)
        .filter(|answer| answer.len() == PACKET)
        .ok_or_else(odd)?;
    let (received, replied) = (stamp(answer, 32), stamp(answer, 40));
    let (received, replied) = received.zip(replied).ok_or_else(odd)?;
    let middle = sent.0 + i64::try_from(took.as_millis() / 2).unwrap_or_default();
    Ok(((received + replied) / 2 - middle, took))
}

/// Reads a time stamp as milliseconds since 1970; none when it is not set.
fn stamp(packet: &[u8], at: usize) -> Option<i64> {
    let number = |from: usize| -> Option<i64> {
        let bytes = packet.get(from..from + 4)?.try_into().ok()?;
        Some(i64::from(u32::from_be_bytes(bytes)))
    };
    let (seconds, part) = (number(at)?, number(at + 4)?);
    // From February 2036 on seconds begin again at 0.
    let seconds = if seconds < EPOCH {
        seconds + (1 << 32)
    } else {
        seconds
    };
    (seconds != (1 << 32)).then(|| (seconds - EPOCH) * 1000 + ((part * 1000) >> 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server whose clock is off by so much; it answers once.
    async fn server(ahead_ms: i64, time: TimeSource) -> String {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let mut question = [0; PACKET];
            let (bytes, from) = socket.recv_from(&mut question).await.unwrap();
            assert_eq!((bytes, question[0]), (PACKET, QUESTION));
            let now = time.now().0 + ahead_ms;
            let seconds = u32::try_from(now / 1000 + EPOCH).unwrap();
            let part = u32::try_from(((now % 1000) << 32) / 1000).unwrap();
            let mut answer = [0; PACKET];
            for at in [32, 40] {
                answer[at..at + 4].copy_from_slice(&seconds.to_be_bytes());
                answer[at + 4..at + 8].copy_from_slice(&part.to_be_bytes());
            }
            socket.send_to(&answer, from).await.unwrap();
        });
        address
    }

    #[tokio::test]
    async fn a_clock_is_compared_with_that_of_a_server() {
        let time = TimeSource::real();
        for (ahead_ms, expected) in [(0, true), (60_000, false), (-60_000, false)] {
            let address = server(ahead_ms, time.clone()).await;
            let finding = look(&address, &time).await;
            assert_eq!(
                finding.result.is_ok(),
                expected,
                "{ahead_ms}: {:?}",
                finding.result
            );
        }
    }

    #[test]
    fn half_a_second_is_judged_at_both_ends() {
        for (offset_ms, expected) in [(500, true), (-500, true), (501, false), (-501, false)] {
            let finding = judged("x", offset_ms, Duration::from_millis(2));
            assert_eq!(finding.result.is_ok(), expected, "{offset_ms}");
        }
    }

    #[test]
    fn time_stamps_are_read_beyond_2036() {
        let mut packet = [0; PACKET];
        assert_eq!(stamp(&packet, 32), None, "not set");
        packet[32..36].copy_from_slice(&4_000_000_000_u32.to_be_bytes());
        packet[36..40].copy_from_slice(&(1_u32 << 31).to_be_bytes());
        assert_eq!(
            stamp(&packet, 32),
            Some((4_000_000_000 - EPOCH) * 1000 + 500)
        );
        packet[32..36].copy_from_slice(&1_u32.to_be_bytes());
        assert_eq!(
            stamp(&packet, 32),
            Some(((1 << 32) + 1 - EPOCH) * 1000 + 500)
        );
        assert_eq!(stamp(&packet, 47), None, "beyond the end");
    }
}
