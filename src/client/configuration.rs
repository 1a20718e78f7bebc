//! The configuration calls let programs of administrators carry callbacks, gates and API keys from one service to another.

use std::time::Duration;

use reqwest::Method;

use super::{Client, Error, json, transport::Call};
use crate::api::configuration::{
    ConfigurationItem, ExportConfigurationRequest, ExportConfigurationResponse,
    ImportConfigurationRequest, ImportConfigurationResponse, ImportConfigurationResult,
};

/// How long a server may take for an import: keys are set one after the other, with two conditional writes each.
const IMPORT_LIMIT: Duration = Duration::from_secs(120);

const EXPORT: &str = "/v1/configuration:export";

/// The pages of an export of the configuration.
#[derive(Debug)]
pub struct ConfigurationPages {
    client: Client,
    /// Where the next page begins; none once the last was read.
    next: Option<String>,
}

impl ConfigurationPages {
    /// Reads the next page. Returns none when all were read. A page may be empty and not be the last.
    ///
    /// # Errors
    /// See [`Error`]; the next call asks for the same page again.
    pub async fn next(&mut self) -> Result<Option<Vec<ConfigurationItem>>, Error> {
        let Some(token) = self.next.clone() else {
            return Ok(None);
        };
        let page_token = (!token.is_empty()).then_some(token);
        let body = Some(json(&ExportConfigurationRequest { page_token })?);
        let call = self.client.plain(Method::POST, EXPORT, body, true);
        let (server, page) = self.client.transport.send(call).await?;
        let page: ExportConfigurationResponse =
            serde_json::from_slice(&page).map_err(|error| Error::Unexpected {
                server: server.to_owned(),
                // The page has secrets, so neither it nor the error is quoted.
                reason: format!(
                    "the export cannot be read at byte {}: a newer version may have written it",
                    error.column()
                ),
            })?;
        self.next = page.next_page_token;
        Ok(Some(page.items))
    }
}

impl Client {
    /// Reads all callbacks, with their gates and secrets, and all API keys, without their texts, for
    /// [`Client::import_configuration`]. Schedules have [`Client::export_schedules`].
    #[must_use]
    pub fn export_configuration(&self) -> ConfigurationPages {
        ConfigurationPages {
            client: self.clone(),
            next: Some(String::new()),
        }
    }

    /// Sets callbacks and API keys as they were elsewhere, at most 1000; a bad one fails only itself. Returns a result for each,
    /// in order. From the first key on, every call needs a key.
    ///
    /// # Errors
    /// See [`Error`]. Some may have been set; sent again, they are as they are.
    pub async fn import_configuration(
        &self,
        items: Vec<ConfigurationItem>,
    ) -> Result<Vec<ImportConfigurationResult>, Error> {
        let body = Some(json(&ImportConfigurationRequest { items })?);
        let path = "/v1/configuration:import";
        let call = Call {
            limit: self.limit.max(IMPORT_LIMIT),
            ..self.plain(Method::POST, path, body, true)
        };
        let answer: ImportConfigurationResponse = self.transport.call(call).await?;
        Ok(answer.results)
    }
}
