//! This module starts three Cassandra servers and three Kafka brokers for a drill, each in a
//! folder, from `tests/stack`.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use tickwheel::time_source::TimeSource;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    members::{Kind, Member},
    net::Net,
};

pub(crate) const STORE_PORT: u16 = 9042;
pub(crate) const BROKER_PORT: u16 = 19092;
const STORAGE_PORT: u16 = 7000;
const CONTROLLER_PORT: u16 = 19192;
/// Each server has its own port from here on; without namespaces all servers of all drills are on 127.0.0.1.
const JMX_PORT: u16 = 17190;

/// The tokens divide the ring into three.
const TOKENS: [&str; 3] = [
    "-9223372036854775808",
    "-3074457345618258603",
    "3074457345618258602",
];

/// A CQL request that every server answers before anything else: OPTIONS.
const CQL_OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];

/// A Kafka request for metadata of no topic, which lists the brokers.
const KAFKA_METADATA: [u8; 18] = [0, 0, 0, 14, 0, 3, 0, 0, 0, 0, 0, 1, 255, 255, 0, 0, 0, 0];

pub(crate) fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stack/stack")
}

/// Fetches the servers' jars unless they are here.
pub(crate) fn fetch() {
    let status = Command::new(script())
        .arg("fetch")
        .stdin(Stdio::null())
        .status();
    let status = status.expect("the stack script can be run");
    assert!(status.success(), "stack fetch: {status}");
}

/// The folder of a server, which the script calls its stack.
pub(crate) fn folder(root: &Path, member: Member) -> PathBuf {
    root.join(member.to_string())
}

/// Writes the settings of a server for the script.
pub(crate) fn describe(root: &Path, net: &Net, member: Member) {
    let folder = folder(root, member);
    fs::create_dir_all(&folder).expect("a folder can be made");
    let host = net.address(member);
    let mut text = format!(
        "STACK_DIR={}\nSTACK_DRIVER=process\nSTACK_MEASURE=0\nSTACK_DURABLE=1\n",
        folder.display()
    );
    let mut line = |key: &str, value: &str| {
        writeln!(text, "{key}={value}").expect("a text grows");
    };
    match member.kind {
        Kind::Store => {
            line("TICKWHEEL_CASSANDRA", &format!("{host}:{STORE_PORT}"));
            line("CASSANDRA_STORAGE_PORT", &STORAGE_PORT.to_string());
            let of_drill = u16::from(host.octets()[2]) * 4;
            let jmx = JMX_PORT + of_drill + u16::from(member.number);
            line("CASSANDRA_JMX_PORT", &jmx.to_string());
            let token = TOKENS[usize::from(member.number) - 1];
            line("CASSANDRA_TOKEN", token);
            let seeds = net.addresses(Kind::Store, STORAGE_PORT);
            line("CASSANDRA_SEEDS", &seeds);
            line("CASSANDRA_HEAP", "400m");
            line("CASSANDRA_COLLECTOR", "SerialGC");
            line("CASSANDRA_MEMTABLES", "48MiB");
            line("CASSANDRA_COMMITLOG", "96MiB");
        }
        Kind::Broker => {
            line("TICKWHEEL_KAFKA", &format!("{host}:{BROKER_PORT}"));
            line("KAFKA_CONTROLLER_PORT", &CONTROLLER_PORT.to_string());
            line("KAFKA_NODE", &member.number.to_string());
            line("KAFKA_COPIES", "3");
            let voters: Vec<String> = Kind::Broker
                .members()
                .map(|other| format!("{}@{}:{CONTROLLER_PORT}", other.number, net.address(other)))
                .collect();
            line("KAFKA_VOTERS", &voters.join(","));
            line("KAFKA_HEAP", "192m");
        }
        Kind::Node | Kind::Worker => unreachable!("no server of the stack"),
    }
    fs::write(folder.join("stack.env"), text).expect("a file can be written");
}

/// The command that becomes a server.
pub(crate) fn command(root: &Path, net: &Net, member: Member) -> Command {
    let server = match member.kind {
        Kind::Store => "cassandra",
        Kind::Broker => "kafka",
        Kind::Node | Kind::Worker => unreachable!("no server of the stack"),
    };
    let mut command = net.command(member, &script().display().to_string());
    command
        .args(["exec", server, "--dir"])
        .arg(folder(root, member))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Whether a server serves.
pub(crate) async fn answers(net: &Net, member: Member, time: &TimeSource) -> bool {
    let (port, request): (u16, &[u8]) = match member.kind {
        Kind::Store => (STORE_PORT, &CQL_OPTIONS),
        Kind::Broker => (BROKER_PORT, &KAFKA_METADATA),
        Kind::Node | Kind::Worker => unreachable!("no server of the stack"),
    };
    let address = (net.address(member), port);
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request).await?;
        let mut answer = [0; 12];
        let wanted = if member.kind == Kind::Store { 9 } else { 12 };
        stream.read_exact(&mut answer[..wanted]).await?;
        std::io::Result::Ok(answer)
    };
    match time.within(Duration::from_secs(2), asking).await {
        Some(Ok(answer)) if member.kind == Kind::Store => answer[4] == 6,
        // A broker lists itself only once its controller lets it take requests.
        Some(Ok(answer)) => answer[8..12] != [0; 4],
        Some(Err(_)) | None => false,
    }
}
