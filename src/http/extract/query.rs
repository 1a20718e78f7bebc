//! The query extractor gives the handlers the parameters of a request, and names those that are wrong.

use axum::{
    extract::{FromRequestParts, Query},
    http::{Uri, request::Parts},
};

use crate::{
    api::{text::shorten, worker::View},
    http::{
        Api,
        convert::{Violations, unknown},
        error::{Code, Error},
    },
};

/// The mistake in a token of a page.
pub(in crate::http) const FOREIGN_TOKEN: &str =
    "is not a token of this service: send `next_page_token` as it was";

/// The query of a request.
#[derive(Debug)]
pub(in crate::http) struct Params<Q>(pub(in crate::http) Q);

impl<Q: FromQuery> FromRequestParts<Api> for Params<Q> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Error> {
        Q::read(&parts.uri, api).map(Self)
    }
}

/// The parameters that a call takes.
pub(in crate::http) trait FromQuery: Sized {
    /// Reads them.
    ///
    /// # Errors
    /// All mistakes of the query.
    fn read(uri: &Uri, api: &Api) -> Result<Self, Error>;
}

/// Refuses a query where a call takes none: its author expects something of it.
#[derive(Debug)]
pub(in crate::http) struct NoQuery;

impl FromRequestParts<Api> for NoQuery {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Error> {
        match parts.uri.query().filter(|query| !query.is_empty()) {
            None => Ok(Self),
            Some(query) => Err(Error::new(
                Code::InvalidRequest,
                format!("the call takes no parameters; found `{}`", shorten(query)),
            )),
        }
    }
}

/// Hands the parameters of a query to `take`, one by one; of a parameter that is given twice the last one counts. `take` returns
/// none for a name that is none of `known`.
///
/// # Errors
/// It is no query.
pub(in crate::http) fn each(
    uri: &Uri,
    known: &[&str],
    mut take: impl FnMut(&str, String) -> Option<Result<(), String>>,
) -> Result<Violations, Error> {
    let mut violations = Violations::default();
    for (name, value) in pairs(uri)? {
        note(&mut violations, &name, known, take(&name, value));
    }
    Ok(violations)
}

/// The same, but a parameter must not be given twice.
///
/// # Errors
/// It is no query.
pub(in crate::http) fn each_once(
    uri: &Uri,
    known: &[&str],
    mut take: impl FnMut(&str, String) -> Option<Result<(), String>>,
) -> Result<Violations, Error> {
    let mut violations = Violations::default();
    let mut seen: Vec<String> = Vec::new();
    for (name, value) in pairs(uri)? {
        if seen.contains(&name) {
            let twice = Some(Err("is given twice: give it once".to_owned()));
            note(&mut violations, &name, known, twice);
        } else {
            note(&mut violations, &name, known, take(&name, value));
            seen.push(name);
        }
    }
    Ok(violations)
}

fn pairs(uri: &Uri) -> Result<Vec<(String, String)>, Error> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let pairs = pairs.map_err(|error| Error::new(Code::InvalidRequest, error.body_text()))?;
    Ok(pairs.0)
}

fn note(
    violations: &mut Violations,
    name: &str,
    known: &[&str],
    taken: Option<Result<(), String>>,
) {
    let detail = match taken {
        Some(Ok(())) => return,
        Some(Err(detail)) => detail,
        None => unknown("query parameter", name, known),
    };
    violations.add(format!("?{}", shorten(name)), detail);
}

/// Returns the text without quotes, since values of a query are not quoted.
pub(in crate::http) fn unquoted(detail: &str) -> String {
    detail.replace(" in quotes", "").replace('"', "")
}

/// Reads the size of a page. A larger number counts as the largest: a client that wants all need not know the limit.
pub(in crate::http) fn page_size(text: &str, most: usize) -> Result<usize, String> {
    whole_number(text, usize::MAX, most).map(|size| size.min(most))
}

/// Reads a number from 1 to `most`; people are told that it is at most `told`.
pub(in crate::http) fn whole_number(text: &str, most: usize, told: usize) -> Result<usize, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| {
        let text = shorten(text);
        format!("`{text}` is not a whole number from 1 to {told}")
    })
}

/// Reads which view of a task is asked for.
pub(in crate::http) fn view(text: &str) -> Result<View, String> {
    match text {
        "BASIC" => Ok(View::Basic),
        "FULL" => Ok(View::Full),
        _ => Err("must be BASIC or FULL".to_owned()),
    }
}

/// Sets a field of a query, or says why its text is wrong.
pub(in crate::http) fn put<T, F: From<T>>(
    field: &mut F,
    read: Result<T, String>,
) -> Result<(), String> {
    *field = F::from(read?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Take<'a> = &'a mut dyn FnMut(&str, String) -> Option<Result<(), String>>;
    type Walk = fn(&Uri, &[&str], Take<'_>) -> Result<Violations, Error>;

    fn taken(uri: &str, of: Walk) -> (Vec<String>, Result<(), Error>) {
        let mut taken = Vec::new();
        let violations = of(&uri.parse().unwrap(), &["a", "b"], &mut |name, value| {
            let known = matches!(name, "a" | "b");
            known.then(|| match value.as_str() {
                "bad" => Err("is bad".to_owned()),
                _ => {
                    taken.push(format!("{name}={value}"));
                    Ok(())
                }
            })
        });
        (taken, violations.and_then(Violations::finish))
    }

    #[test]
    fn every_mistake_of_a_query_is_told_at_its_name() {
        let (all, good) = taken("/x?a=1&b=2&a=3", |uri, known, take| each(uri, known, take));
        assert_eq!((all.len(), good.is_ok()), (3, true));
        let (all, bad) = taken("/x?a=bad&c=1&b=2&a=bad", |uri, known, take| {
            each(uri, known, take)
        });
        assert_eq!(all, ["b=2"]);
        let errors = bad.unwrap_err().errors;
        let told = errors.iter().map(|field| &*field.pointer);
        assert_eq!(told.collect::<Vec<_>>(), ["?a", "?c", "?a"]);
    }

    #[test]
    fn a_parameter_that_counts_once_is_not_given_twice() {
        let (all, bad) = taken("/x?a=1&c=1&a=2&c=2", |uri, known, take| {
            each_once(uri, known, take)
        });
        assert_eq!(all, ["a=1"]);
        let errors = bad.unwrap_err().errors;
        let told = errors
            .iter()
            .map(|field| (&*field.pointer, field.detail.contains("twice")));
        let wanted = [("?c", false), ("?a", true), ("?c", true)];
        assert_eq!(told.collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn the_size_of_a_page_has_a_bound_and_other_numbers_are_refused_beyond_theirs() {
        assert_eq!(page_size("7", 100), Ok(7));
        assert_eq!(page_size("1000", 100), Ok(100));
        for bad in ["0", "-1", "", "x", "99999999999999999999999"] {
            let detail = format!("`{bad}` is not a whole number from 1 to 100");
            assert_eq!(page_size(bad, 100), Err(detail), "{bad}");
        }
        assert_eq!(whole_number("100", 100, 100), Ok(100));
        assert!(whole_number("101", 100, 100).is_err());
    }
}
