//! The callback calls read and change for a program what is set for callbacks.

use reqwest::Method;

use super::{Client, Error, json};
use crate::{
    api::callback::{CallbackRequest, CallbackResponse, GateRequest, ListCallbacksResponse},
    model::http_call::CALLBACK_PREFIX,
};

/// The pages of a list of callbacks.
#[derive(Debug)]
pub struct CallbackPages {
    client: Client,
    /// Where the next page begins; none once the last was read.
    next: Option<String>,
}

impl Client {
    /// Reads a callback: its configuration, its gates, and what is going on.
    ///
    /// # Errors
    /// [`Error::NotFound`] when nothing is set for it.
    pub async fn callback(&self, name: &str) -> Result<CallbackResponse, Error> {
        self.call(Method::GET, &path(name)?, None, true).await
    }

    /// Configures a callback. The configuration is replaced as a whole; gates stay as they are.
    ///
    /// # Errors
    /// [`Error::Refused`] names the mistakes in it.
    pub async fn set_callback(
        &self,
        name: &str,
        configuration: &CallbackRequest,
    ) -> Result<CallbackResponse, Error> {
        let body = Some(json(configuration)?);
        // Twice the same configuration is as once.
        self.call(Method::PUT, &path(name)?, body, true).await
    }

    /// Removes the configuration of a callback, whose gates must be open.
    ///
    /// # Errors
    /// [`Error::NotFound`] when it is not configured, or not any more.
    pub async fn delete_callback(&self, name: &str) -> Result<(), Error> {
        let call = self.plain(Method::DELETE, &path(name)?, None, false);
        self.transport.send(call).await?;
        Ok(())
    }

    /// Opens or closes a gate of a callback. From two seconds after the answer no attempt behind a closed one begins.
    ///
    /// # Errors
    /// [`Error::Refused`] names the mistakes in it.
    pub async fn set_gate(
        &self,
        name: &str,
        gate: &GateRequest,
    ) -> Result<CallbackResponse, Error> {
        let path = format!("{}/gate", path(name)?);
        self.call(Method::POST, &path, Some(json(gate)?), true)
            .await
    }

    /// Lists callbacks that were configured, or that have a gate which is not open, by name.
    #[must_use]
    pub fn callbacks(&self) -> CallbackPages {
        CallbackPages {
            client: self.clone(),
            next: Some(String::new()),
        }
    }
}

impl CallbackPages {
    /// Reads the next page. Returns none when the list has ended. A page may be empty and not be the last.
    ///
    /// # Errors
    /// See [`Error`]; the next call asks for the same page again.
    pub async fn next(&mut self) -> Result<Option<Vec<CallbackResponse>>, Error> {
        let Some(token) = &self.next else {
            return Ok(None);
        };
        let path = format!("/v1/callbacks?page_token={token}");
        let page: ListCallbacksResponse = self.client.call(Method::GET, &path, None, true).await?;
        self.next = page.next_page_token;
        Ok(Some(page.callbacks))
    }
}

/// Returns the path of a callback. A name with other characters would be another path. The name of a host may have a port.
fn path(name: &str) -> Result<String, Error> {
    let of_host = name.starts_with(CALLBACK_PREFIX);
    let fits = |c: char| {
        let in_host = of_host && matches!(c, ':' | '[' | ']');
        in_host || c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
    };
    if name.is_empty() || !name.chars().all(fits) {
        return Err(Error::Invalid(format!(
            "{name:?} is not the name of a callback: it consists of A-Z, a-z, 0-9, `.`, `_` and `-`"
        )));
    }
    Ok(format!("/v1/callbacks/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_be_another_path_is_refused() {
        assert_eq!(path("send-mail.2").unwrap(), "/v1/callbacks/send-mail.2");
        for name in ["", "a/gate", "a?b", "a b", "%2e"] {
            assert!(matches!(path(name), Err(Error::Invalid(_))), "{name}");
        }
    }
}
