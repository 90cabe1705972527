//! The doors of executors: who is let in, what is said there, and that every answer is one that executors read.

mod house;

use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Body;
use house::{Crew, ask, open_to, view};
use http::Request;
use punctual_api::Peer;
use punctual_core::registry::Secret;

const HERE: &str = "127.0.0.1:50000";
const AWAY: &str = "192.0.2.7:50000";

/// Somebody at a door: a request, before it is made.
struct Knock {
    method: &'static str,
    path: String,
    body: String,
    headers: Vec<(&'static str, &'static str)>,
    from: &'static str,
}

fn knock(path: &str, body: &str) -> Knock {
    Knock { method: "POST", path: path.into(), body: body.into(), headers: vec![], from: HERE }
}

impl Knock {
    fn with(mut self, name: &'static str, value: &'static str) -> Knock {
        self.headers.push((name, value));
        self
    }

    fn from(mut self, from: &'static str) -> Knock {
        self.from = from;
        self
    }

    /// The code and the message of the answer.
    async fn at(self, door: &Router) -> (u64, String) {
        let mut request = Request::builder().method(self.method).uri(self.path);
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let mut request = request.body(Body::from(self.body)).unwrap();
        request.extensions_mut().insert(Peer(self.from.parse().unwrap()));
        let answer = ask(door, request).await;
        assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "application/json"));
        let told = answer.json();
        for field in ["content", "data"] {
            assert!(told.get(field).is_some_and(serde_json::Value::is_null), "{told}");
        }
        (told["code"].as_u64().unwrap(), told["msg"].as_str().unwrap_or_default().to_owned())
    }
}

