//! The visit is a request of a browser: its reader, its rights, the prefix of its links, and the calls that are made for it.

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::{
        HeaderMap, HeaderValue, Method, StatusCode, Uri, header,
        request::Parts,
        uri::{Authority, PathAndQuery},
    },
    response::{IntoResponse as _, Response},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    Ui, assets,
    gate::{Answer, Condition, Failure, Line, json},
    parts::{
        frame::{Frame, Rights, Said, part, ways, with},
        problem, regions,
    },
};
use crate::{
    api::api_key::{ApiRole, WhoAmIResponse},
    http::error::Code,
    model::{
        access::{Need, Role},
        time::Millis,
    },
};

/// The cookie that holds the key.
const KEY: &str = "tickwheel_key";

/// The cookie with the outcome of an action, which the next page shows and clears.
const SAID: &str = "tickwheel_said";

/// Characters of an outcome.
const SAID_CHARS_MAX: usize = 400;

/// The head of a request, before its reader is known.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) ui: Ui,
    pub(super) line: Line,
    /// The prefix of links.
    pub(super) base: String,
    /// The browser speaks TLS with the node, or with a proxy in front of it.
    tls: bool,
    has_key: bool,
    said: Option<Said>,
    path: String,
    query: String,
    server: String,
    /// The tag of the page that the browser has.
    known: Option<HeaderValue>,
    /// A page of another site has led here.
    comes_from_elsewhere: bool,
}

impl Head {
    fn of(parts: &Parts, ui: &Ui) -> Self {
        let (headers, extensions) = (&parts.headers, &parts.extensions);
        let settings = &ui.settings;
        let key = cookie(headers, KEY).filter(|key| !key.is_empty());
        let base = settings.proxies.prefix(headers, extensions);
        let tls = settings.proxies.tls(headers, extensions);
        let tls = tls.unwrap_or(settings.tls);
        let base = base.unwrap_or_else(|| settings.base_path.clone());
        Self {
            line: Line::of(headers, extensions, key.as_deref()),
            server: server(&parts.uri, headers, tls, &base),
            base,
            tls,
            has_key: key.is_some(),
            said: cookie(headers, SAID).and_then(|text| said(&text)),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            known: headers.get(header::IF_NONE_MATCH).cloned(),
            comes_from_elsewhere: headers
                .get("sec-fetch-site")
                .is_some_and(|site| site == "cross-site"),
            ui: ui.clone(),
        }
    }

    /// Returns a cookie; one without a value is cleared.
    fn cookie(&self, name: &str, value: &str, age: Option<u32>) -> Option<HeaderValue> {
        let secure = if self.tls { "; Secure" } else { "" };
        let age = if value.is_empty() { Some(0) } else { age };
        let age = age.map_or_else(String::new, |age| format!("; Max-Age={age}"));
        let base = &self.base;
        let text = format!("{name}={value}; Path={base}/; HttpOnly; SameSite=Strict{secure}{age}");
        HeaderValue::try_from(text).ok()
    }

    /// Sends the browser to another page, which shows what was done.
    pub(super) fn sent(&self, path: &str, said: Option<&Said>) -> Response {
        let location = HeaderValue::try_from(format!("{}{path}", self.base));
        let location = location.unwrap_or_else(|_| HeaderValue::from_static("/"));
        let mut headers = HeaderMap::new();
        headers.insert(header::LOCATION, location);
        let shown = said.map(|said| {
            let mark = if said.bad { '-' } else { '+' };
            let text: String = said.text.chars().take(SAID_CHARS_MAX).collect();
            part(&format!("{mark}{text}"))
        });
        let shown = shown.and_then(|text| self.cookie(SAID, &text, Some(30)));
        headers.extend(shown.map(|cookie| (header::SET_COOKIE, cookie)));
        (StatusCode::SEE_OTHER, headers).into_response()
    }

    /// Keeps a key in the browser, or forgets it, and sends the browser to a page.
    pub(super) fn signed(&self, key: &str, path: &str) -> Response {
        let mut answer = self.sent(path, None);
        let cookie = self.cookie(KEY, key, None);
        let cookie = cookie.map(|cookie| (header::SET_COOKIE, cookie));
        answer.headers_mut().extend(cookie);
        answer
    }

    /// Answers with a page.
    pub(super) fn shown(&self, status: StatusCode, html: String) -> Response {
        let mut answer = (status, assets::headers(), html).into_response();
        if self.said.is_some() {
            let clear = self.cookie(SAID, "", None);
            let clear = clear.map(|cookie| (header::SET_COOKIE, cookie));
            answer.headers_mut().extend(clear);
        }
        answer
    }

    /// Answers with a page that changes by itself, unless the browser has it as it is.
    fn tagged(&self, html: String) -> Response {
        let tag = regions::tag(&html).map(HeaderValue::try_from);
        let Some(Ok(tag)) = tag else {
            return self.shown(StatusCode::OK, html);
        };
        if self.known.as_ref() == Some(&tag) {
            return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response();
        }
        let mut answer = self.shown(StatusCode::OK, html);
        answer.headers_mut().insert(header::ETAG, tag);
        answer
    }

