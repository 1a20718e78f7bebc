//! Tokens of dead letters tell the service which list a request continues, and where.
//!
//! As with other lists, a token is opaque, carries its filters, and is refused with other filters. It is not signed: a forged
//! one reads another part of the same list.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    flow::{
        base::tables::letters::{Scope, Spot},
        stages::letters::walk::Wanted,
    },
    model::time::Millis,
};

/// Longest token that is read: longer than the token of the longest filter.
const TOKEN_CHARS_MAX: usize = 4096;

/// The content of a token. A field is never reused for another meaning.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Token {
    callback: Option<String>,
    error: Option<String>,
    /// The letter up to which everything was listed: when its task died, and its id.
    behind: (i64, Uuid),
}

/// Writes a token.
#[must_use]
pub fn write(wanted: &Wanted, spot: Spot) -> String {
    let token = Token {
        callback: callback(wanted),
        error: wanted.error.clone(),
        behind: (spot.time.0, spot.id),
    };
    // Numbers, texts and a uuid can always be written.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}

/// Reads a token that must belong to this filter.
///
/// # Errors
/// A text about the mistake.
pub fn read(text: &str, wanted: &Wanted) -> Result<Spot, String> {
    let foreign = || "is not a token of this service: send `next_page_token` as it was".to_owned();
    if text.len() > TOKEN_CHARS_MAX {
        return Err(foreign());
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| foreign())?;
    let token: Token = serde_json::from_slice(&bytes).map_err(|_| foreign())?;
    let differs = [
        ("callback", token.callback != callback(wanted)),
        ("error", token.error != wanted.error),
    ];
    if let Some((name, _)) = differs.into_iter().find(|(_, differs)| *differs) {
        return Err(format!(
            "belongs to a list with another `{name}`: send the filters of the first page with every page, or no token"
        ));
    }
    let (time, id) = token.behind;
    if !(Millis::EPOCH.0..=Millis::MAX.0).contains(&time) {
        return Err(foreign());
    }
    Ok(Spot {
        time: Millis(time),
        id,
    })
}

/// Returns the callbacks of a filter as its query has them.
fn callback(wanted: &Wanted) -> Option<String> {
    match &wanted.scope {
        Scope::All => None,
        Scope::Callback(name) => Some(name.clone()),
        Scope::Beginning(beginning) => Some(format!("{beginning}*")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(callback: Option<&str>, error: Option<&str>) -> Wanted {
        Wanted {
            scope: Scope::of(callback),
            error: error.map(str::to_owned),
        }
    }

    fn of_several(beginning: &str) -> Wanted {
        Wanted {
            scope: Scope::Beginning(beginning.to_owned()),
            error: None,
        }
    }

    fn spot() -> Spot {
        Spot {
            time: Millis(1_800_000_000_437),
            id: Uuid::max(),
        }
    }

    #[test]
    fn a_token_comes_back_as_it_was_and_one_of_other_filters_names_what_differs() {
        let longest = wanted(Some(&"ü".repeat(128)), Some(&"ü".repeat(200)));
        for wanted in [longest, wanted(None, None), of_several("work")] {
            let token = write(&wanted, spot());
            assert!(token.len() < TOKEN_CHARS_MAX, "{}", token.len());
            assert_eq!(read(&token, &wanted), Ok(spot()));
        }
        let token = write(&wanted(Some("work"), None), spot());
        for (other, name) in [
            (wanted(None, None), "callback"),
            (of_several("work"), "callback"),
            (wanted(Some("work"), Some("e")), "error"),
        ] {
            let refused = read(&token, &other).unwrap_err();
            assert!(refused.contains(&format!("another `{name}`")), "{refused}");
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let wanted = wanted(None, None);
        let odd = write(
            &wanted,
            Spot {
                time: Millis(i64::MAX),
                ..spot()
            },
        );
        for text in ["", "x", "e30", "!!!", &"A".repeat(5000), &odd] {
            let refused = read(text, &wanted).unwrap_err();
            assert!(refused.contains("is not a token"), "{text}: {refused}");
        }
    }
}
