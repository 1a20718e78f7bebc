//! The assets are the style sheet and the scripts of the dashboard, and the headers that bind pages to them.
//!
//! htmx is vendored as its package has it, with its licence.

use std::{fmt::Write as _, sync::OnceLock};

use axum::{
    extract::Path,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use xxhash_rust::xxh3::xxh3_64;

/// A page loads what this server sends, and nothing else; it is in no frame, and its forms come back here.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The page that asks for itself again, now as a request of this site.
pub(super) const AGAIN: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Tickwheel</title>\
                                <meta http-equiv=\"refresh\" content=\"0\"></head><body></body></html>";

/// Name, media type and text of each.
const ALL: [(&str, &str, &str); 6] = [
    (
        "ui.css",
        "text/css; charset=utf-8",
        include_str!("assets/ui.css"),
    ),
    ("ui.js", SCRIPT, include_str!("assets/ui.js")),
    ("live.js", SCRIPT, include_str!("assets/live.js")),
    ("htmx.js", SCRIPT, include_str!("assets/htmx.min.js")),
    (
        "htmx.LICENSE",
        "text/plain; charset=utf-8",
        include_str!("assets/htmx.LICENSE"),
    ),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Returns a name of this version of the assets, so that browsers keep each version for good.
pub(super) fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let hashes = ALL.iter().map(|(_, _, text)| xxh3_64(text.as_bytes()));
        let hash = hashes.fold(0_u64, |all, one| all.rotate_left(7) ^ one);
        let mut text = String::new();
        // Writing to a String cannot fail.
        write!(text, "{hash:016x}").unwrap_or_default();
        text
    })
}

/// Returns the headers of every page.
pub(super) fn headers() -> [(HeaderName, HeaderValue); 6] {
    let fixed = HeaderValue::from_static;
    [
        (header::CONTENT_TYPE, fixed("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, fixed(POLICY)),
        (header::CACHE_CONTROL, fixed("no-store")),
        (header::X_CONTENT_TYPE_OPTIONS, fixed("nosniff")),
        (header::REFERRER_POLICY, fixed("same-origin")),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            fixed("same-origin"),
        ),
    ]
}

/// Answers one of them.
pub(super) async fn asset(Path(name): Path<String>) -> Response {
    let found = ALL.iter().find(|(known, _, _)| *known == name);
    let Some((_, media, text)) = found else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, *media),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, *text).into_response()
}
