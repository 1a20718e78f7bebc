//! Records of the configuration: [`callbacks`] has what is set for a callback, by a `snapshot`, [`api_keys`] the keys of
//! clients, which [`key_changes`] changes, [`audit`] who has changed something, and [`refusals`] whose calls were refused.

pub mod api_keys;
pub mod audit;
pub mod callbacks;
pub mod key_changes;
pub mod refusals;
pub(in crate::flow) mod snapshot;
