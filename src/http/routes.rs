//! The table of calls is the one list of the API: for each call its handler, the right that it needs, what it concerns and
//! what it changes.
//!
//! Method, path and the id of the operation stand at the handler (`#[utoipa::path]`). From both the router, the rules of
//! access and the description are made, so no call is in one of them alone.

use std::borrow::Cow;

use axum::{
    Router,
    http::Method,
    routing::{MethodRouter, get},
};
use utoipa::openapi::{OpenApi, Paths};
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouter},
    routes,
};

use super::{
    Api,
    access::rules::{
        Effect::{self, Audited, Changes, Reads},
        Rule, Rules,
        Scope::{self, Body, Callback, Filtered, Free, Job, Query, Schedule, Task, Whole},
    },
    handlers::{
        api_keys, backup, by_key, callbacks, configuration, dead_letters, docs, events, forecast,
        health, ids, jobs, list, messages, metrics, poll, schedule_preview, schedule_transfer,
        schedules, stats, tasks, test_clock, trees, why, worker,
    },
    ui,
};
use crate::model::access::Need::{
    self, Administer, Key, Look, Monitor, Nothing, Operate, Produce, Read, Work,
};

/// The calls of the API.
pub(super) struct Calls {
    /// Router and description.
    described: OpenApiRouter<Api>,
    /// Routes that the description leaves out.
    bare: Router<Api>,
    /// The rules of access.
    rules: Rules,
}

/// Makes functions that add calls: handler, right, scope, effect.
macro_rules! calls {
    ($($name:ident { $($handler:path, $need:ident, $scope:ident, $effect:ident;)* })*) => {
        $(fn $name(&mut self) {
            $(self.add(routes!($handler), $need, $scope, $effect);)*
        })*
    };
}

#[rustfmt::skip]
impl Calls {
    calls! {
        add_health {
            health::livez, Nothing, Free, Reads;
            health::readyz, Nothing, Free, Reads;
            health::startupz, Nothing, Free, Reads;
            metrics::metrics, Monitor, Whole, Reads;
            stats::read, Look, Whole, Reads;
            stats::cluster, Look, Whole, Reads;
            forecast::read, Look, Query, Reads;
            api_keys::whoami, Key, Free, Reads;
            ids::read, Key, Free, Reads;
        }

        add_tasks {
            list::list, Read, Query, Reads;
            tasks::create, Produce, Body, Changes;
            tasks::batch_create, Produce, Body, Changes;
            tasks::batch_cancel, Produce, Body, Changes;
            by_key::cancel, Produce, Body, Changes;
            by_key::reschedule, Produce, Body, Changes;
            by_key::run, Produce, Body, Changes;
            tasks::read, Read, Task, Reads;
            why::task, Read, Task, Reads;
            events::task, Read, Task, Reads;
            messages::list, Read, Task, Reads;
            trees::read, Read, Whole, Reads;
            tasks::cancel, Produce, Task, Changes;
            tasks::reschedule, Produce, Task, Changes;
            tasks::run, Produce, Task, Changes;
            trees::retry_failed, Produce, Whole, Changes;
            trees::reopen, Produce, Whole, Changes;
            trees::children_complete, Produce, Whole, Changes;
            tasks::redeliver, Produce, Task, Changes;
        }

        add_configuration {
            callbacks::list, Read, Filtered, Reads;
            callbacks::read, Read, Callback, Reads;
            events::callback, Read, Callback, Reads;
            callbacks::set, Operate, Callback, Audited;
            callbacks::remove, Operate, Callback, Audited;
            callbacks::set_gate, Operate, Callback, Audited;
        }

        add_operations {
            dead_letters::list, Look, Query, Reads;
            dead_letters::groups, Look, Query, Reads;
            dead_letters::redrive, Operate, Body, Audited;
            dead_letters::delete, Operate, Task, Audited;

            jobs::create, Operate, Body, Audited;
            jobs::list, Look, Whole, Reads;
            jobs::read, Look, Job, Reads;
            jobs::pause, Operate, Job, Audited;
            jobs::resume, Operate, Job, Audited;
            jobs::cancel, Operate, Job, Audited;

            schedules::list, Look, Whole, Reads;
            schedule_preview::preview_of, Look, Free, Reads;
            schedule_transfer::export, Look, Whole, Reads;
            schedule_transfer::import, Operate, Whole, Audited;
            schedules::read, Look, Schedule, Reads;
            schedules::set, Operate, Schedule, Audited;
            schedules::remove, Operate, Schedule, Audited;
            schedules::runs, Look, Schedule, Reads;
            why::schedule, Look, Schedule, Reads;
            schedule_preview::preview, Look, Schedule, Reads;
            schedules::pause, Operate, Schedule, Audited;
            schedules::resume, Operate, Schedule, Audited;
            schedules::trigger, Operate, Schedule, Audited;
            schedules::backfill, Operate, Whole, Audited;
        }

        add_worker_calls {
            poll::poll, Work, Body, Changes;
            poll::leave, Work, Filtered, Changes;
            worker::subscribe, Work, Body, Changes;
            worker::claim, Work, Body, Changes;
            worker::heartbeat, Work, Body, Changes;
            worker::settle, Work, Body, Changes;
            worker::reopen, Work, Body, Changes;
        }

        add_administration {
            api_keys::create, Administer, Whole, Audited;
            api_keys::list, Administer, Whole, Reads;
            api_keys::revoke, Administer, Whole, Audited;
            configuration::export, Administer, Whole, Audited;
            configuration::import, Administer, Whole, Audited;
            backup::create, Administer, Whole, Audited;
            api_keys::audit, Administer, Whole, Reads;
        }

        add_test_clock {
            test_clock::read, Administer, Whole, Reads;
            test_clock::advance, Administer, Whole, Changes;
            test_clock::set, Administer, Whole, Changes;
        }
    }
}

