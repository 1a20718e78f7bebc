//! The recovery reads tell a process that starts about the tasks under way in the one before it.

use async_trait::async_trait;

use super::{firsts, range_read};
use crate::{
    model::{
        entry::Key,
        time::Millis,
        wheel::{Shape, WheelNumber},
    },
    store::{Error, Firsts, Page, Underway, embedded::Store},
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
        self.read(move |open| range_read::looks(open, wheel, behind, rows_max))
            .await
    }

    async fn firsts(
        &self,
        from: Millis,
        behind: Option<Key>,
        before: i64,
        rows_max: usize,
    ) -> Result<Firsts, Error> {
        self.read(move |open| firsts::read(open, from, behind, before, rows_max))
            .await
    }
}
