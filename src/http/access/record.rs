//! The record of a call writes to the audit, for administrators, who makes it and how it ends.

use std::net::SocketAddr;

use axum::{extract::Request, response::Response};

use super::{
    caller::{ANONYMOUS, Caller},
    rules::Rule,
};
use crate::{
    flow::base::api::Fault,
    http::{
        Api,
        error::{Code, Error},
    },
    model::audit::{Entry, Spot, TEXT_CHARS_MAX},
};

/// The address of the client of a connection.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct Peer(pub(in crate::http) SocketAddr);

/// A call whose row was written, or is where it is refused.
pub(super) struct Begun {
    entry: Entry,
    spot: Option<Spot>,
    is_refused: bool,
}

impl Begun {
    pub(super) fn of(rule: &Rule, caller: &Caller, request: &Request) -> Self {
        let peer = request.extensions().get::<Peer>();
        let key = caller.key();
        let who = key.map_or(ANONYMOUS, |(_, key)| &key.name);
        let entry = Entry {
            key: key.map_or_else(String::new, |(id, _)| id.to_string()),
            who: cut(who),
            action: rule.action.clone().into_owned(),
            target: cut(request.uri().path()),
            from: peer.map_or_else(String::new, |Peer(address)| address.to_string()),
            status: None,
            code: String::new(),
            more: 0,
        };
        Self {
            entry,
            spot: None,
            is_refused: false,
        }
    }

    /// Writes the row before the call is made.
    pub(super) async fn begin(mut self, api: &Api) -> Result<Self, Fault> {
        let audit = api.service.audit();
        let spot = audit.spot();
        audit.write(spot, &self.entry).await?;
        self.spot = Some(spot);
        Ok(self)
    }

    /// Takes notice of the answer.
    pub(super) fn ended(mut self, answer: &Response) -> Self {
        let code = answer.extensions().get::<Error>().map(|error| error.code);
        self.entry.status = Some(answer.status().as_u16());
        self.entry.code = code.map_or("", Code::name).to_owned();
        let is_denied = matches!(code, Some(Code::AccessDenied | Code::ReadOnly));
        // A call that a client must change had no effect.
        self.is_refused = is_denied || answer.status().is_client_error() && self.spot.is_some();
        self
    }

    /// Writes the outcome of a call that was refused, or that has a row. If that fails, the row says that it is not known.
    pub(super) async fn write(self, api: &Api) {
        if self.is_refused {
            let refusals = api.service.refusals();
            return refusals.refused(self.entry, self.spot).await;
        }
        let Some(spot) = self.spot else {
            return;
        };
        if let Err(fault) = api.service.audit().write(spot, &self.entry).await {
            let action = self.entry.action;
            tracing::warn!(%fault, action, "the outcome of a call is not in the audit");
        }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}
