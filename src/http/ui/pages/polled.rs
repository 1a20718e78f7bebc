//! The callbacks that were probably meant where tasks wait for a worker that does not come.

use std::collections::BTreeMap;

use super::callbacks;
use crate::{
    api::callback::{CallbackResponse, ListCallbacksResponse},
    http::ui::{gate::Failure, parts::frame::part, visit::Visit},
    limits::PAGE_KEY_CALLBACKS_MAX,
};

/// Returns for each name the nearest one of a callback that has workers, where there is one.
pub(super) async fn near(
    visit: &Visit,
    names: &[String],
) -> Result<BTreeMap<String, String>, Failure> {
    let mut found = BTreeMap::new();
    if names.is_empty() {
        return Ok(found);
    }
    let path = format!("/v1/callbacks?page_size={PAGE_KEY_CALLBACKS_MAX}");
    let listed: ListCallbacksResponse = visit.get(&path).await?;
    let listed = listed.callbacks.into_iter().map(|callback| callback.name);
    let mut known: Vec<String> = listed.chain(callbacks::others(visit).await?).collect();
    known.sort();
    known.dedup();
    for name in names {
        for other in nearest(name, &known) {
            let path = format!("/v1/callbacks/{}", part(other));
            let Ok(callback) = visit.get::<CallbackResponse>(&path).await else {
                continue;
            };
            if callback
                .activity
                .is_some_and(|activity| !activity.workers.is_empty())
            {
                found.insert(name.clone(), other.to_owned());
                break;
            }
        }
    }
    Ok(found)
}

/// Returns the names that are nearly the same, the nearest first: a few at most.
fn nearest<'a>(name: &str, others: &'a [String]) -> Vec<&'a str> {
    const LOOKED_AT: usize = 3;
    let allowed = (name.chars().count() / 3).max(1);
    let others = others.iter().filter(|other| *other != name);
    let near = others.map(|other| (strsim::damerau_levenshtein(name, other), other.as_str()));
    let mut near: Vec<(usize, &str)> = near.filter(|(distance, _)| *distance <= allowed).collect();
    near.sort_unstable();
    near.into_iter()
        .map(|(_, other)| other)
        .take(LOOKED_AT)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_has_a_name_near_to_it() {
        let known = ["bill", "send_email", "send_mail"].map(str::to_owned);
        assert_eq!(nearest("sendemail", &known), ["send_email", "send_mail"]);
        assert!(nearest("bill", &known).is_empty());
        assert!(nearest("report", &known).is_empty());
    }
}
