//! The configuration calls let programs of administrators carry callbacks, gates and API keys from one service to another.

use reqwest::Method;

use super::{Client, Error, json};
use crate::api::configuration::{
    ConfigurationItem, ExportConfigurationRequest, ExportConfigurationResponse,
    ImportConfigurationRequest, ImportConfigurationResponse, ImportConfigurationResult,
};

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
        let page = self.client.call(Method::POST, EXPORT, body, true);
        let page: ExportConfigurationResponse = page.await?;
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
        let answer = self.call(Method::POST, path, body, true);
        let answer: ImportConfigurationResponse = answer.await?;
        Ok(answer.results)
    }
}
