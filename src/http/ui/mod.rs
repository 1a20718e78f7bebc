//! The dashboard shows people at `/` what goes on, and lets them act on it.
//!
//! It is a client of the API: each page makes calls of it with the key of its reader, in this process or over the network, and
//! sees no more than the answers. So a page shows and does what the role of a key allows, and no store is read past the API.
//!
//! - `gate` makes the calls; `visit` knows the reader, the rights and the prefix of a request.
//! - `parts` has what pages have in common; `pages` shows; `forms` acts; `live` tells open pages what has changed.
//! - `site` is the table of pages.
//!
//! Pages need no script: with one they change by themselves, and show times of the reader's own zone.

mod assets;
mod forms;
mod gate;
mod live;
mod pages;
mod parts;
mod proxies;
mod site;
mod visit;

use std::{ops::Deref, sync::Arc};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::time_source::TimeSource;

pub(in crate::http) use gate::Gate;
pub use gate::{Answering, Far};
pub(in crate::http) use site::{paths, router};

pub use self::proxies::Proxies;

/// The settings of the dashboard.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The clock.
    pub time: TimeSource,
    /// The path below which people find it, such as `/timers`; empty where it is the root of its host.
    pub base_path: String,
    /// The proxies whose word about prefix and scheme is taken.
    pub proxies: Proxies,
    /// Browsers reach it over TLS.
    pub tls: bool,
    /// The API answers reads alone, so no page has a button.
    pub read_only: bool,
    /// The description of the API is served beside the pages.
    pub has_docs: bool,
    /// Ends streams.
    pub shutdown: CancellationToken,
}

/// The state of the dashboard; a clone is one pointer.
#[derive(Debug, Clone)]
struct Ui(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    gate: Gate,
    settings: Settings,
    /// Streams that may still be opened.
    streams: Arc<Semaphore>,
    made: live::Made,
}

impl Deref for Ui {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
