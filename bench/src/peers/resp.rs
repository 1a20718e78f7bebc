//! The Redis protocol connects the harness to Redis, as far as it is needed; a server with its settings is
//! here, too.

use std::{net::SocketAddr, path::Path, process::Command};

use anyhow::{Context as _, bail};
use tickwheel::time_source::TimeSource;

use super::{
    process::{Process, find, free_address},
    wire::{Wire, line},
};

/// An answer of Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Text(String),
    Number(i64),
    Bytes(Vec<u8>),
    List(Vec<Self>),
    Nothing,
}

/// Starts a server that appends every command to a file, and syncs the file by a policy.
pub(super) async fn server(
    policy: &str,
    directory: &Path,
    time: &TimeSource,
) -> anyhow::Result<(Process, SocketAddr)> {
    let program = find("redis-server", "apt-get install redis-server")?;
    let address = free_address()?;
    let data = directory.join("data");
    std::fs::create_dir(&data)?;
    let mut command = Command::new(program);
    command
        .args(["--bind", &address.ip().to_string()])
        .args(["--port", &address.port().to_string()])
        .arg("--dir")
        .arg(&data)
        .args(["--appendonly", "yes", "--appendfsync", policy])
        .args(["--save", "", "--daemonize", "no"])
        .args(["--maxmemory", "4gb", "--maxmemory-policy", "noeviction"]);
    let mut process = Process::start("redis-server", &mut command, directory)?;
    process.listens(time, address).await?;
    Ok((process, address))
}

/// Appends a command.
pub(super) fn push(request: &mut Vec<u8>, words: &[&[u8]]) {
    request.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
}

/// Sends a command and returns the answer; an error answer becomes an error.
pub(super) async fn ask(wire: &mut Wire, words: &[&[u8]]) -> anyhow::Result<Reply> {
    let mut request = Vec::new();
    push(&mut request, words);
    wire.send(&request).await?;
    wire.next("answer", reply).await
}

/// Reads an answer.
pub(super) fn reply(bytes: &[u8]) -> anyhow::Result<Option<(Reply, usize)>> {
    let Some((head, used)) = line(bytes)? else {
        return Ok(None);
    };
    let rest = bytes.get(used..).unwrap_or_default();
    let (kind, text) = head.split_at_checked(1).context("an empty answer")?;
    Ok(Some(match kind {
        "+" => (Reply::Text(text.to_owned()), used),
        ":" => (Reply::Number(text.parse()?), used),
        "$" | "*" if text.starts_with('-') => (Reply::Nothing, used),
        "$" => {
            let length: usize = text.parse()?;
            if rest.len() < length + 2 {
                return Ok(None);
            }
            let found = rest.get(..length).unwrap_or_default();
            (Reply::Bytes(found.to_vec()), used + length + 2)
        }
        "*" => {
            let (mut list, mut at) = (Vec::new(), used);
            for _ in 0..text.parse::<usize>()? {
                let rest = bytes.get(at..).unwrap_or_default();
                let Some((item, used)) = reply(rest)? else {
                    return Ok(None);
                };
                list.push(item);
                at += used;
            }
            (Reply::List(list), at)
        }
        _ => bail!("answered {head}"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_when_they_are_whole() {
        let text = b"*2\r\n$3\r\nabc\r\n*1\r\n:7\r\n+OK\r\n";
        let whole = text.len() - 5;
        for end in 0..whole {
            assert!(reply(&text[..end]).unwrap().is_none(), "{end}");
        }
        let inner = Reply::List(vec![Reply::Number(7)]);
        let wanted = Reply::List(vec![Reply::Bytes(b"abc".to_vec()), inner]);
        assert_eq!(reply(text).unwrap(), Some((wanted, whole)));
        assert_eq!(reply(b"*-1\r\n").unwrap(), Some((Reply::Nothing, 5)));
        assert!(reply(b"-ERR no\r\n").is_err());
    }
}
