//! The table of codes names for clients every kind of problem, with its status, its words and advice.

use axum::http::StatusCode;

/// The kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The body is not JSON, or not UTF-8.
    MalformedJson,
    /// Fields are wrong.
    InvalidRequest,
    /// The request asks for something that this version cannot do and must not ignore.
    Unsupported,
    /// The text is not an id.
    InvalidTaskId,
    /// The id that a client made cannot name its task.
    UnusableId,
    /// The key cannot name this task.
    UnusableKey,
    /// An action or a check cannot be done.
    UnusableAction,
    /// A task cannot follow this one.
    UnusableThen,
    /// The task cannot wait for others as it asks.
    UnusableAfter,
    /// A task that it is to wait for is not known.
    DependencyNotFound,
    /// The parent cannot have this child.
    UnusableParent,
    /// The parent is not known.
    ParentNotFound,
    /// The tree of the parent has ended.
    TreeEnded,
    /// The tree was cancelled.
    TreeCancelled,
    /// The tree of the task goes on.
    TreeNotEnded,
    /// Nothing of the tree failed.
    NothingFailed,
    /// The task has not succeeded.
    NotSucceeded,
    /// The attempt is not the last one of the task.
    OtherAttempt,
    /// The task is in no tree.
    NotInATree,
    /// The end of the task counts in its tree.
    InATree,
    /// The key names a live task.
    KeyTaken,
    /// No task has the key.
    KeyNotFound,
    /// The idempotency key belongs to another request.
    IdempotencyKeyReused,
    /// The request may come from a web page of another site.
    Forbidden,
    /// The port speaks TLS, and the client does not.
    TlsRequired,
    /// The service asks for a key, and the request has none.
    KeyRequired,
    /// The key is not known, or not any more.
    KeyInvalid,
    /// The role or the callbacks of the key do not allow it.
    AccessDenied,
    /// The node answers reads alone.
    ReadOnly,
    /// No such key of the API.
    ApiKeyNotFound,
    /// Without a key of an administrator nobody could manage the others.
    AdminKeyNeeded,
    /// There are as many keys as may be.
    TooManyApiKeys,
    /// The callback, or the task, is the service's own.
    Reserved,
    /// No such path.
    NotFound,
    /// No such task.
    TaskNotFound,
    /// No such callback was configured.
    CallbackNotFound,
    /// A gate of the callback is not open.
    GateNotOpen,
    /// No such job.
    JobNotFound,
    /// The job has ended.
    JobEnded,
    /// The filter of a job cannot be used for it.
    UnusableFilter,
    /// No such schedule.
    ScheduleNotFound,
    /// The schedule has ended.
    ScheduleEnded,
    /// Wrong method.
    MethodNotAllowed,
    /// The body did not arrive in time.
    RequestTimeout,
    /// `If-Match` does not hold.
    PreconditionFailed,
    /// Body or content are over a limit.
    TooLarge,
    /// The body is announced as something other than JSON.
    UnsupportedMediaType,
    /// The service holds as many configured callbacks as it may.
    TooManyCallbacks,
    /// A bug of the service.
    Internal,
    /// A limit of the node is reached.
    TooManyRequests,
    /// This node does not have the role for the request; another one has.
    RoleMissing,
    /// A part of the service is away.
    Unavailable,
    /// Not all nodes know a feature of the task yet.
    ClusterUpgrading,
    /// The store has no room for new tasks.
    StoreFull,
    /// It is not known whether the request took effect; it may be repeated.
    OutcomeUnknown,
    /// It is not known whether the task was registered; repeating may register it twice.
    RegistrationUnknown,
}

impl Code {
    /// All of them.
    pub const ALL: [Self; 56] = [
        Self::MalformedJson,
        Self::InvalidRequest,
        Self::Unsupported,
        Self::InvalidTaskId,
        Self::UnusableId,
        Self::UnusableKey,
        Self::UnusableAction,
        Self::UnusableThen,
        Self::UnusableAfter,
        Self::DependencyNotFound,
        Self::UnusableParent,
        Self::ParentNotFound,
        Self::TreeEnded,
        Self::TreeCancelled,
        Self::TreeNotEnded,
        Self::NothingFailed,
        Self::NotSucceeded,
        Self::OtherAttempt,
        Self::NotInATree,
        Self::InATree,
        Self::KeyTaken,
        Self::KeyNotFound,
        Self::IdempotencyKeyReused,
        Self::Forbidden,
        Self::TlsRequired,
        Self::KeyRequired,
        Self::KeyInvalid,
        Self::AccessDenied,
        Self::ReadOnly,
        Self::ApiKeyNotFound,
        Self::AdminKeyNeeded,
        Self::TooManyApiKeys,
        Self::Reserved,
        Self::NotFound,
        Self::TaskNotFound,
        Self::CallbackNotFound,
        Self::GateNotOpen,
        Self::JobNotFound,
        Self::JobEnded,
        Self::UnusableFilter,
        Self::ScheduleNotFound,
        Self::ScheduleEnded,
        Self::TooManyCallbacks,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::PreconditionFailed,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::Internal,
        Self::TooManyRequests,
        Self::RoleMissing,
        Self::Unavailable,
        Self::ClusterUpgrading,
        Self::StoreFull,
        Self::OutcomeUnknown,
        Self::RegistrationUnknown,
    ];

