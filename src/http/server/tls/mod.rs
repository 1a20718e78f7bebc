//! The TLS of the listener shows clients the certificate of the node, and takes over changed files while the node runs.
//!
//! Certificate, key and authorities of clients are read together and become one configuration. New connections get the newest;
//! open ones keep theirs. Sessions are resumed within one configuration only, so a client whose authority was taken away cannot
//! come back by an old session. Files that cannot be used change nothing: the node goes on with those before, and says so.

mod config;
pub(super) mod door;

use std::{path::PathBuf, sync::Arc, time::Duration};

use metrics::{counter, gauge};
use parking_lot::{Mutex, RwLock};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_rustls::rustls::ServerConfig;
use tokio_util::sync::CancellationToken;

pub use self::config::Error;
use self::config::{Contents, Current};
use crate::{
    limits::{TLS_CERTIFICATE_END_WARN, TLS_FILES_LOOK},
    model::time::Millis,
    time_source::TimeSource,
};

/// How often a certificate that ends soon is warned of.
const WARN_EVERY: Duration = Duration::from_secs(24 * 3600);

/// The files of a listener, in PEM form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The certificate of the node, and behind it those between it and its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of clients; with them a client needs a certificate.
    pub client_ca: Option<PathBuf>,
}

/// The TLS of a listener.
#[derive(Debug)]
pub struct Tls {
    files: Files,
    current: RwLock<Current>,
    /// The files that were tried last, as a hash, or why they could not be read.
    tried: Mutex<Result<[u8; 32], String>>,
}

/// The result of a look at the files.
#[derive(Debug)]
pub enum Look {
    /// They are those of the last look.
    Unchanged,
    /// They are in force now.
    Taken,
    /// They cannot be used; those before stay in force.
    Refused(Error),
}

impl Tls {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// When they cannot be used.
    pub async fn load(files: Files) -> Result<Self, Error> {
        let contents = Contents::read(&files).await?;
        let current = contents.configured(&files)?;
        contents.warn_of_readers(&files);
        note_end(current.end);
        Ok(Self {
            files,
            current: RwLock::new(current),
            tried: Mutex::new(Ok(contents.hash())),
        })
    }

    /// Looks at the files once, and takes them over when they have changed and can be used.
    pub async fn look(&self) -> Look {
        let read = Contents::read(&self.files).await;
        let seen = read.as_ref().map(Contents::hash);
        let seen = seen.map_err(ToString::to_string);
        {
            let mut tried = self.tried.lock();
            if *tried == seen {
                return Look::Unchanged;
            }
            *tried = seen;
        }
        let made = read.and_then(|contents| {
            let made = contents.configured(&self.files)?;
            contents.warn_of_readers(&self.files);
            Ok(made)
        });
        match made {
            Ok(current) => {
                note_end(current.end);
                counter!("tickwheel_tls_reloads_total", "outcome" => "taken").increment(1);
                *self.current.write() = current;
                Look::Taken
            }
            Err(error) => {
                counter!("tickwheel_tls_reloads_total", "outcome" => "refused").increment(1);
                Look::Refused(error)
            }
        }
    }

    /// Looks at the files every few seconds, and at SIGHUP, until `stop`.
    pub async fn keep(self: Arc<Self>, time: TimeSource, stop: CancellationToken) {
        let mut hang_up = signal(SignalKind::hangup())
            .inspect_err(|error| tracing::warn!(%error, "SIGHUP is not listened for"))
            .ok();
        let mut next_warning = time.moment();
        loop {
            if time.moment() >= next_warning && self.warns_of_end(time.now()) {
                next_warning = time.moment().after(WARN_EVERY);
            }
            let is_asked = tokio::select! {
                () = stop.cancelled() => return,
                () = time.sleep(TLS_FILES_LOOK) => false,
                () = received(&mut hang_up) => true,
            };
            match self.look().await {
                Look::Unchanged if is_asked => tracing::info!("the files of TLS are unchanged"),
                Look::Unchanged => {}
                Look::Taken => {
                    next_warning = time.moment();
                    tracing::info!(end = self.end(), "changed files of TLS are in force");
                }
                Look::Refused(error) => tracing::warn!(
                    %error,
                    "the changed files of TLS cannot be used: the certificate before stays in force"
                ),
            }
        }
    }

    /// The configuration for a new connection.
    fn config(&self) -> Arc<ServerConfig> {
        let current = self.current.read();
        Arc::clone(&current.config)
    }

    /// The end of the certificate as text.
    fn end(&self) -> String {
        let current = self.current.read();
        current.end.map_or_else(|| "unknown".to_owned(), text)
    }

    /// Warns when the certificate ends soon, or has ended.
    fn warns_of_end(&self, now: Millis) -> bool {
        let current = self.current.read();
        let Some(end) = current
            .end
            .filter(|end| *end <= now.after(TLS_CERTIFICATE_END_WARN))
        else {
            return false;
        };
        let end_time = text(end);
        if end <= now {
            tracing::warn!(
                end_time,
                "the certificate of TLS has ended: clients refuse it"
            );
        } else {
            tracing::warn!(end_time, "the certificate of TLS ends soon: renew it");
        }
        true
    }
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            if signal.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
        }
        None => std::future::pending().await,
    }
}

/// Shows the end in the metrics.
fn note_end(end: Option<Millis>) {
    let seconds = end.map_or(0.0, |end| end.0 as f64 / 1000.0);
    gauge!("tickwheel_tls_certificate_expire_timestamp_seconds").set(seconds);
}

fn text(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at.0).map_or_else(|_| at.to_string(), |at| at.to_string())
}