impl Calls {
    /// Returns all calls.
    pub(super) fn all() -> Self {
        let mut calls = Self {
            described: OpenApiRouter::with_openapi(docs::frame()),
            bare: Router::new(),
            rules: Rules::default(),
        };
        calls.add_health();
        calls.add_tasks();
        calls.add_configuration();
        calls.add_operations();
        calls.add_worker_calls();
        calls.add_administration();
        calls.add_test_clock();
        calls.add_bare(
            "/problems/{code}",
            "problem",
            Nothing,
            Free,
            get(docs::problem),
        );
        calls.add_docs();
        calls.add_pages();
        calls
    }

    fn add(&mut self, call: UtoipaMethodRouter<Api>, need: Need, scope: Scope, effect: Effect) {
        for (method, path, action) in operations(&call.1) {
            let rule = Rule {
                action: Cow::Owned(action.to_owned()),
                need,
                scope,
                effect,
            };
            self.rules.add(method, path, rule);
        }
        let described = std::mem::take(&mut self.described);
        self.described = described.routes(call);
    }

    fn add_bare(
        &mut self,
        path: &str,
        action: &'static str,
        need: Need,
        scope: Scope,
        route: MethodRouter<Api>,
    ) {
        let bare = std::mem::take(&mut self.bare);
        self.bare = bare.route(path, route);
        self.allow(path, action, need, scope);
    }

    /// Adds the description and the page to try it. The page brings its own routes.
    fn add_docs(&mut self) {
        let text = docs::text(self.described.get_openapi().clone());
        let bare = std::mem::take(&mut self.bare);
        self.bare = bare.merge(docs::pages(text));
        self.allow("/openapi.json", "openapi", Nothing, Free);
        for path in ["/docs", "/docs/", "/docs/{*rest}"] {
            self.allow(path, "docs", Nothing, Free);
        }
    }

    /// Lets everybody open the pages: they make calls of their own, which are checked.
    fn add_pages(&mut self) {
        for (method, path) in ui::paths() {
            let rule = Rule {
                action: Cow::Borrowed("page"),
                need: Nothing,
                scope: Free,
                effect: Reads,
            };
            self.rules.add(method, path, rule);
        }
    }

    fn allow(&mut self, path: &str, action: &'static str, need: Need, scope: Scope) {
        let rule = Rule {
            action: Cow::Borrowed(action),
            need,
            scope,
            effect: Reads,
        };
        self.rules.add(Method::GET, path, rule);
    }

    /// Returns the routes, and the rules of who may call them.
    pub(super) fn into_parts(self) -> (Router<Api>, Rules) {
        let (routes, _) = self.described.split_for_parts();
        (routes.merge(self.bare), self.rules)
    }

    /// Returns the description of the API.
    fn description(self) -> OpenApi {
        self.described.into_openapi()
    }
}

/// Returns the OpenAPI 3.1 description of the service, as pretty JSON with a line end.
#[must_use]
pub fn document() -> String {
    docs::text(Calls::all().description())
}

/// Returns method, path and id of the operations of a description.
fn operations(paths: &Paths) -> impl Iterator<Item = (Method, &str, &str)> {
    paths.paths.iter().flat_map(|(path, item)| {
        let operations = [
            (Method::GET, &item.get),
            (Method::PUT, &item.put),
            (Method::POST, &item.post),
            (Method::DELETE, &item.delete),
        ];
        operations
            .into_iter()
            .filter_map(move |(method, operation)| {
                let action = operation.as_ref()?.operation_id.as_deref()?;
                Some((method, path.as_str(), action))
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_a_rule_and_those_that_change_something_are_no_reads() {
        let (paths, rules) = {
            let calls = Calls::all();
            (calls.described.get_openapi().paths.clone(), calls.rules)
        };
        let text = serde_json::to_value(&paths).unwrap();
        let described: usize = text
            .as_object()
            .unwrap()
            .values()
            .map(|item| item.as_object().unwrap().len())
            .sum();
        assert_eq!(
            operations(&paths).count(),
            described,
            "a method is not known here"
        );
        for (method, path, action) in operations(&paths) {
            let rule = rules.of(&method, path);
            assert_eq!(rule.action, action, "{method} {path}");
            let is_read = method == Method::GET || action == "checkSchedule";
            assert_eq!(rule.effect == Reads, is_read, "{rule:?}");
            let weak = matches!(rule.need, Nothing | Key | Read | Look | Monitor);
            assert!(is_read || !weak, "{rule:?}");
        }
    }
}
