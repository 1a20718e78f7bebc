//! The key calls let programs of administrators make, list and revoke API keys, and tell a program which key it has.

use reqwest::Method;

use super::{Client, Error, json, list::with_query};
use crate::api::{
    api_key::{
        ApiKeyRequest, ApiKeyResponse, AuditEntry, ListApiKeysResponse, ListAuditResponse,
        WhoAmIResponse,
    },
    text::InstantText,
};

/// The pages of the audit.
#[derive(Debug)]
pub struct AuditPages {
    client: Client,
    from: Option<InstantText>,
    to: Option<InstantText>,
    /// Where the next page begins; none once the last was read.
    next: Option<String>,
}

impl AuditPages {
    /// Reads the next page, the oldest call first. Returns none when the list has ended.
    ///
    /// # Errors
    /// See [`Error`]; the next call asks for the same page again.
    pub async fn next(&mut self) -> Result<Option<Vec<AuditEntry>>, Error> {
        let Some(token) = self.next.clone() else {
            return Ok(None);
        };
        let text = |instant: &Option<InstantText>| instant.as_ref().map(|text| text.0.clone());
        let query = [
            ("from", text(&self.from)),
            ("to", text(&self.to)),
            ("page_token", Some(token)),
        ];
        let path = with_query("/v1/audit", query);
        let page: ListAuditResponse = self.client.call(Method::GET, &path, None, true).await?;
        self.next = page.next_page_token;
        Ok(Some(page.entries))
    }
}

impl Client {
    /// Makes an API key. The answer is the only place where the key itself can be read. The call is not repeated when its answer
    /// is lost: then there may be a key that nobody has, which can be revoked.
    ///
    /// # Errors
    /// [`Error::Refused`] names the mistakes in the request.
    pub async fn create_api_key(&self, request: &ApiKeyRequest) -> Result<ApiKeyResponse, Error> {
        let body = json(request)?;
        self.call(Method::POST, "/v1/api-keys", Some(body), false)
            .await
    }

    /// Lists all API keys, without the keys themselves.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn api_keys(&self) -> Result<Vec<ApiKeyResponse>, Error> {
        let (mut keys, mut token) = (Vec::new(), Some(String::new()));
        while token.is_some() {
            let path = with_query("/v1/api-keys", [("page_token", token)]);
            let page: ListApiKeysResponse = self.call(Method::GET, &path, None, true).await?;
            keys.extend(page.api_keys);
            token = page.next_page_token;
        }
        Ok(keys)
    }

    /// Revokes an API key. It works nowhere two seconds after the answer.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such key.
    pub async fn revoke_api_key(&self, id: &str) -> Result<(), Error> {
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            let text = format!("{id:?} is not the id of an API key");
            return Err(Error::Invalid(text));
        }
        let path = format!("/v1/api-keys/{id}");
        let call = self.plain(Method::DELETE, &path, None, false);
        self.transport.send(call).await?;
        Ok(())
    }

    /// Tells which key the client has, and what that may do.
    ///
    /// # Errors
    /// [`Error::Refused`] when the service asks for another key.
    pub async fn whoami(&self) -> Result<WhoAmIResponse, Error> {
        self.call(Method::GET, "/v1/whoami", None, true).await
    }

    /// Lists calls that changed the configuration or many tasks, the oldest first: by default those of a day.
    #[must_use]
    pub fn audit(&self, from: Option<InstantText>, to: Option<InstantText>) -> AuditPages {
        AuditPages {
            client: self.clone(),
            from,
            to,
            next: Some(String::new()),
        }
    }
}
