//! The table of advice tells authors of requests what to do about each kind of problem.

use super::code::Code;

impl Code {
    /// Returns advice for the author of the request.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::MalformedJson | Self::InvalidRequest | Self::TooLarge => self.advice_on_bodies(),
            Self::Unsupported => "Leave out what the detail names: ignoring it would not be safe.",
            Self::InvalidTaskId => "Use the id that registration returned.",
            Self::UnusableKey => "Give keys to tasks of callbacks only; see docs/keys.md.",
            Self::KeyTaken => "Read the task `existing`; the key is free once it has ended.",
            Self::Forbidden
            | Self::TlsRequired
            | Self::KeyRequired
            | Self::KeyInvalid
            | Self::AccessDenied
            | Self::ReadOnly
            | Self::ApiKeyNotFound
            | Self::AdminKeyNeeded
            | Self::TooManyApiKeys => self.advice_on_access(),
            Self::Reserved => "Use names without `tickwheel.` at the beginning: docs/notify.md.",
            Self::NotFound => "See /openapi.json for the paths.",
            Self::TaskNotFound => "It never existed, or it ended and its retention has passed.",
            Self::UnusableAction
            | Self::UnusableThen
            | Self::UnusableAfter
            | Self::DependencyNotFound
            | Self::IdempotencyKeyReused
            | Self::UnusableParent => self.advice_on_resources(),
            Self::KeyNotFound
            | Self::CallbackNotFound
            | Self::GateNotOpen
            | Self::JobNotFound
            | Self::JobEnded
            | Self::UnusableFilter
            | Self::ScheduleNotFound
            | Self::ScheduleEnded
            | Self::ParentNotFound
            | Self::TreeEnded
            | Self::TreeCancelled
            | Self::TreeNotEnded
            | Self::NothingFailed
            | Self::NotSucceeded
            | Self::OtherAttempt
            | Self::NotInATree
            | Self::InATree
            | Self::UnusableId
            | Self::TooManyCallbacks => self.advice_on_resources(),
            Self::MethodNotAllowed => "See the Allow header.",
            Self::RequestTimeout => "Send the whole body at once, then try again.",
            Self::PreconditionFailed => "Read it again and decide anew; its ETag has changed.",
            Self::Internal => "Report it with the trace id.",
            Self::UnsupportedMediaType => "Send `application/json`, without content encoding.",
            Self::RoleMissing
            | Self::Unavailable
            | Self::ClusterUpgrading
            | Self::StoreFull
            | Self::OutcomeUnknown
            | Self::RegistrationUnknown
            | Self::TooManyRequests => self.advice_on_parts(),
        }
    }

    /// Returns advice on what was sent.
    const fn advice_on_bodies(self) -> &'static str {
        match self {
            Self::MalformedJson => {
                "Send one JSON value in UTF-8; the detail names line and column of the first mistake."
            }
            Self::TooLarge => {
                "Keep large data elsewhere and register a reference to it; the detail names the limit."
            }
            _ => {
                "Correct the fields that `errors` lists; each pointer is an RFC 6901 JSON pointer."
            }
        }
    }

    /// Returns advice on parts of the service that cannot do it now.
    const fn advice_on_parts(self) -> &'static str {
        match self {
            Self::OutcomeUnknown => "Repeat it: doing it twice is the same as once.",
            Self::RegistrationUnknown => "Repeating it may register the task twice.",
            Self::ClusterUpgrading => {
                "Repeat it once every node runs this version, or leave the field out."
            }
            Self::TooManyRequests => {
                "Try again after the time in the Retry-After header, or at another node; the detail names the limit."
            }
            Self::RoleMissing => "Ask a node that has the role that the detail names.",
            Self::Unavailable => {
                "Try again after Retry-After. Unless the detail says that the request had no effect, it may have been made. It \
                 is safe to send it again. A registration needs its `Idempotency-Key` or `id` for that (docs/keys.md), or a second \
                 task may be registered."
            }
            _ => {
                "Tell the operator; try again later. Tasks that were acknowledged before fire on time."
            }
        }
    }

    /// Returns advice on keys of the API.
    const fn advice_on_access(self) -> &'static str {
        match self {
            Self::Forbidden => {
                "Connect by the node's address or localhost, or name the host in its setting `allowed_hosts`."
            }
            Self::TlsRequired => "Begin the address of the service with https://.",
            Self::KeyRequired => {
                "Send `authorization: Bearer twk_...`; an administrator makes keys: docs/security.md."
            }
            Self::KeyInvalid => {
                "Send the key as it was shown once; one that was revoked or has expired needs another: docs/security.md."
            }
            Self::ReadOnly => "Make the call at a node that was started without --read-only.",
            Self::ApiKeyNotFound => "List the keys: it was revoked, or never made.",
            Self::AdminKeyNeeded => {
                "Make a key with the role `admin` first: otherwise nobody could make or revoke keys."
            }
            Self::TooManyApiKeys => "Revoke keys that are not needed.",
            _ => {
                "Use a key whose role and callbacks allow the call; the detail names them: docs/security.md."
            }
        }
    }

    /// Returns advice on keys, callbacks and jobs.
    const fn advice_on_resources(self) -> &'static str {
        match self {
            Self::KeyNotFound => {
                "The key was never used with this callback, or its last task ended days ago: read that by its id."
            }
            Self::CallbackNotFound => {
                "A callback needs no configuration: its tasks have the defaults of the service."
            }
            Self::GateNotOpen => "Open it first: without its record nothing would hold its tasks.",
            Self::JobNotFound => "It never existed, or it ended more than three days ago.",
            Self::JobEnded => {
                "Read it: its counts say what it has done. Register another job for the rest."
            }
            Self::UnusableAction => "Correct the field that `errors` lists: docs/actions.md.",
            Self::UnusableThen => "Do what the detail says; see docs/chains.md.",
            Self::IdempotencyKeyReused => {
                "Use a new key for each request, and repeat a request byte for byte."
            }
            Self::UnusableAfter => "Do what the detail says; see docs/joins.md.",
            Self::DependencyNotFound => {
                "Register that task first, or set `later` and a `deadline`: docs/joins.md."
            }
            Self::UnusableParent => "Do what the detail says; see docs/trees.md.",
            Self::ParentNotFound => "Register the parent first, with `children`.",
            Self::UnusableId => "Make the id as docs/keys.md says, or leave it out.",
            Self::TreeCancelled => "Register the tasks anew: nothing of a cancelled tree goes on.",
            Self::TreeNotEnded => "Wait until its `tree_state` is an end; see docs/trees.md.",
            Self::NothingFailed => "Read its tree: nothing in it failed, died or expired.",
            Self::NotSucceeded => {
                "Run what failed again with `retry-failed`, or wait until it has succeeded: docs/trees.md."
            }
            Self::OtherAttempt => "Read the task: others have gone on with it since that attempt.",
            Self::NotInATree => "Start a dead task again with `run`.",
            Self::InATree => {
                "Run the failed part of its tree again with `retry-failed`: docs/trees.md."
            }
            Self::TreeEnded => {
                "Register the task by itself, or under a parent that goes on; `children_within` holds a tree open."
            }
            Self::TooManyCallbacks => "Delete configurations that are not needed.",
            Self::ScheduleNotFound => "It was never set, or it was deleted.",
            Self::ScheduleEnded => "Set it again with later times or a higher limit.",
            _ => {
                "Change the fields that `errors` lists; docs/jobs.md says which fields go with which kind."
            }
        }
    }
}
