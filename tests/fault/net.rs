//! `Net` connects the members of a drill: with a namespace per member behind a switch of our own, or, where
//! that is not permitted, with addresses of the loopback device and without the faults that need cables.

use std::{
    fs,
    io::Write as _,
    net::Ipv4Addr,
    process::{Command, Stdio},
    time::Duration,
};

use tickwheel::time_source::TimeSource;

use crate::{
    members::{Kind, Member},
    switch::{MTU, Rule, Switch, hardware},
};

/// The host number of this process on the network, for clients and for the test whether a server is ready.
const HERE: u8 = 1;

const PREFIX: &str = "twdrill";

/// Its namespaces are gone when it is dropped.
pub(crate) struct Net {
    prefix: [u8; 3],
    switch: Option<Switch>,
}

fn namespace(host: u8) -> String {
    format!("{PREFIX}{}-{host}", std::process::id())
}

fn ip(arguments: &[&str], input: &str) -> Result<(), String> {
    let mut child = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("ip: {error}"))?;
    let mut to = child.stdin.take().expect("it is piped");
    to.write_all(input.as_bytes())
        .map_err(|error| error.to_string())?;
    drop(to);
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("ip {}: {}", arguments.join(" "), said.trim()))
    }
}

impl Net {
    /// Makes the network, on the loopback device when `plain`, or when namespaces are not
    /// available, which it logs.
    pub(crate) fn make(time: &TimeSource, plain: bool) -> Self {
        let [one, two, ..] = time.random().to_le_bytes();
        if !plain {
            sweep();
            let prefix = [10, 100 + one % 100, two];
            match cables(prefix) {
                Ok(switch) => {
                    let switch = Some(switch);
                    return Self { prefix, switch };
                }
                Err(why) => {
                    say!("no network of our own, so no partitions, delay and loss: {why}");
                    remove_namespaces();
                }
            }
        }
        Self {
            prefix: [127, 1 + one % 250, two],
            switch: None,
        }
    }

    /// Whether links can be broken.
    pub(crate) const fn has_cables(&self) -> bool {
        self.switch.is_some()
    }

    pub(crate) fn address(&self, member: Member) -> Ipv4Addr {
        let [a, b, c] = self.prefix;
        Ipv4Addr::new(a, b, c, member.host())
    }

    /// All addresses of a kind with a port, separated by commas.
    pub(crate) fn addresses(&self, kind: Kind, port: u16) -> String {
        let all = kind.members();
        let all: Vec<String> = all
            .map(|member| format!("{}:{port}", self.address(member)))
            .collect();
        all.join(",")
    }

    /// A command that runs where this member is, and dies with this process.
    pub(crate) fn command(&self, member: Member, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if self.switch.is_some() {
            command.args(["ip", "netns", "exec", &namespace(member.host())]);
        }
        command.arg(program).stdin(Stdio::null());
        command
    }

    /// Breaks the link of two members, both ways.
    pub(crate) fn cut(&self, one: Member, other: Member) {
        self.set(one, other, Rule::CUT);
        self.set(other, one, Rule::CUT);
    }

    /// Breaks one direction from a member to another; the other direction still works.
    pub(crate) fn cut_one_way(&self, from: Member, to: Member) {
        self.set(from, to, Rule::CUT);
    }

    /// Makes every link between two different members slow or leaky, the client's own as well.
    pub(crate) fn worsen(&self, delay: Duration, lost_permille: u64) {
        let rule = Rule {
            lost_permille,
            delay,
            jitter: delay,
        };
        let hosts: Vec<u8> = hosts().collect();
        for from in &hosts {
            for to in hosts.iter().filter(|to| *to != from) {
                self.switch().set(*from, *to, rule);
            }
        }
    }

    /// Mends everything.
    pub(crate) fn mend(&self) {
        if let Some(switch) = &self.switch {
            switch.clear();
        }
    }

    fn set(&self, from: Member, to: Member, rule: Rule) {
        self.switch().set(from.host(), to.host(), rule);
    }

    fn switch(&self) -> &Switch {
        let switch = self.switch.as_ref();
        switch.expect("faults that need cables are left out where there are none")
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        if self.switch.is_some() {
            remove_namespaces();
        }
    }
}

fn hosts() -> impl Iterator<Item = u8> {
    std::iter::once(HERE).chain(Member::all().map(Member::host))
}

fn remove_namespaces() {
    for host in hosts() {
        // A namespace that does not exist needs no removal.
        drop(ip(&["netns", "delete", &namespace(host)], ""));
    }
}

fn cables(prefix: [u8; 3]) -> Result<Switch, String> {
    let name = |host: u8| format!("tw{}-{host}", std::process::id());
    let cables: Vec<(u8, String)> = hosts().map(|host| (host, name(host))).collect();
    let switch = Switch::start(&cables).map_err(|error| format!("no TAP device: {error}"))?;
    let [a, b, c] = prefix;
    for (host, device) in &cables {
        let setup = format!(
            "link set lo up\nlink set {device} address {} mtu {MTU} up\naddr add {a}.{b}.{c}.{host}/24 dev {device}\n",
            hardware(*host)
        );
        if *host == HERE {
            ip(&["-batch", "-"], &setup)?;
            continue;
        }
        let namespace = namespace(*host);
        ip(&["netns", "add", &namespace], "")?;
        ip(&["link", "set", device, "netns", &namespace], "")?;
        ip(&["-n", &namespace, "-batch", "-"], &setup)?;
    }
    Ok(switch)
}

/// Removes the namespaces of drills that were killed.
fn sweep() {
    let listed = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    for entry in listed {
        let name = entry.file_name().to_string_lossy().into_owned();
        let of = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        if let Some(process) = of
            && !fs::exists(format!("/proc/{process}")).unwrap_or(true)
        {
            drop(ip(&["netns", "delete", &name], ""));
        }
    }
}
