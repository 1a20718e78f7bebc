//! The backup copies a store that is in use to a stream of bytes, and a stream to a new data directory.
//!
//! # Promises
//! - **One instant**: a copy holds the rows of one moment, whatever is written meanwhile. Everything that was acknowledged before
//!   it was begun is in it.
//! - **Whole or nothing**: a copy that is cut off or changed is noticed when it is read. A directory that was not restored to its
//!   end holds nothing, and the next attempt begins anew.
//! - **Bounded**: a copy is made piece by piece, and holds one piece in memory, and the buffers of the moment of the copy.
//! - **Increments** say what differs from an earlier copy. They are read together with it, as the whole copy that they stand for.
//!
//! - [`mod@format`] is the form of the bytes; `create` makes them, [`source`] reads them, [`restore`] uses them.
//! - [`increment`] compares a copy with an earlier one.
//!
//! # What a restored store does
//! Tasks that fell due since the copy was made fire at once, and those that ran since run again: the copy does not know of it.
//! Attempts that were running count as alive for their heartbeat timeout, as after a crash.

pub(super) mod create;
pub mod format;
pub mod increment;
pub mod restore;
mod row;
pub mod source;

pub use self::create::Pieces;
