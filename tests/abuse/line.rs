//! A `Line` sends any bytes on a connection for tests of hostile clients, and reads the answers.

use std::time::Duration;

use tickwheel::time_source::TimeSource;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A busy debug build needs a while.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(60);

/// An answer with all of its body.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// Tells whether it has this header line.
    pub(super) fn has(&self, header: &str) -> bool {
        self.head.lines().any(|line| line == header)
    }
}

/// One connection.
pub(super) struct Line {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Line {
    pub(super) async fn open(url: &str) -> Self {
        Self {
            stream: super::connect(url).await,
            received: Vec::new(),
        }
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub(super) async fn send_post(&mut self, path: &str, body: &[u8]) {
        self.send_post_with(path, "", body).await;
    }

    /// The same, with further header lines, each with its end.
    pub(super) async fn send_post_with(&mut self, path: &str, headers: &str, body: &[u8]) {
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.send(&request).await;
    }

    /// Sends chunks of a body until the other side takes no more; returns how many it took.
    pub(super) async fn send_chunks(&mut self, count: usize, bytes: usize) -> usize {
        let mut chunk = format!("{bytes:x}\r\n").into_bytes();
        chunk.extend(std::iter::repeat_n(b' ', bytes));
        chunk.extend_from_slice(b"\r\n");
        for sent in 0..count {
            let writing = self.stream.write_all(&chunk);
            let limit = Duration::from_secs(2);
            match TimeSource::real().within(limit, writing).await {
                Some(Ok(())) => {}
                Some(Err(_)) | None => return sent,
            }
        }
        count
    }

    pub(super) async fn answer(&mut self) -> Answer {
        let answer = self.answer_within(ANSWER_WAIT_MAX).await;
        answer.expect("an answer in time")
    }

    /// Waits for an answer, and keeps the part of it that has come.
    pub(super) async fn answer_within(&mut self, wait: Duration) -> Option<Answer> {
        let (stream, received) = (&mut self.stream, &mut self.received);
        let reading = async {
            loop {
                if let Some(answer) = whole(received) {
                    return answer;
                }
                let read = stream.read_buf(received).await.unwrap();
                assert!(read > 0, "closed: {}", String::from_utf8_lossy(received));
            }
        };
        let answer = TimeSource::real().within(wait, reading).await?;
        self.received.clear();
        Some(answer)
    }
}

fn whole(received: &[u8]) -> Option<Answer> {
    let end = received.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8(received[..end].to_vec()).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    let body = received.get(end + 4..end + 4 + length)?.to_vec();
    let status = head[9..12].parse().unwrap();
    Some(Answer { status, head, body })
}