    /// Asks for a key, and comes back to this page then.
    fn sign_in(&self) -> Response {
        if self.comes_from_elsewhere && !self.has_key {
            // The browser leaves the cookie out of a request that another site has begun. It sends it with the next one.
            return self.shown(StatusCode::OK, assets::AGAIN.to_owned());
        }
        let here = self.here();
        let next = if here == "/" {
            "/sign-in".to_owned()
        } else {
            with("/sign-in", "next", &here)
        };
        self.sent(&next, None)
    }

    /// Returns the path of this page with its query, without the prefix.
    pub(super) fn here(&self) -> String {
        match self.query.as_str() {
            "" => self.path.clone(),
            query => format!("{}?{query}", self.path),
        }
    }

    /// Returns a parameter of the query.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        let mut pairs = url::form_urlencoded::parse(self.query.as_bytes());
        let found = pairs.find(|(found, _)| found == name);
        found
            .map(|(_, value)| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    }

    /// Makes the frame of a page for a reader; none is known before the sign-in.
    pub(super) fn frame(&self, who: Option<(&WhoAmIResponse, Rights)>) -> Frame {
        let rights = who.map_or_else(Rights::default, |(_, rights)| rights);
        let settings = &self.ui.settings;
        Frame {
            base: self.base.clone(),
            assets: assets::version(),
            ways: who.map_or_else(Vec::new, |_| ways(rights, &self.path)),
            who: who.map_or_else(String::new, |(who, _)| who.name.clone()),
            role: who.map_or("", |(who, _)| who.role.name()),
            has_keys: who.is_some_and(|(who, _)| who.keys_required),
            read_only: settings.read_only,
            has_docs: settings.has_docs,
            rights,
            said: self.said.clone(),
            server: self.server.clone(),
            query: self.parameter("q").unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

impl FromRequestParts<Ui> for Head {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, ui: &Ui) -> Result<Self, Self::Rejection> {
        Ok(Self::of(parts, ui))
    }
}

/// A request whose reader is known.
#[derive(Debug, Clone)]
pub(super) struct Visit {
    pub(super) head: Head,
    pub(super) who: WhoAmIResponse,
    pub(super) rights: Rights,
    /// The parameter of the path: an id or a name.
    pub(super) name: String,
    pub(super) now: Millis,
}

impl FromRequestParts<Ui> for Visit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, ui: &Ui) -> Result<Self, Response> {
        let parameters = RawPathParams::from_request_parts(parts, ui).await;
        let name = parameters.as_ref().ok().and_then(|all| all.iter().next());
        let name = name.map_or_else(String::new, |(_, value)| value.to_owned());
        let head = Head::of(parts, ui);
        let asked = ui
            .gate
            .call(&head.line, Method::GET, "/v1/whoami", None, Condition::Any);
        let who = asked
            .await
            .and_then(|answer| answer.read::<WhoAmIResponse>());
        match who {
            Ok(who) => Ok(Self {
                rights: rights(&who, ui.settings.read_only),
                who,
                name,
                now: ui.settings.time.now(),
                head,
            }),
            Err(failure) if failure.is_of_key() => Err(head.sign_in()),
            Err(failure) => Err(failed(&head, &head.frame(None), &failure)),
        }
    }
}

impl Visit {
    pub(super) fn frame(&self) -> Frame {
        self.head.frame(Some((&self.who, self.rights)))
    }

    /// Returns a parameter of the query.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        self.head.parameter(name)
    }

    /// Refuses a page that is a form alone to a reader whose forms would be refused.
    pub(super) fn operates(&self) -> Result<(), Failure> {
        if self.rights.operate {
            return Ok(());
        }
        let why = "this page is for the roles operator and admin, where the service does not serve reads alone";
        Err(Failure::new(
            StatusCode::FORBIDDEN,
            Code::AccessDenied.title(),
            why,
        ))
    }

    /// Returns the parameter of the path, as a part of another one.
    pub(super) fn part(&self) -> String {
        part(&self.name)
    }

    /// Reads something of the API.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.read(path).await?.read()
    }

    /// Reads something of the API, with the headers of the answer.
    pub(super) async fn read(&self, path: &str) -> Result<Answer, Failure> {
        let gate = &self.head.ui.gate;
        gate.call(&self.head.line, Method::GET, path, None, Condition::Any)
            .await
    }

    /// Makes a call that changes something.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
    ) -> Result<Answer, Failure> {
        let body = body.map(json).transpose()?;
        let gate = &self.head.ui.gate;
        gate.call(&self.head.line, method, path, body, Condition::Any)
            .await
    }

    /// Posts something without a body.
    pub(super) async fn post(&self, path: &str) -> Result<Answer, Failure> {
        self.call(Method::POST, path, None::<&()>).await
    }

    /// Replaces something that is still as it was read.
    pub(super) async fn put(
        &self,
        path: &str,
        body: Vec<u8>,
        condition: Condition<'_>,
    ) -> Result<Answer, Failure> {
        let gate = &self.head.ui.gate;
        let line = &self.head.line;
        gate.call(line, Method::PUT, path, Some(body), condition)
            .await
    }

    /// Answers with a page, or says why there is none.
    pub(super) fn answer(&self, page: Result<String, Failure>) -> Response {
        match page {
            Ok(html) => self.head.tagged(html),
            Err(failure) => self.fail(&failure),
        }
    }

    /// Says why there is no page, or why nothing was done.
    pub(super) fn fail(&self, failure: &Failure) -> Response {
        if failure.is_of_key() {
            return self.head.sign_in();
        }
        failed(&self.head, &self.frame(), failure)
    }
}

