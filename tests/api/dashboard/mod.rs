//! The dashboard shows what the API answers, to readers with their rights, as a browser asks for it.

mod acting;
mod live;
mod making;
mod pages;
mod signing;

use axum::http::{HeaderValue, Method, Request, header};
use serde_json::json;
use tickwheel::{http::Options, http::router};

use super::{Answer, Site, dead_letters, keys_and_roles, schedules};

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

    /// Returns all parts of a list, one behind the other.
    async fn parts(&self, site: &Site, path: &str) -> String {
        let (mut all, mut path) = (String::new(), path.to_owned());
        for _ in 0..200 {
            let html = self.page(site, &path).await;
            let next = html
                .split("\" rel=\"next\"")
                .next()
                .filter(|begun| begun.len() < html.len());
            let next = next.and_then(|begun| begun.rsplit("href=\"").next());
            let next = next.map(|link| link.replace("&#38;", "&"));
            all.push_str(&html);
            match next {
                Some(next) => path = next,
                None => return all,
            }
        }
        panic!("the list does not end");
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

/// The values of an attribute in a page.
fn values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    let begin = format!(" {attribute}=\"");
    let found = html.split(begin.as_str()).skip(1);
    found.map(|rest| rest.split('"').next().unwrap()).collect()
}

/// A node with one of everything that pages show. Returns the ids of a dead task, of one that waits, and of a job.
async fn full() -> (Site, [String; 3]) {
    let site = schedules::site().await;
    let worker = site.world.worker(site.node.service(), failing());
    let dead = dead_letters::dead(&site, "work", 2, json!({"labels": {"tenant": "acme"}})).await;
    let later = json!({"callback": "bill", "delay": "1h", "key": "order-17", "payload": {"n": 9_007_199_254_740_993_i64}});
    let later = site.post("/v1/tasks", later.to_string()).await.json();
    let schedule =
        json!({"cron": "30 7 * * *", "time_zone": "Europe/Berlin", "task": {"callback": "report"}});
    schedules::set(&site, "nightly", schedule).await;
    let job = json!({"kind": "redrive", "filter": {"callback": "work"}, "dry_run": true});
    let job = site.post("/v1/jobs", job.to_string()).await.json();
    let gate = json!({"gate": "paused", "reason": "smtp moves"});
    site.post(&format!("/v1{GATE}"), gate.to_string())
        .await
        .ok();
    worker.abort();
    let id = |value: &serde_json::Value| {
        let id = value["id"].as_str().unwrap_or_else(|| panic!("{value}"));
        id.to_owned()
    };
    let ids = [dead[0].clone(), id(&later), id(&job)];
    (site, ids)
}

/// The same with a key of an admin.
async fn guarded() -> (Site, String, [String; 3]) {
    let (site, ids) = full().await;
    let wish = json!({"name": "root", "role": "admin"}).to_string();
    let made = site.post("/v1/api-keys", wish).await.json();
    site.world.pass(3 * keys_and_roles::SECOND).await;
    (site, made["key"].as_str().unwrap().to_owned(), ids)
}

/// The places that the forms of a page are sent to.
fn forms(html: &str) -> Vec<&str> {
    let forms = html
        .split("<form")
        .skip(1)
        .map(|form| form.split('>').next().unwrap());
    let posts = forms.filter(|form| form.contains("method=\"post\""));
    posts.flat_map(|form| values(form, "action")).collect()
}

fn failing() -> crate::sim::world::Behaviour {
    std::sync::Arc::new(|_, _| {
        let outcome = tickwheel::model::state::Outcome::Retry {
            error: "smtp <b>says</b> 550\nno such user".to_owned(),
            after: None,
        };
        (std::time::Duration::from_millis(100), Some(outcome))
    })
}

/// The same node with other options.
fn with(site: Site, change: impl FnOnce(&mut Options)) -> Site {
    let mut options = Options::new(site.node.time.clone(), site.shutdown.clone());
    change(&mut options);
    let router = router(site.node.service(), options);
    Site { router, ..site }
}
