//! The masking takes credentials out of answers, for readers who may not have them: values of headers and of parameters of URLs.
//!
//! Here is each place of an answer that can hold one. The basic view of a task is masked for every reader, and so are notices and
//! checks, which are sent to others. Which readers see the rest is a matter of their keys
//! ([`crate::model::access::ApiKey::sees_credentials`]). The mask is refused where it comes back ([`crate::model::credential`]).

use std::collections::BTreeMap;

use crate::{
    api::{
        action::Deed,
        callback::CallbackResponse,
        notify::Notify,
        schedule_response::ScheduleResponse,
        target::{HttpTarget, TargetResponse},
        task_request::TaskRequest,
        task_response::TaskResponse,
    },
    model::credential::{self, MASK},
};

/// Masks a task: its target, those who are told of it, and the tasks that follow it.
pub(in crate::http) fn task(task: &mut TaskResponse) {
    if let TargetResponse::Http { url, headers, .. } = &mut task.target {
        mask_url(url);
        mask_headers(headers);
    }
    task.notify.iter_mut().for_each(notify);
    let actions = task.actions.iter_mut();
    let actions = actions.filter_map(|action| action.http.as_mut());
    actions.for_each(http);
    for check in &mut task.checks {
        deeds(check.then.iter_mut().chain(&mut check.otherwise));
    }
    for follow in &mut task.then {
        request(&mut follow.task);
    }
}

/// Masks what is set for a callback. Its secrets are never shown whole.
pub(in crate::http) fn callback(response: &mut CallbackResponse) {
    let configuration = &mut response.configuration;
    configuration.notify.iter_mut().for_each(notify);
    if let Some(defaults) = &mut configuration.http {
        defaults.url.iter_mut().for_each(mask_url);
        defaults.headers.iter_mut().for_each(mask_headers);
    }
}

/// Masks the task of a schedule.
pub(in crate::http) fn schedule(response: &mut ScheduleResponse) {
    response.schedule.task.iter_mut().for_each(request);
}

/// Masks a task as it was asked for, at every level. A request is only so many levels deep.
fn request(task: &mut TaskRequest) {
    task.http.iter_mut().for_each(http);
    task.notify.iter_mut().for_each(notify);
    let actions = task.actions.iter_mut().flatten();
    actions
        .filter_map(|action| action.http.as_mut())
        .for_each(http);
    for check in task.checks.iter_mut().flatten() {
        deeds(check.then.iter_mut().chain(&mut check.otherwise));
    }
    task.children.iter_mut().flatten().for_each(request);
    for follow in task.then.iter_mut().flatten() {
        request(&mut follow.task);
    }
}

fn notify(notify: &mut Notify) {
    notify.http.iter_mut().for_each(http);
}

fn deeds<'a>(deeds: impl Iterator<Item = &'a mut Deed>) {
    deeds.filter_map(|deed| deed.http.as_mut()).for_each(http);
}

fn http(target: &mut HttpTarget) {
    mask_url(&mut target.url);
    target.headers.iter_mut().for_each(mask_headers);
}

fn mask_url(url: &mut String) {
    if let Some(masked) = credential::masked_url(url) {
        *url = masked;
    }
}

fn mask_headers(headers: &mut BTreeMap<String, String>) {
    for (name, value) in headers {
        if credential::is_name(name) {
            MASK.clone_into(value);
        }
    }
}
