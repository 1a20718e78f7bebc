//! This conversion makes a problem for clients of a fault of the flow.

use std::time::Duration;

use super::error::{Code, Error};
use crate::{
    api::problem::FieldError,
    flow::base::api::Fault,
    model::{family::Refusal, join},
};

/// An upgrade takes minutes.
const UPGRADING_RETRY_AFTER: Duration = Duration::from_secs(10);

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let detail = fault.to_string();
        match fault {
            Fault::Unavailable { retry_after, .. } => Self {
                retry_after: Some(retry_after),
                ..Self::new(Code::Unavailable, detail)
            },
            Fault::Full { retry_after, .. } => Self {
                retry_after: Some(retry_after),
                ..Self::new(Code::StoreFull, detail)
            },
            Fault::Upgrading { field } => Self {
                retry_after: Some(UPGRADING_RETRY_AFTER),
                ..Self::field(Code::ClusterUpgrading, format!("/{field}"), detail)
            },
            Fault::Family(refusal) => {
                let code = match refusal {
                    Refusal::NoParent(_) => Code::ParentNotFound,
                    Refusal::NeverEnds(_) | Refusal::TooLarge(_) => Code::UnusableParent,
                    Refusal::Ended(_) | Refusal::Replaced(_) => Code::TreeEnded,
                    Refusal::Cancelled(_) => Code::TreeCancelled,
                };
                Self::field(code, "/parent", detail)
            }
            Fault::Join(refusal) => {
                let code = match refusal {
                    join::Refusal::NotFound(..) => Code::DependencyNotFound,
                    _ => Code::UnusableAfter,
                };
                let pointer = format!("/after/ids/{}", refusal.place());
                Self::field(code, pointer, detail)
            }
            Fault::Below { at, fault } => {
                let error = Self::from(*fault);
                let below = |field: FieldError| FieldError {
                    pointer: format!("{at}{}", field.pointer),
                    ..field
                };
                Self {
                    errors: error.errors.into_iter().map(below).collect(),
                    ..error
                }
            }
            Fault::Chain(_) => Self::field(Code::UnusableThen, "/then", detail),
            Fault::Unknown { .. } => Self::new(Code::OutcomeUnknown, detail),
        }
    }
}

impl Error {
    /// Builds the error of a registration that failed: it is the one call that is not safe to repeat blindly.
    #[must_use]
    pub(super) fn of_registration(fault: Fault) -> Self {
        let error = Self::from(fault);
        match error.code {
            Code::OutcomeUnknown => Self {
                code: Code::RegistrationUnknown,
                ..error
            },
            _ => error,
        }
    }
}