fn failed(head: &Head, frame: &Frame, failure: &Failure) -> Response {
    match problem::page(frame, failure) {
        Ok(html) => head.shown(failure.status, html),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn rights(who: &WhoAmIResponse, read_only: bool) -> Rights {
    let role = match who.role {
        ApiRole::Viewer => Role::Viewer,
        ApiRole::Producer => Role::Producer,
        ApiRole::Worker => Role::Worker,
        ApiRole::Operator => Role::Operator,
        ApiRole::Admin => Role::Admin,
    };
    let changes = |need| role.may(need) && !read_only;
    Rights {
        read: role.may(Need::Read),
        look: role.may(Need::Look),
        produce: changes(Need::Produce),
        operate: changes(Need::Operate),
        administer: role.may(Need::Administer) && who.callbacks.is_none(),
        payloads: who.payloads,
        whole: who.callbacks.is_none(),
    }
}

/// Returns the value of a cookie.
fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let all = headers.get_all(header::COOKIE).into_iter();
    let texts = all.filter_map(|value| value.to_str().ok());
    let mut pairs = texts
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(found, _)| *found == name)?;
    Some(value.to_owned())
}

/// Reads the outcome of an action.
fn said(text: &str) -> Option<Said> {
    let mut pairs = url::form_urlencoded::parse(text.as_bytes());
    let (text, _) = pairs.next()?;
    let bad = match text.chars().next()? {
        '-' => true,
        '+' => false,
        _ => return None,
    };
    let text = text.chars().skip(1).take(SAID_CHARS_MAX).collect();
    Some(Said { text, bad })
}

/// Returns the service as the browser names it, if that is a name or an address and a port; else the default one.
fn server(uri: &Uri, headers: &HeaderMap, tls: bool, base: &str) -> String {
    const DEFAULT: &str = "localhost:7420";
    // HTTP/2, which browsers speak over TLS, has the host in the address and no header of it.
    let of_uri = uri.authority().map(Authority::as_str);
    let of_header = || headers.get(header::HOST)?.to_str().ok();
    let host = of_uri.or_else(of_header);
    let plain = |host: &&str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".:-[]".contains(c);
        (1..=255).contains(&host.len()) && host.chars().all(allowed)
    };
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{}{base}", host.filter(plain).unwrap_or(DEFAULT))
}

/// Returns a path of these pages that a form or a query names; the overview for any other text.
pub(super) fn own_path(text: &str) -> String {
    let read = text.parse::<PathAndQuery>().ok();
    let plain =
        read.filter(|_| text.starts_with('/') && !text.starts_with("//") && !text.contains('\\'));
    plain.map_or_else(|| "/".to_owned(), |path| path.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append("cookie", "a=1; tickwheel_key=twk_1_2".parse().unwrap());
        headers.append("cookie", "tickwheel_said=%2Bdone".parse().unwrap());
        assert_eq!(cookie(&headers, KEY).as_deref(), Some("twk_1_2"));
        let told = cookie(&headers, SAID).and_then(|text| said(&text)).unwrap();
        assert_eq!((told.text.as_str(), told.bad), ("done", false));
        assert_eq!(said("x"), None);
        assert_eq!(cookie(&headers, "key"), None);
    }

    #[test]
    fn nobody_is_sent_to_another_site() {
        for (text, path) in [
            ("/tasks?q=a%20b", "/tasks?q=a%20b"),
            ("//evil.example", "/"),
            ("https://evil.example", "/"),
            ("/\\evil.example", "/"),
            ("tasks", "/"),
            ("", "/"),
        ] {
            assert_eq!(own_path(text), path, "{text}");
        }
    }

    #[test]
    fn the_address_in_commands_is_the_one_of_the_browser() {
        let mut headers = HeaderMap::new();
        let uri = Uri::from_static("/");
        assert_eq!(server(&uri, &headers, false, ""), "http://localhost:7420");
        headers.insert("host", "timer.example:443".parse().unwrap());
        assert_eq!(
            server(&uri, &headers, true, "/t"),
            "https://timer.example:443/t"
        );
        headers.insert("host", "a\"b".parse().unwrap());
        assert_eq!(server(&uri, &headers, false, ""), "http://localhost:7420");
    }
}
