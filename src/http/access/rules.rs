//! The rules say for each call of the API which right it needs, what it concerns, and whether it changes anything.
//!
//! The table of calls makes them ([`crate::http::routes`]). A call without a rule is for administrators.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use axum::http::Method;

use crate::model::access::Need;

/// How the callbacks that a call concerns are found, for keys that are limited to some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Scope {
    /// It concerns no callback.
    Free,
    /// The path names a task.
    Task,
    /// The path names a job: of the tasks of one callback, or of several.
    Job,
    /// The path names a schedule. One that is not there is left to the handler.
    Schedule,
    /// The path names a callback.
    Callback,
    /// The query names a callback, and must.
    Query,
    /// The body says it: the handler checks.
    Body,
    /// The handler leaves out what the key does not cover.
    Filtered,
    /// It concerns all callbacks: a limited key may not make it.
    Whole,
}

/// The effect of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Effect {
    /// It changes nothing.
    Reads,
    /// It changes tasks that it names.
    Changes,
    /// It changes the configuration or many tasks, so it is audited.
    Audited,
}

/// The rule of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) struct Rule {
    /// The id of the operation in the description.
    pub(in crate::http) action: Cow<'static, str>,
    pub(in crate::http) need: Need,
    pub(in crate::http) scope: Scope,
    pub(in crate::http) effect: Effect,
}

impl Rule {
    /// Tells whether the rate of a key never refuses it: an attempt must not be lost because its worker is busy.
    pub(super) fn is_beyond_rates(&self) -> bool {
        matches!(&*self.action, "heartbeat" | "settle")
    }
}

/// The rule of a call without a rule.
static STRICTEST: Rule = Rule {
    action: Cow::Borrowed("unknown"),
    need: Need::Administer,
    scope: Scope::Whole,
    effect: Effect::Audited,
};

/// The rules of all calls, by the path of their route and by their method.
#[derive(Debug, Default)]
pub(in crate::http) struct Rules(HashMap<Arc<str>, Vec<(Method, Rule)>>);

impl Rules {
    pub(in crate::http) fn add(&mut self, method: Method, path: &str, rule: Rule) {
        self.0.entry(path.into()).or_default().push((method, rule));
    }

    /// Returns the rule of a call that the router has a route for.
    pub(in crate::http) fn of(&self, method: &Method, path: &str) -> &Rule {
        let method = if method == Method::HEAD {
            &Method::GET
        } else {
            method
        };
        let of_path = self.0.get(path).into_iter().flatten();
        let mut fitting = of_path.filter(|(of, _)| of == method);
        fitting.next().map_or(&STRICTEST, |(_, rule)| rule)
    }

    /// Returns the path of a route, for labels: a clone of it is cheap.
    pub(in crate::http) fn path(&self, path: &str) -> Arc<str> {
        let known = self.0.get_key_value(path);
        known.map_or_else(|| path.into(), |(path, _)| Arc::clone(path))
    }

    /// Returns the paths of all routes.
    pub(in crate::http) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|path| &**path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_a_rule_is_for_administrators() {
        let mut rules = Rules::default();
        let rule = Rule {
            action: "listTasks".into(),
            need: Need::Read,
            scope: Scope::Query,
            effect: Effect::Reads,
        };
        rules.add(Method::GET, "/v1/tasks", rule.clone());
        assert_eq!(rules.of(&Method::GET, "/v1/else"), &STRICTEST);
        assert_eq!(rules.of(&Method::PUT, "/v1/tasks"), &STRICTEST);
        assert_eq!(rules.of(&Method::HEAD, "/v1/tasks"), &rule);
    }
}
