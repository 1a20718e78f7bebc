//! What a process that starts is told about the one before it.

use async_trait::async_trait;

use super::{Store, read};
use crate::{
    model::{
        entry::Key,
        wheel::{Shape, WheelNumber},
    },
    store::{Error, Page, Underway},
};

impl Store {
    /// Returns the shape of the wheels.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shared.shape
    }
}

#[async_trait]
impl Underway for Store {
    async fn looks(
        &self,
        wheel: WheelNumber,
        behind: Option<Key>,
        rows_max: usize,
    ) -> Result<Page, Error> {
        self.read(move |open| read::looks(open, wheel, behind, rows_max))
            .await
    }
}