fn registration(app: &str, address: &str) -> String {
    format!(r#"{{"registryGroup":"EXECUTOR","registryKey":"{app}","registryValue":"{address}"}}"#)
}

fn register(app: &str, address: &str) -> Knock {
    knock("/api/registry", &registration(app, address))
}

fn token(text: &'static str) -> impl Fn(Knock) -> Knock {
    move |knock| knock.with("XXL-JOB-ACCESS-TOKEN", text)
}

const OK: (u64, &str) = (200, "");

fn told(answer: &(u64, String)) -> (u64, &str) {
    (answer.0, &answer.1)
}

#[tokio::test]
async fn every_path_that_executors_know_is_a_door() {
    let crew = Crew::with(vec![]);
    let door = open_to(&crew, |_| {}).await;
    for path in [
        "/api/registry",
        "/xxl-job-admin/api/registry",
        "/orth-admin/api/registry",
        "//api/registry",
        "/xxl-job-admin//api/registry",
        "/xxl-job-admin/api//registry/",
        "/api/registry?x=1",
    ] {
        let answer = knock(path, &registration("a", "http://e:1/")).at(&door).await;
        assert_eq!(told(&answer), OK, "{path}");
        assert_eq!(crew.said().len(), 1, "{path}");
    }
    let answer = knock("/api/registryRemove", &registration("a", "http://e:1/")).at(&door).await;
    assert_eq!((told(&answer), crew.said()), (OK, vec!["leave a http://e:1/".to_owned()]));
}

#[tokio::test]
async fn what_no_executor_means_is_refused_as_they_read_it() {
    let crew = Crew::with(vec![]);
    let door = open_to(&crew, |_| {}).await;
    let get = Knock { method: "GET", ..register("a", "http://e") };
    assert_eq!(told(&get.at(&door).await), (500, "invalid request, HttpMethod not support."));
    let long = format!(r#"{{"registryGroup":"{}"}}"#, "x".repeat(70_000));
    for (path, body, said) in [
        ("/api/addJob", "{}", "invalid request, uri-mapping(addJob) not found."),
        ("/api/registry", " ", "invalid request, requestBody empty."),
        ("/api/callback", "", "invalid request, requestBody empty."),
        ("/api/registry", "{}", "Illegal Argument."),
        ("/api/registry", &registration("a", " "), "Illegal Argument."),
        ("/api/registry", &registration("", "http://e"), "Illegal Argument."),
        ("/api/registry", &registration(&"x".repeat(129), "http://e"), "Illegal Argument. registryKey"),
        ("/api/registry", &registration("a/b", "http://e"), "Illegal Argument. registryKey"),
        ("/api/registry", &registration("a", "tcp://e"), "Illegal Argument. registryValue"),
        ("/api/registry", "{", "the body is no JSON"),
        ("/api/registry", &long, "the body is longer than"),
        ("/api/callback", "{", "the body is no JSON"),
        ("/api/callback", "{}", "Illegal Argument."),
    ] {
        let (code, message) = knock(path, body).at(&door).await;
        assert!(code == 500 && message.starts_with(said), "{path} {body:.80}: {code} {message}");
    }
}

#[tokio::test]
async fn what_is_no_door_stays_what_it_was() {
    let door = open_to(&Crew::with(vec![]), |_| {}).await;
    for path in ["/api/v1", "/api/v1/registry", "//api/v1/jobs", "/xxl-job-admin/registry"] {
        let answer = ask(&door, house::request("POST", path, "admin", "{}")).await;
        assert_eq!(answer.status, 404, "{path}");
    }
}

#[tokio::test]
async fn the_dialect_is_kept_with_the_beat() {
    let crew = Crew::with(vec![]);
    let door = open_to(&crew, |_| {}).await;
    for (headers, dialect) in [
        (vec![("XXL-JOB-ACCESS-TOKEN", "t")], "classic"),
        (vec![("xxl-job-access-token", "t"), ("xxl-rpc-access-token", "t")], "classic"),
        (vec![("XXL-JOB-ACCESS-TOKEN", "t"), ("XXL-JOB-APPNAME", "a")], "trigger"),
        (vec![("ORTH-ACCESS-TOKEN", "t")], "orth"),
        (vec![], "classic"),
    ] {
        let asked = Knock { headers, ..register("a", "http://e") };
        assert_eq!(told(&asked.at(&door).await), OK);
        assert_eq!(crew.said(), [format!("beat a http://e {dialect}")]);
    }
    let other = register("a", "http://e").with("XXL-JOB-APPNAME", "b").at(&door).await;
    assert_eq!(told(&other), (500, "Illegal Argument. registryKey is not what XXL-JOB-APPNAME says"));
}

#[tokio::test]
async fn without_a_token_only_the_own_machine_is_let_in() {
    let crew = Crew::with(vec![]);
    let door = open_to(&crew, |_| {}).await;
    assert_eq!(told(&token("whatever")(register("a", "http://e")).at(&door).await), OK);
    assert_eq!(crew.said().len(), 1);
    for asked in [register("a", "http://e"), knock("/api/callback", r#"[{"logId":1,"handleCode":200}]"#)] {
        let (code, message) = asked.from(AWAY).at(&door).await;
        assert!(code == 500 && message.starts_with("The access token is wrong."), "{message}");
        assert!(message.contains("[executors] access_token"), "{message}");
    }
    let said = crew.said();
    assert!(said.len() == 1 && said[0].starts_with("refused a http://e: The access token"), "{said:?}");
}

#[tokio::test]
async fn an_apps_own_token_stands_in_the_place_of_the_one_for_all() {
    let crew = Crew::with(vec![view("reports", Some("own")), view("billing", None)]);
    let door = open_to(&crew, |settings| settings.access_token = Some(Secret::new("global"))).await;
    for (app, shown, is_taken) in [
        ("reports", "own", true),
        ("reports", "global", false),
        ("billing", "own", false),
        ("billing", "global", true),
        ("new", "global", true),
        ("new", "own", false),
        ("new", "", false),
    ] {
        for from in [HERE, AWAY] {
            let answer = token(shown)(register(app, "http://e")).from(from).at(&door).await;
            let expected = if is_taken { OK } else { (500, "The access token is wrong.") };
            assert_eq!(told(&answer), expected, "{app} {shown} {from}");
        }
    }
    let orth = register("billing", "http://e").with("ORTH-ACCESS-TOKEN", "global").at(&door).await;
    assert_eq!(told(&orth), OK);
}

#[tokio::test]
async fn an_address_that_this_node_does_not_call_is_refused_and_told() {
    let crew = Crew::with(vec![]);
    let door = open_to(&crew, |_| {}).await;
    let (code, message) = register("a", "http://169.254.0.1/").at(&door).await;
    assert!(code == 500 && message.contains("metadata"), "{message}");
    let said = crew.said();
    assert!(said.len() == 1 && said[0].starts_with("refused a http://169.254.0.1/"), "{said:?}");
    // Who goes need not be reached.
    let answer = knock("/api/registryRemove", &registration("a", "http://169.254.0.1/")).at(&door).await;
    assert_eq!(told(&answer), OK);
}

#[tokio::test]
async fn a_stranger_who_goes_on_is_not_told_of_for_ever() {
    let crew = Crew::with(vec![]);
    let door = open_to(&crew, |settings| settings.strangers_max = 3).await;
    for _ in 0..5 {
        assert_eq!(register("a", "http://e").from(AWAY).at(&door).await.0, 500);
    }
    assert_eq!(crew.said().len(), 3);
}

#[tokio::test]
async fn nothing_is_taken_that_is_not_kept() {
    let crew = Crew::with(vec![]);
    let door = open_to(&crew, |_| {}).await;
    crew.is_away.store(true, Ordering::Relaxed);
    for asked in [
        register("a", "http://e"),
        knock("/api/registryRemove", &registration("a", "http://e")),
        knock("/api/callback", r#"[{"logId":1,"handleCode":200}]"#),
    ] {
        let (code, message) = asked.at(&door).await;
        assert!(code == 500 && message.contains("nobody answers"), "{message}");
    }
}

#[tokio::test]
async fn nobody_is_let_in_while_nobody_knows_whose_token_it_is() {
    let crew = Crew::with(vec![]);
    let door = open_to(&crew, |_| {}).await;
    crew.is_unread.store(true, Ordering::Relaxed);
    for asked in [register("a", "http://e"), knock("/api/callback", r#"[{"logId":1,"handleCode":200}]"#)] {
        let (code, message) = asked.at(&door).await;
        assert!(code == 500 && message.contains("nobody knows the apps"), "{message}");
    }
    assert!(crew.said().iter().all(|said| said.starts_with("refused")));
}

#[tokio::test]
async fn results_are_read_in_every_shape() {
    let crew = Crew::with(vec![]);
    let door = open_to(&crew, |_| {}).await;
    for (body, said) in [
        (r#"[{"logId":1,"logDateTim":5,"handleCode":200,"handleMsg":null}]"#, "report 1 succeeded "),
        (r#"[{"logId":2,"executeResult":{"code":500,"msg":"no"}}]"#, "report 2 failed no"),
        (
            r#"{"callbackList":[{"logId":3,"logDateTime":5,"handleCode":502,"handleMsg":"late"}]}"#,
            "report 3 timed_out late",
        ),
        (r#"{"logId":4,"handleCode":200,"handleMsg":{"rows":3}}"#, r#"report 4 succeeded {"rows":3}"#),
    ] {
        assert_eq!(told(&knock("/api/callback", body).at(&door).await), OK, "{body}");
        assert_eq!(crew.said(), [said], "{body}");
    }
}

#[tokio::test]
async fn results_of_another_apps_runs_count_for_nothing_and_are_answered_like_unknown_ones() {
    let crew = Crew::with(vec![view("reports", Some("own")), view("billing", None)]);
    let door = open_to(&crew, |settings| settings.access_token = Some(Secret::new("global"))).await;
    let both = r#"[{"logId":1,"handleCode":200},{"logId":101,"handleCode":200}]"#;
    for (shown, said) in [("own", "report 1 succeeded "), ("global", "report 101 succeeded ")] {
        let answer = token(shown)(knock("/api/callback", both)).from(AWAY).at(&door).await;
        assert_eq!(told(&answer), OK, "a number tells nothing about other apps");
        assert_eq!(crew.said(), [said], "what is its own is kept");
    }
    let answer = token("neither")(knock("/api/callback", both)).at(&door).await;
    assert_eq!((told(&answer), crew.said().len()), ((500, "The access token is wrong."), 0));
}

#[tokio::test]
async fn whoever_comes_through_a_browser_a_proxy_or_a_job_is_not_of_this_machine() {
    let crew = Crew::with(vec![view("a", None)]);
    let door = open_to(&crew, |_| {}).await;
    for (name, value) in [
        ("Origin", "http://127.0.0.1:7070"),
        ("Sec-Fetch-Mode", "no-cors"),
        ("Forwarded", "for=198.51.100.7"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Real-IP", "127.0.0.1"),
        ("Via", "1.1 mesh"),
        ("Punctual-Run-Id", "7"),
    ] {
        for asked in [register("a", "http://e"), knock("/api/callback", r#"[{"logId":1,"handleCode":200}]"#)]
        {
            let (code, message) = asked.with(name, value).at(&door).await;
            assert!(code == 500 && message.contains("set [executors] access_token"), "{name}: {message}");
        }
    }
    assert!(crew.said().iter().all(|said| said.starts_with("refused")));
    let door = open_to(&crew, |settings| settings.access_token = Some(Secret::new("global"))).await;
    let shown = token("global")(register("a", "http://e")).with("Via", "1.1 mesh").at(&door).await;
    assert_eq!(told(&shown), OK, "with a token it may come as it likes");
}

#[tokio::test]
async fn loopback_is_trusted_only_where_that_is_wanted() {
    let crew = Crew::with(vec![]);
    let door = open_to(&crew, |settings| settings.trusts_loopback = false).await;
    let (code, message) = register("a", "http://e").at(&door).await;
    assert!(code == 500 && message.contains("takes nobody"), "{message}");
}

#[tokio::test]
async fn strangers_behind_a_proxy_are_counted_one_by_one_if_the_proxy_is_trusted() {
    let crew = Crew::with(vec![]);
    let count = async |door: &Router, callers: [&'static str; 4]| {
        let mut refused = 0;
        for caller in callers {
            let (_, message) = register("a", "http://e").with("X-Forwarded-For", caller).at(door).await;
            refused += usize::from(message.contains("calls without a valid token"));
        }
        refused
    };
    let callers = ["198.51.100.1", "198.51.100.2", "198.51.100.3", "198.51.100.1"];
    let door = open_to(&crew, |settings| settings.strangers_max = 1).await;
    assert_eq!(count(&door, callers).await, 3, "what they say is not believed, so they count together");
    let door = open_to(&crew, |settings| {
        settings.strangers_max = 1;
        settings.proxies = punctual_api::Proxies::parse(&["127.0.0.1/32"]).unwrap();
    })
    .await;
    assert_eq!(count(&door, callers).await, 1, "each for himself");
}