    /// Returns the name used in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MalformedJson => "malformed_json",
            Self::InvalidRequest => "invalid_request",
            Self::Unsupported => "unsupported",
            Self::InvalidTaskId => "invalid_task_id",
            Self::UnusableId => "unusable_id",
            Self::UnusableKey => "unusable_key",
            Self::UnusableAction => "unusable_action",
            Self::UnusableThen => "unusable_then",
            Self::UnusableAfter => "unusable_after",
            Self::DependencyNotFound => "dependency_not_found",
            Self::UnusableParent => "unusable_parent",
            Self::ParentNotFound => "parent_not_found",
            Self::TreeEnded => "tree_ended",
            Self::TreeCancelled => "tree_cancelled",
            Self::TreeNotEnded => "tree_not_ended",
            Self::NothingFailed => "nothing_failed",
            Self::NotSucceeded => "not_succeeded",
            Self::OtherAttempt => "other_attempt",
            Self::NotInATree => "not_in_a_tree",
            Self::InATree => "in_a_tree",
            Self::KeyTaken => "key_taken",
            Self::KeyNotFound => "key_not_found",
            Self::IdempotencyKeyReused => "idempotency_key_reused",
            Self::Forbidden => "forbidden",
            Self::TlsRequired => "tls_required",
            Self::KeyRequired => "key_required",
            Self::KeyInvalid => "key_invalid",
            Self::AccessDenied => "access_denied",
            Self::ReadOnly => "read_only",
            Self::ApiKeyNotFound => "api_key_not_found",
            Self::AdminKeyNeeded => "admin_key_needed",
            Self::TooManyApiKeys => "too_many_api_keys",
            Self::Reserved => "reserved",
            Self::NotFound => "not_found",
            Self::TaskNotFound => "task_not_found",
            Self::CallbackNotFound => "callback_not_found",
            Self::GateNotOpen => "gate_not_open",
            Self::JobNotFound => "job_not_found",
            Self::JobEnded => "job_ended",
            Self::UnusableFilter => "unusable_filter",
            Self::ScheduleNotFound => "schedule_not_found",
            Self::ScheduleEnded => "schedule_ended",
            Self::TooManyCallbacks => "too_many_callbacks",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::RequestTimeout => "request_timeout",
            Self::PreconditionFailed => "precondition_failed",
            Self::TooLarge => "too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::Internal => "internal",
            Self::TooManyRequests => "too_many_requests",
            Self::RoleMissing => "role_missing",
            Self::Unavailable => "unavailable",
            Self::ClusterUpgrading => "cluster_upgrading",
            Self::StoreFull => "store_full",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::RegistrationUnknown => "registration_unknown",
        }
    }

    /// Returns the status code.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::MalformedJson | Self::InvalidRequest => StatusCode::BAD_REQUEST,
            Self::Unsupported | Self::InvalidTaskId | Self::TlsRequired => StatusCode::BAD_REQUEST,
            Self::UnusableFilter | Self::UnusableParent => StatusCode::UNPROCESSABLE_ENTITY,
            Self::UnusableId | Self::UnusableKey | Self::IdempotencyKeyReused => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::UnusableAction | Self::UnusableThen | Self::UnusableAfter | Self::NotInATree => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::ParentNotFound | Self::DependencyNotFound => StatusCode::NOT_FOUND,
            Self::KeyTaken | Self::TooManyCallbacks | Self::TreeEnded => StatusCode::CONFLICT,
            Self::TreeCancelled | Self::TreeNotEnded => StatusCode::CONFLICT,
            Self::NothingFailed | Self::InATree => StatusCode::CONFLICT,
            Self::NotSucceeded | Self::OtherAttempt => StatusCode::CONFLICT,
            Self::KeyNotFound | Self::TaskNotFound | Self::JobNotFound => StatusCode::NOT_FOUND,
            Self::KeyRequired | Self::KeyInvalid => StatusCode::UNAUTHORIZED,
            Self::AccessDenied | Self::ReadOnly => StatusCode::FORBIDDEN,
            Self::ApiKeyNotFound => StatusCode::NOT_FOUND,
            Self::AdminKeyNeeded | Self::TooManyApiKeys => StatusCode::CONFLICT,
            Self::Forbidden | Self::Reserved => StatusCode::FORBIDDEN,
            Self::NotFound | Self::CallbackNotFound | Self::ScheduleNotFound => {
                StatusCode::NOT_FOUND
            }
            Self::GateNotOpen | Self::JobEnded | Self::ScheduleEnded => StatusCode::CONFLICT,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            // So that clients and load balancers try the next node.
            Self::RoleMissing | Self::Unavailable | Self::ClusterUpgrading => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::StoreFull => StatusCode::INSUFFICIENT_STORAGE,
            Self::OutcomeUnknown | Self::RegistrationUnknown => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// Returns the kind of problem in words.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::MalformedJson => "The body is not JSON",
            Self::InvalidRequest => "The request is not valid",
            Self::Unsupported => "Not offered by this service",
            Self::InvalidTaskId => "Not a task id",
            Self::UnusableId => "The id cannot name this task",
            Self::UnusableKey => "The key cannot name this task",
            Self::UnusableAction => "The action cannot be done",
            Self::UnusableThen => "The task cannot follow",
            Self::UnusableAfter => "The task cannot wait so",
            Self::DependencyNotFound => "No such task to wait for",
            Self::UnusableParent => "The parent cannot have this child",
            Self::ParentNotFound => "No such parent",
            Self::TreeEnded => "The tree of the parent has ended",
            Self::TreeCancelled => "The tree was cancelled",
            Self::TreeNotEnded => "The tree of the task goes on",
            Self::NothingFailed => "Nothing of the tree failed",
            Self::NotSucceeded => "The task has not succeeded",
            Self::OtherAttempt => "It is not the last attempt of the task",
            Self::NotInATree => "The task is in no tree",
            Self::InATree => "The end of the task counts in its tree",
            Self::KeyTaken => "The key names a live task",
            Self::KeyNotFound => "No task has this key",
            Self::IdempotencyKeyReused => "The idempotency key belongs to another request",
            Self::TlsRequired => "The port speaks TLS alone",
            Self::KeyRequired => "An API key is needed",
            Self::KeyInvalid => "The API key is not valid",
            Self::AccessDenied => "The API key does not allow it",
            Self::ReadOnly => "This node answers reads alone",
            Self::ApiKeyNotFound => "No such API key",
            Self::AdminKeyNeeded => "A key of an administrator is needed first",
            Self::TooManyApiKeys => "Too many API keys",
            Self::Reserved => "It is the service's own",
            Self::Forbidden => "The host, or the site of the web page, is not listed",
            Self::NotFound => "No such path",
            Self::TaskNotFound => "No such task",
            Self::CallbackNotFound => "No such callback was configured",
            Self::GateNotOpen => "A gate of the callback is not open",
            Self::JobNotFound => "No such job",
            Self::JobEnded => "The job has ended",
            Self::UnusableFilter => "The filter cannot be used for this job",
            Self::ScheduleNotFound => "No such schedule",
            Self::ScheduleEnded => "The schedule has ended",
            Self::TooManyCallbacks => "Too many callbacks are configured",
            Self::MethodNotAllowed => "Wrong method",
            Self::RequestTimeout => "The request took too long to arrive",
            Self::PreconditionFailed => "It has changed",
            Self::TooLarge => "Too large",
            Self::UnsupportedMediaType => "The body is not announced as JSON",
            Self::Internal => "A bug in the service",
            Self::TooManyRequests => "Too many requests",
            Self::RoleMissing => "This node does not do that",
            Self::Unavailable => "A part of the service is away",
            Self::ClusterUpgrading => "The cluster is being upgraded",
            Self::StoreFull => "The store has no room for new tasks",
            Self::OutcomeUnknown => "It is not known whether the request took effect",
            Self::RegistrationUnknown => "It is not known whether the task was registered",
        }
    }

    /// Tells whether the same request may succeed later.
    #[must_use]
    pub(super) const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::RequestTimeout
                | Self::TooManyRequests
                | Self::RoleMissing
                | Self::Unavailable
                | Self::ClusterUpgrading
                | Self::StoreFull
                | Self::OutcomeUnknown
        )
    }
}
