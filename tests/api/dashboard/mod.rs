//! The dashboard shows what the API answers, to readers with their rights, as a browser asks for it.

mod pages;
mod signing;

use axum::http::{HeaderValue, Method, Request, header};
use tickwheel::{http::Options, http::router};

use super::{Answer, Site, keys_and_roles, schedules};

/// Every page that has no name of a thing in it.
const PAGES: [&str; 9] = [
    "/",
    "/tasks",
    "/callbacks",
    "/dead-letters",
    "/schedules",
    "/jobs",
    "/cluster",
    "/keys",
    "/audit",
];

/// The place of the form for the gate of the callback of the tests.
const GATE: &str = concat!("/callbacks/", "work", "/gate");

/// A browser: it has a cookie, and says where its requests come from.
#[derive(Default)]
struct Browser {
    key: Option<String>,
}

impl Browser {
    fn of(key: &str) -> Self {
        Self {
            key: Some(key.to_owned()),
        }
    }

    fn request(&self, method: Method, path: &str, body: String) -> Request<axum::body::Body> {
        let mut request = super::request(method, path, body);
        let headers = request.headers_mut();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, form);
        headers.insert("host", HeaderValue::from_static("localhost:7420"));
        headers.insert("sec-fetch-site", HeaderValue::from_static("same-origin"));
        if let Some(key) = &self.key {
            let cookie = format!("other=1; tickwheel_key={key}").parse().unwrap();
            headers.insert(header::COOKIE, cookie);
        }
        request
    }

    async fn get(&self, site: &Site, path: &str) -> Answer {
        site.send(self.request(Method::GET, path, String::new()))
            .await
    }

    /// Returns a page, which must be there.
    async fn page(&self, site: &Site, path: &str) -> String {
        let answer = self.get(site, path).await;
        assert_eq!(answer.status, 200, "{path}: {}", text(&answer));
        text(&answer)
    }

    /// Sends a form.
    async fn send(&self, site: &Site, path: &str, fields: &[(&str, &str)]) -> Answer {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(fields);
        site.send(self.request(Method::POST, path, body.finish()))
            .await
    }

    /// Sends a form that leads to another page; returns its path and what was said.
    async fn done(&self, site: &Site, path: &str, fields: &[(&str, &str)]) -> (String, String) {
        let answer = self.send(site, path, fields).await;
        assert_eq!(answer.status, 303, "{path}: {}", text(&answer));
        let said = answer.header("set-cookie").split(';').next().unwrap();
        let said = said
            .trim_start_matches("tickwheel_said=")
            .replace('=', "%3D");
        let pairs = url::form_urlencoded::parse(said.as_bytes());
        let said = pairs.map(|(text, _)| text.into_owned()).collect();
        (answer.header("location").to_owned(), said)
    }
}

fn text(answer: &Answer) -> String {
    String::from_utf8(answer.body.to_vec()).unwrap()
}

/// The same node with other options.
fn with(site: Site, change: impl FnOnce(&mut Options)) -> Site {
    let mut options = Options::new(site.node.time.clone(), site.shutdown.clone());
    change(&mut options);
    let router = router(site.node.service(), options);
    Site { router, ..site }
}
