//! Keys make a registration that comes twice one task: `keys` has the records of keys that clients name, `idempotent` those of
//! `Idempotency-Key`.

pub(in crate::flow) mod idempotent;
pub(in crate::flow) mod keys;
