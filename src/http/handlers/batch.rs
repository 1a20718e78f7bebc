//! The batch helper serves calls that take a list: every item gets its answer at its own place.
//!
//! The good items go to the service together.

use serde_json::value::RawValue;

use crate::http::error::{Code, Error};

/// The items of a batch after they were read: the good ones, and the places and errors of the bad ones.
#[derive(Debug)]
pub(in crate::http) struct Batch<T> {
    good: Vec<T>,
    places: Vec<Option<Error>>,
}

impl<T> Batch<T> {
    /// Reads every item.
    pub(in crate::http) fn read(
        items: &[&RawValue],
        mut read: impl FnMut(&RawValue) -> Result<T, Error>,
    ) -> Self {
        let mut good = Vec::with_capacity(items.len());
        let mut places = Vec::with_capacity(items.len());
        for item in items {
            places.push(match read(item) {
                Ok(item) => {
                    good.push(item);
                    None
                }
                Err(error) => Some(error),
            });
        }
        Self { good, places }
    }

    /// Returns the items, if all are good.
    ///
    /// # Errors
    /// The error of the first bad one.
    pub(in crate::http) fn all(self) -> Result<Vec<T>, Error> {
        match self.places.into_iter().flatten().next() {
            Some(error) => Err(error),
            None => Ok(self.good),
        }
    }

    /// Returns the good items.
    pub(in crate::http) fn good(&self) -> impl Iterator<Item = &T> {
        self.good.iter()
    }

    /// Hands the good items to `call`, unless there are none, and puts its answers and the errors in order.
    pub(in crate::http) async fn answer<A, R: From<A> + From<Error>>(
        self,
        call: impl AsyncFnOnce(Vec<T>) -> Vec<A>,
    ) -> Vec<R> {
        let mut answers = if self.good.is_empty() {
            Vec::new().into_iter()
        } else {
            call(self.good).await.into_iter()
        };
        self.places
            .into_iter()
            .map(|place| match place {
                Some(error) => error.into(),
                None => answers.next().map_or_else(
                    || Error::new(Code::Internal, "the service gave too few answers").into(),
                    Into::into,
                ),
            })
            .collect()
    }
}
