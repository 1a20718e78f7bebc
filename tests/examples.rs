//! These tests run the commands of docs/examples.md as they stand there, on a service as `tickwheel dev` starts it.

use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::readme_block::block_of;

const PAGE: &str = include_str!("../docs/examples.md");

/// `tickwheel dev`, with a folder for what the commands write. It is killed at the end.
struct Dev {
    child: Child,
    address: String,
    folder: TempDir,
}

impl Drop for Dev {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        self.child.wait().ok();
    }
}

impl Dev {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_tickwheel"))
            .args(["dev", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.path().join("data"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let ready = lines.find_map(|line| {
            let line = line.ok()?;
            line.strip_prefix("ready on http://").map(str::to_owned)
        });
        // The log is read on, so that the program never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            address: ready.expect("it becomes ready"),
            folder,
        }
    }

    /// Runs a block of the page, whose commands are those of this build, and returns what it prints.
    fn run(&self, name: &str) -> String {
        let program = Path::new(env!("CARGO_BIN_EXE_tickwheel")).parent().unwrap();
        let built = program.join("examples");
        let built = built.to_str().unwrap();
        let receiver = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/trial/receiver.py");
        let port = free_port().to_string();
        let mut script = block_of(PAGE, name)
            .replace("examples/trial/receiver.py", receiver)
            .replace("8000", &port)
            .replace("localhost:7420", &self.address);
        for example in ["monthly_invoices", "nightly_report", "order_saga", "trial"] {
            let path = format!("{built}/{example}");
            assert!(Path::new(&path).exists(), "cargo build --example {example}");
            script = script
                .replace(&format!("cargo run --example {example} --"), &path)
                .replace(&format!("cargo run --example {example}"), &path);
        }
        // A block that fails in the middle leaves no program behind.
        let script = format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}");
        let path = std::env::var("PATH").unwrap();
        let ran = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &script])
            .env("TICKWHEEL_SERVER", format!("http://{}", self.address))
            .env("PATH", format!("{}:{path}", program.display()))
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        let text = String::from_utf8(ran.stdout).unwrap();
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{script}\n{text}{errors}");
        text
    }
}

fn free_port() -> u16 {
    let bound = TcpListener::bind("127.0.0.1:0").unwrap();
    bound.local_addr().unwrap().port()
}

/// Checks that lines come in this order, perhaps with others in between.
fn in_order(text: &str, lines: &[&str]) {
    let mut found = text.lines();
    for line in lines {
        assert!(
            found.any(|found| found.contains(line)),
            "{line:?} is missing, or comes too early, in:\n{text}"
        );
    }
}

#[test]
fn the_nightly_report_is_made_at_times_of_a_zone() {
    let text = Dev::start().run("nightly");
    in_order(
        &text,
        &[
            "nightly-report: At 02:30",
            "left out on the second",
            "2030-03-30T02:30:00+01:00",
            "2030-03-31T03:00:00+02:00",
            "2030-04-01T02:30:00+02:00",
            "comes twice on the second",
            "2030-10-26T02:30:00+02:00",
            "2030-10-27T02:30:00+02:00",
            "2030-10-28T02:30:00+01:00",
            "report of sales is in ./report-",
            "Report of sales, task ",
        ],
    );
}

#[test]
fn a_trial_ends_with_a_webhook_that_is_signed() {
    let text = Dev::start().run("trial");
    in_order(
        &text,
        &["ada: the trial ends at", "ada extends it by a week"],
    );
    in_order(&text, &["cleo buys: the end of the trial is cancelled"]);
    in_order(&text, &["the trial of bob has ended"]);
    in_order(
        &text,
        &["bob: the trial has ended, and the receiver answered {\"handled\":"],
    );
    assert_eq!(text.matches("the trial of ").count(), 1, "{text}");
}

/// The receiver believes nobody who does not know its secret, and no recorded message.
#[test]
fn the_receiver_refuses_what_is_not_signed() {
    let script = r#"
import base64, hashlib, hmac, sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import receiver

key = receiver.key_of("whsec_" + base64.b64encode(b"k" * 24).decode())
def headers(key=key, sent="1000", body=b"{}", version="v1"):
    signed = b"m." + sent.encode() + b"." + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": "m", "webhook-timestamp": sent, "webhook-signature": f"v1,AAAA {version},{signature}"}

assert receiver.is_signed(key, headers(), b"{}", 1010)
assert not receiver.is_signed(key, headers(key=b"other"), b"{}", 1010)
assert not receiver.is_signed(key, headers(), b"{ }", 1010)
assert not receiver.is_signed(key, headers(), b"{}", 1301)
assert not receiver.is_signed(key, headers(version="v2"), b"{}", 1010)
assert not receiver.is_signed(key, {**headers(), "webhook-timestamp": "1001"}, b"{}", 1010)
for name in headers():
    assert not receiver.is_signed(key, {**headers(), name: ""}, b"{}", 1010)
    assert not receiver.is_signed(key, {**headers(), name: None}, b"{}", 1010)
"#;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/trial");
    let ran = Command::new("python3")
        .args(["-B", "-c", script, folder])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

#[test]
fn an_order_that_cannot_be_shipped_is_undone() {
    let dev = Dev::start();
    let text = dev.run("saga");
    in_order(
        &text,
        &[
            "order 1: order",
            "order 1: reserve_stock",
            "order 1: charge_card",
            "order 1: ship",
            "order 1: confirm",
        ],
    );
    for undone in ["order 2: refund_card", "order 2: release_stock"] {
        in_order(
            &text,
            &["order 2: charge_card", "order 2: ship fails", undone],
        );
        in_order(&text, &[undone, "order 2: apologise"]);
    }
    // The last step is undone first.
    in_order(&text, &["order 2: refund_card", "order 2: release_stock"]);
    let first = |step: &str| text.contains(&format!("order 1: {step}"));
    assert!(!first("refund_card") && !first("release_stock"), "{text}");
    in_order(
        &text,
        &["tree of order 1", "order: succeeded, tree completed"],
    );
    in_order(
        &text,
        &[
            "tree of order 2",
            "order: succeeded, tree faulted",
            "charge_card: succeeded, tree faulted",
        ],
    );
    in_order(&text, &["tree of order 2", "ship: failed"]);
    let picture = std::fs::read_to_string(dev.folder.path().join("order-2.svg")).unwrap();
    assert!(
        picture.contains("<svg") && picture.contains("refund_card"),
        "{picture}"
    );
}

#[test]
fn the_summary_of_the_invoices_follows_the_last_of_them() {
    let text = Dev::start().run("invoices");
    in_order(
        &text,
        &["monthly-invoices: ", "3 invoices are to be made: tree"],
    );
    for invoice in [
        "invoice of acme: 120 euros",
        "invoice of globex: the printer is busy",
        "invoice of globex: 80 euros",
        "invoice of initech: failed, it has no address",
    ] {
        in_order(
            &text,
            &[
                "3 invoices",
                invoice,
                "the run is faulted: 200 euros, 1 not made",
            ],
        );
    }
    in_order(
        &text,
        &["the run is faulted", "initech has no address", "succeeded"],
    );
}
