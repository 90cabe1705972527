//! Bytes as they were recorded on the wire, and invalid ones.

use super::*;

/// What a line of a recording means, as the recording writes it.
fn meaning(kind: &str, body: &str) -> String {
    let body = body.as_bytes();
    match kind {
        "registry" => Registration::read(body)
            .map_or_else(refusal, |said| format!("{} {} {}", said.group, said.app, said.address)),
        "callback" => Callbacks::read(body).map_or_else(refusal, |said| callbacks(&said)),
        "reply" => {
            Reply::read(body).map_or_else(|nonsense| format!("nonsense {nonsense}"), |said| reply(&said))
        }
        "log" => match LogPage::of(&Reply::read(body).unwrap(), 1) {
            Ok(page) => format!(
                "{}-{} {} {}",
                page.from_line,
                page.to_line,
                if page.is_end { "end" } else { "more" },
                page.content.replace('\n', "|")
            ),
            Err(reason) => format!("refused {reason}"),
        },
        other => panic!("{other} is no kind"),
    }
}

#[test]
fn no_more_results_are_understood_than_are_taken() {
    let list = |count: usize| format!("[{}]", vec![r#"{"logId":7}"#; count].join(","));
    for body in [list(ITEMS_MAX), format!(r#"{{"callbackList":{}}}"#, list(ITEMS_MAX))] {
        assert_eq!(Callbacks::read(body.as_bytes()).unwrap().items.len(), ITEMS_MAX);
    }
    for body in [list(ITEMS_MAX + 1), format!(r#"{{"callbackList":{}}}"#, list(ITEMS_MAX + 1))] {
        assert_eq!(Callbacks::read(body.as_bytes()).unwrap_err(), answer::TOO_MANY);
    }
    let broken = list(ITEMS_MAX).replace("7}]", "7}");
    assert!(Callbacks::read(broken.as_bytes()).unwrap_err().contains("no JSON"));
    // Parsed at once it would take thirty times its length.
    let huge = format!(r#"[{{"logId":7,"x":[{}0]}},{{"logId":8}}]"#, "0,".repeat(1 << 20));
    let said = Callbacks::read(huge.as_bytes()).unwrap();
    assert_eq!((said.items.len(), said.items[0].log, said.unreadable), (1, 8, 1));
}

fn refusal(message: String) -> String {
    format!("! {message}")
}

fn callbacks(said: &Callbacks) -> String {
    let each = |item: &Callback| match item.message.as_str() {
        "" => format!("{} {:?}", item.log, item.ending()),
        message => format!("{} {:?} {message}", item.log, item.ending()),
    };
    let all = said.items.iter().map(each).collect::<Vec<_>>().join("; ");
    match said.unreadable {
        0 => all,
        count => format!("{all} ({count} unreadable)"),
    }
}

fn reply(said: &Reply) -> String {
    let about = match (said.is_unknown_path(), said.is_about_the_call()) {
        (true, _) => "(path) ",
        (false, true) => "(call) ",
        (false, false) => "",
    };
    let code = if said.is_ok() { "ok".to_owned() } else { said.code.to_string() };
    format!("{code} {about}{}", said.message).trim_end().to_owned()
}

fn check_recording(name: &str, text: &str) {
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut count = 0;
    while let Some(line) = lines.next() {
        let (kind, body) = line.split_once(' ').unwrap();
        let expected = lines.next().unwrap().strip_prefix('=').unwrap();
        let expected = expected.strip_prefix(' ').unwrap_or(expected);
        assert_eq!(meaning(kind, body), expected, "{name}: {line}");
        count += 1;
    }
    assert!(count > 3, "{name} is empty");
}

#[test]
fn what_was_recorded_means_what_it_meant() {
    check_recording("java", include_str!("recorded/java.txt"));
    check_recording("orth", include_str!("recorded/orth.txt"));
    check_recording("go", include_str!("recorded/go.txt"));
    check_recording("others", include_str!("recorded/others.txt"));
    check_recording("odd", include_str!("recorded/odd.txt"));
}

fn trigger() -> Trigger<'static> {
    Trigger {
        job: 7,
        handler: "demo",
        params: "a \"b\"",
        strategy: Strategy::Serial,
        timeout: 30,
        log: 42,
        sent_at: 1_794_773_736_014,
        glue: GlueType::Bean,
        source: "",
        glue_changed_at: 0,
        index: 0,
        total: 1,
        orth: None,
    }
}

fn written(trigger: &Trigger) -> String {
    let mut body = Vec::new();
    trigger.write(&mut body);
    String::from_utf8(body).unwrap()
}

const TWELVE: &str = concat!(
    r#"{"jobId":7,"executorHandler":"demo","executorParams":"a \"b\"","executorBlockStrategy":"SERIAL_EXECUTION","#,
    r#""executorTimeout":30,"logId":42,"logDateTime":1794773736014,"glueType":"BEAN","glueSource":"","#,
    r#""glueUpdatetime":0,"broadcastIndex":0,"broadcastTotal":1"#,
);

#[test]
fn a_trigger_has_its_twelve_fields_and_two_more_for_orth() {
    assert_eq!(written(&trigger()), format!("{TWELVE}}}"));
    let orth = |scheduled_at| Trigger { orth: Some(Orth { concurrency: 4, scheduled_at }), ..trigger() };
    let expected = format!(r#"{TWELVE},"executorConcurrency":4,"scheduleTime":1794773736000}}"#);
    assert_eq!(written(&orth(Some(1_794_773_736_000))), expected);
    assert_eq!(written(&orth(None)), format!(r#"{TWELVE},"executorConcurrency":4,"scheduleTime":null}}"#));
}

#[test]
fn a_script_travels_under_its_type() {
    let script = Trigger { handler: "", glue: GlueType::Shell, source: "echo 1\n", ..trigger() };
    let body = written(&script);
    assert!(
        body.contains(r#""executorHandler":"","#) && body.contains(r#""glueSource":"echo 1\n","#),
        "{body}"
    );
    assert!(body.contains(r#""glueType":"GLUE_SHELL","#), "{body}");
}

#[test]
fn questions_are_as_small_as_everybody_takes_them() {
    for (question, path, body) in [
        (Question::Beat, "/beat", "{}"),
        (Question::IdleBeat { job: 7 }, "/idleBeat", r#"{"jobId":7}"#),
        (Question::Kill { job: 7 }, "/kill", r#"{"jobId":7}"#),
        (
            Question::Log { log: 42, sent_at: 1_794_773_736_014, from_line: 3 },
            "/log",
            r#"{"logDateTim":1794773736014,"logDateTime":1794773736014,"logId":42,"fromLineNum":3}"#,
        ),
    ] {
        assert_eq!((question.path(), question.body().as_str()), (path, body));
    }
}

#[test]
fn answers_have_both_names_for_the_payload() {
    assert_eq!(answer::ACCEPTED, r#"{"code":200,"msg":null,"content":null,"data":null}"#);
    let refused: serde_json::Value = serde_json::from_str(&answer::refused("no \"x\"")).unwrap();
    assert_eq!(refused, serde_json::json!({"code": 500, "msg": "no \"x\"", "content": null, "data": null}));
    assert!(Reply::read(answer::ACCEPTED.as_bytes()).unwrap().is_ok());
}

#[test]
fn names_are_read_as_they_are_written() {
    assert!(Strategy::ALL.iter().all(|one| Strategy::from_name(one.name()) == Some(*one)));
    assert!(GlueType::ALL.iter().all(|one| GlueType::from_name(one.name()) == Some(*one)));
    assert_eq!(Strategy::from_name("serial"), None);
}

#[test]
fn a_message_is_cut_to_its_bound_and_holds_no_null() {
    let said = format!(r#"[{{"logId":1,"handleCode":200,"handleMsg":"\u0000ü{}"}}]"#, "x".repeat(20_000));
    let message = &Callbacks::read(said.as_bytes()).unwrap().items[0].message;
    assert!(message.starts_with("üx") && message.chars().count() == MESSAGE_MAX, "{}", message.len());
}

#[test]
fn the_beginning_of_a_long_log_gives_its_whole_lines() {
    let whole = r#"{"code":200,"content":{"fromLineNum":5,"toLineNum":9,"logContent":"one\ntw\\no\nü\u00e9\nfour","isEnd":true}}"#;
    let page = |cut: usize| LogPage::of_beginning(&whole.as_bytes()[..cut], 5);
    let longest = page(whole.len()).unwrap();
    assert_eq!((longest.from_line, longest.to_line, longest.is_end), (5, 7, false));
    assert_eq!(longest.content, "one\ntw\\no\nüé\n");
    for cut in 0..whole.len() {
        if let Some(page) = page(cut) {
            assert!(
                longest.content.starts_with(&page.content) && page.content.ends_with('\n'),
                "{cut}: {page:?}"
            );
        }
    }
}

/// A small generator, so that what fails once fails again.
struct Weyl(u64);

impl Weyl {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

fn read_everything(body: &[u8]) {
    let _ = Registration::read(body);
    if let Ok(said) = Callbacks::read(body) {
        assert!(said.items.iter().all(|item| item.message.chars().count() <= MESSAGE_MAX));
        assert!(said.items.iter().all(|item| !item.message.contains('\0') && item.log > 0));
    }
    if let Ok(reply) = Reply::read(body) {
        let _ = (reply.is_unknown_path(), reply.is_about_the_call(), LogPage::of(&reply, u64::MAX));
    }
    let _ = LogPage::of_beginning(body, u64::MAX);
}

#[test]
fn no_bytes_are_too_strange() {
    let recorded = [
        include_str!("recorded/java.txt"),
        include_str!("recorded/go.txt"),
        include_str!("recorded/others.txt"),
        include_str!("recorded/odd.txt"),
    ];
    let bodies: Vec<&[u8]> = recorded
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.split_once(' '))
        .map(|(_, body)| body.as_bytes())
        .collect();
    let mut random = Weyl(7);
    let pieces: &[&[u8]] =
        &[b"{", b"}", b"[", b"]", b"\"", b"\\", b"\\u", b"null", b"-1", b"1e999", b"\xff", b"\0", b",", b":"];
    for _ in 0..40_000 {
        let mut body = bodies[random.below(bodies.len())].to_vec();
        for _ in 0..random.below(6) {
            let at = random.below(body.len() + 1);
            match random.below(3) {
                0 => body.truncate(at),
                1 => drop(body.splice(at..at, pieces[random.below(pieces.len())].iter().copied())),
                _ => body.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.next() as u8),
            }
        }
        read_everything(&body);
    }
    read_everything("[".repeat(100_000).as_bytes());
    read_everything(&[b'"'; 1000]);
}
