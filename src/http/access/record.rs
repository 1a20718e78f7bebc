//! The record of a call writes to the audit, for administrators, who makes it and how it ends.

use std::net::SocketAddr;

use axum::{extract::Request, response::Response};

use super::{
    caller::{ANONYMOUS, Caller},
    rules::Rule,
};
use crate::{
    flow::api::Fault,
    http::{Api, error::Error},
    model::audit::{Entry, Spot, TEXT_CHARS_MAX},
};

/// The address of the client of a connection.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct Peer(pub(in crate::http) SocketAddr);

/// A call whose row is to be written, or was.
pub(super) struct Begun {
    entry: Entry,
    spot: Option<Spot>,
}

impl Begun {
    pub(super) fn of(rule: &Rule, caller: &Caller, request: &Request) -> Self {
        let peer = request.extensions().get::<Peer>();
        let key = caller.key();
        let who = key.map_or(ANONYMOUS, |(_, key)| &key.name);
        let entry = Entry {
            key: key.map_or_else(String::new, |(id, _)| id.to_string()),
            who: cut(who),
            action: rule.action.to_owned(),
            target: cut(request.uri().path()),
            from: peer.map_or_else(String::new, |Peer(address)| address.to_string()),
            status: None,
            code: String::new(),
        };
        Self { entry, spot: None }
    }

    /// Writes the row before the call is made.
    pub(super) async fn begin(mut self, api: &Api) -> Result<Self, Fault> {
        self.spot = Some(api.service.audit().begin(&self.entry).await?);
        Ok(self)
    }

    /// Takes notice of the answer.
    pub(super) fn ended(mut self, answer: &Response) -> Self {
        let problem = answer.extensions().get::<Error>();
        self.entry.status = Some(answer.status().as_u16());
        self.entry.code = problem.map_or("", |error| error.code.name()).to_owned();
        self
    }

    /// Writes the outcome. If that fails, the row says that it is not known.
    pub(super) async fn write(self, api: &Api) {
        let Some(spot) = self.spot else {
            return;
        };
        if let Err(fault) = api.service.audit().end(spot, &self.entry).await {
            let action = self.entry.action;
            tracing::warn!(%fault, action, "the outcome of a call is not in the audit");
        }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}
