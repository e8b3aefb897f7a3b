//! Tests of the rules: the table of append calls, every rule by hand, older shapes, and headers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use super::*;
use crate::ErrorKind;

mod headers;
mod older;
mod table;

/// A log in memory, with the surface that its events leave.
#[derive(Default)]
struct Log {
    events: Vec<(Vec<u8>, Vec<u8>)>,
    surface: Surface,
    rules: Rules,
}

impl Log {
    fn raw() -> Self {
        Self { rules: Rules { shapes: false, ..Rules::default() }, ..Self::default() }
    }

    fn legacy() -> Self {
        Self { rules: Rules { legacy: true, ..Rules::default() }, ..Self::default() }
    }

    fn judge(
        &self,
        event_type: &str,
        data: &str,
        op: Option<SurfaceOp>,
        sources: Option<&[Seq]>,
    ) -> Result<Option<SurfacePlan>, Refusal> {
        let mut event = NewEvent::new(event_type, data.as_bytes());
        event.surface_op = op;
        event.sources = sources.map(Into::into);
        let candidate = Candidate::of_new(&event, self.events.len() as Seq);
        judge(&candidate, &self.rules, &self.surface, |seq| {
            let (old_type, old) = &self.events[seq as usize];
            Ok((old_type == TOOL_RESULT).then(|| old.clone()))
        })
    }

    fn add(
        &mut self,
        event_type: &str,
        data: &str,
        op: Option<SurfaceOp>,
        sources: Option<&[Seq]>,
    ) -> Result<(), Refusal> {
        if let Some(plan) = self.judge(event_type, data, op, sources)? {
            assert!(self.surface.apply(&plan));
        }
        self.events.push((event_type.into(), data.into()));
        Ok(())
    }

    fn nodes(&self) -> Vec<Seq> {
        self.surface.iter().collect()
    }
}

const APPEND: Option<SurfaceOp> = Some(SurfaceOp::Append);

fn replace(start: Seq, end: Seq) -> Option<SurfaceOp> {
    Some(SurfaceOp::Replace { start, end })
}

fn user(id: &str) -> String {
    format!(r#"{{"id":"{id}","role":"user","content":[],"source":{{"kind":"user"}}}}"#)
}

/// A tool result with `extra` members in the data and `block` members in its block.
fn result(extra: &str, block: &str, content: &str) -> String {
    format!(
        r#"{{"turn":1,"step":1{extra},"message":{{"id":"r","role":"user","source":{{"kind":"tool","callId":"c"}},"content":[{{"type":"tool-result","toolCallId":"c"{block},"content":[{content}]}}]}}}}"#
    )
}

fn refused(judged: Result<Option<SurfacePlan>, Refusal>) -> (String, String) {
    let refusal = judged.unwrap_err();
    let err = refusal.clone().into_error(7);
    let kind = if refusal.is_limit() { ErrorKind::Limit } else { ErrorKind::Invalid };
    assert_eq!((err.kind(), err.seq()), (kind, Some(7)), "{err}");
    assert_eq!(err.field(), Some(refusal.field()));
    (refusal.field().to_owned(), refusal.to_string())
}

#[test]
fn envelope_rules_name_their_field() {
    let log = Log::default();
    let judge = |event_type: &str, data: &str| log.judge(event_type, data, None, None);
    assert_eq!(refused(judge("", "1")).0, "type");
    assert_eq!(refused(judge(&"x".repeat(1025), "1")).0, "type");
    assert!(judge(&"x".repeat(1024), "1").unwrap().is_none());
    for data in
        ["", "{", "[1,]", "01", "NaN", "Infinity", "1n", "undefined", "{\"a\":1}{}", "\u{feff}1"]
    {
        assert_eq!(refused(judge("todo/write", data)).0, "data", "{data}");
    }
    for data in [
        "null",
        "-0",
        "1e999",
        " [ ]\n",
        "\"\\ud800\"",
        "12345678901234567890",
        "{\"__proto__\":1}",
    ] {
        assert!(judge("todo/write", data).unwrap().is_none(), "{data}");
    }
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert!(judge("x", &deep(limits::JSON_DEPTH_MAX)).is_ok());
    let (field, reason) = refused(judge("x", &deep(limits::JSON_DEPTH_MAX + 1)));
    assert_eq!(field, "data");
    assert!(reason.contains("4096"), "{reason}");
    let event = Candidate {
        seq: 0,
        time_ms: Some(-TIME_MAX),
        event_type: b"x",
        data: b"[1]",
        surface_op: None,
        sources: None,
    };
    let rules = Rules { data_bytes_max: 3, ..Rules::default() };
    let judge = |event: &Candidate<'_>| judge_alone(event, &rules);
    assert!(judge(&event).is_ok());
    assert_eq!(
        judge(&Candidate { time_ms: Some(-TIME_MAX - 1), ..event }).unwrap_err().field(),
        "time"
    );
    assert_eq!(
        judge(&Candidate { time_ms: Some(TIME_MAX + 1), ..event }).unwrap_err().field(),
        "time"
    );
    assert_eq!(judge(&Candidate { seq: 1 << 53, ..event }).unwrap_err().field(), "seq");
    assert_eq!(judge(&Candidate { event_type: b"\xff", ..event }).unwrap_err().field(), "type");
    assert!(judge(&Candidate { event_type: b"\xed\xa0\x80", ..event }).is_ok());
    let (field, reason) = refused(judge(&Candidate { data: b"[10]", ..event }));
    assert_eq!((field.as_str(), reason.contains("limit is 3")), ("data", true), "{reason}");
}

fn judge_alone(event: &Candidate<'_>, rules: &Rules) -> Result<Option<SurfacePlan>, Refusal> {
    judge(event, rules, &Surface::new(), |_| panic!("nothing to look up"))
}

#[test]
fn checked_data_is_not_checked_again() {
    let rules = Rules { data_checked: true, depth_max: 0, ..Rules::default() };
    let event = Candidate {
        seq: 0,
        time_ms: None,
        event_type: b"turn/start",
        data: b"{\"turn\":1}",
        surface_op: None,
        sources: None,
    };
    assert!(judge_alone(&event, &rules).is_ok());
    assert!(judge_alone(&Candidate { event_type: b"x", ..event }, &rules).is_ok());
    assert!(judge_alone(&event, &Rules { data_checked: false, ..rules }).is_err());
}

#[test]
fn retired_vocabulary_is_refused_under_every_option() {
    for mut log in [Log::default(), Log::raw(), Log::legacy()] {
        assert_eq!(refused(log.judge("request/header-delta", "{}", None, None)).0, "type");
        assert_eq!(refused(log.judge("mode/set", "1", None, None)).0, "type");
        let fallback =
            r#"{"header":{"config":{"provider":"p","model":"m"}},"reason":"fall\u0062ack"}"#;
        assert_eq!(refused(log.judge("request/header", fallback, None, None)).0, "data.reason");
        log.add("mode/other", "{}", None, None).unwrap();
    }
}

#[test]
fn turns_and_steps_want_objects() {
    for log in [Log::default(), Log::raw(), Log::legacy()] {
        for event_type in ["turn/start", "turn/end", "step/start", "step/end", "step/x"] {
            for data in ["null", "1", "[]", "\"{}\""] {
                assert_eq!(refused(log.judge(event_type, data, None, None)).0, "data");
            }
            assert!(log.judge(event_type, "{}", None, None).is_ok());
        }
        assert!(log.judge("turns", "null", None, None).is_ok());
    }
}

#[test]
fn marks_are_for_surface_events_only() {
    let log = Log::default();
    assert_eq!(refused(log.judge("user/message", &user("a"), None, None)).0, "surfaceOp");
    assert_eq!(refused(log.judge("tool/call", "{}", APPEND, None)).0, "surfaceOp");
    assert_eq!(refused(log.judge("tool/call", "{}", None, Some(&[]))).0, "sourceEventSeqs");
    assert_eq!(refused(log.judge("steering/message", "{}", APPEND, None)).0, "surfaceOp");
    assert!(log.judge("user/message", &user("a"), APPEND, None).unwrap().is_some());
}

#[test]
fn markers_in_json_have_one_form() {
    let parse = |text: &str| parse_surface_op(text.as_bytes());
    assert_eq!(parse("\"append\"").unwrap(), SurfaceOp::Append);
    let wanted = SurfaceOp::Replace { start: 7, end: 2 };
    assert_eq!(parse(r#"{"op":"replace","start":7,"end":2}"#).unwrap(), wanted);
    assert_eq!(
        parse(r#" { "end" : 2.0, "\u006fp":"repl\u0061ce","start":9,"start":7e0 } "#).unwrap(),
        wanted
    );
    for text in [
        "null",
        "[]",
        "\"prepend\"",
        "1",
        "true",
        "{}",
        r#"{"op":"replace","start":1}"#,
        r#"{"op":"replace","end":1}"#,
        r#"{"op":"append","start":1,"end":1}"#,
        r#"{"op":"replace","start":-1,"end":1}"#,
        r#"{"op":"replace","start":0.5,"end":1}"#,
        r#"{"op":"replace","start":0,"end":9007199254740992}"#,
        r#"{"op":"replace","start":"0","end":1}"#,
        r#"{"op":"replace","start":0,"end":1,"why":1}"#,
        r#"{"op":"replace","start":0,"end":null}"#,
        r#"{"start":0,"end":1}"#,
    ] {
        assert!(parse(text).unwrap_err().field().starts_with("surfaceOp"), "{text}");
    }
    assert_eq!(parse_sources(b" [3, 1.0 ,2]").unwrap(), [3, 1, 2]);
    assert!(parse_sources(b"[]").unwrap().is_empty());
    for text in
        ["null", "{}", "0", "[-1]", "[0.5]", "[\"1\"]", "[null]", "[9007199254740992]", "[[1]]"]
    {
        assert_eq!(
            parse_sources(text.as_bytes()).unwrap_err().field(),
            "sourceEventSeqs",
            "{text}"
        );
    }
}

#[test]
fn citations_follow_their_rules() {
    let mut log = Log::raw();
    for _ in 0..3 {
        log.add("user/message", "1", APPEND, None).unwrap();
    }
    let judge =
        |event_type: &str, op, sources: &[Seq]| log.judge(event_type, "1", op, Some(sources));
    assert!(matches!(judge("user/message", APPEND, &[]), Err(Refusal::SourcesEmpty)));
    assert!(matches!(judge("tool/result", APPEND, &[]), Err(Refusal::SourcesEmpty)));
    assert!(judge("assistant/message", APPEND, &[]).is_ok());
    assert!(judge("user/message", APPEND, &[2, 0, 1]).is_ok());
    assert!(matches!(
        judge("user/message", APPEND, &[2, 0, 2]),
        Err(Refusal::SourceTwice { source: 2 })
    ));
    assert!(matches!(
        judge("user/message", APPEND, &[0, 3]),
        Err(Refusal::SourceNotEarlier { source: 3 })
    ));
    assert!(matches!(
        judge("user/message", APPEND, &[9, 0]),
        Err(Refusal::SourceNotEarlier { source: 9 })
    ));
    assert!(judge("user/message", replace(0, 1), &[2, 1, 0]).is_ok());
    let Err(Refusal::SourceMissing { named, count }) = judge("user/message", replace(0, 2), &[1])
    else {
        panic!("a gap was accepted")
    };
    assert_eq!((named, count), (vec![0, 2], 2));
    // Nothing cited covers nothing, also where an empty list is allowed.
    assert!(matches!(
        judge("assistant/message", replace(0, 0), &[]),
        Err(Refusal::SourceMissing { .. })
    ));
    let absent = log.judge("user/message", "1", replace(0, 2), None).unwrap_err();
    assert!(absent.to_string().ends_with("3 missing: 0 1 2"), "{absent}");
    // The range is judged before the citations.
    assert!(matches!(judge("user/message", replace(0, 9), &[]), Err(Refusal::Surface(_))));
}

#[test]
fn a_long_list_of_citations_is_quick_in_any_order() {
    const COUNT: Seq = 300_000;
    let surface = Surface::restore(0..COUNT, 0, COUNT).unwrap();
    let rules = Rules { shapes: false, ..Rules::default() };
    let shuffled: Vec<Seq> = (0..COUNT).map(|k| k * 7_919 % COUNT).collect();
    let begun = std::time::Instant::now();
    let judge_sources = |sources: &[Seq]| {
        let event = Candidate {
            seq: COUNT,
            time_ms: None,
            event_type: USER_MESSAGE,
            data: b"1",
            surface_op: replace(0, COUNT - 1),
            sources: Some(sources),
        };
        judge(&event, &rules, &surface, |_| panic!("nothing to look up"))
    };
    assert!(judge_sources(&shuffled).is_ok());
    assert!(judge_sources(&(0..COUNT).collect::<Vec<_>>()).is_ok());
    assert!(judge_sources(&(0..COUNT).rev().collect::<Vec<_>>()).is_ok());
    let mut twice = shuffled.clone();
    twice[17] = twice[250_000];
    assert!(matches!(judge_sources(&twice), Err(Refusal::SourceTwice { .. })));
    let missing = judge_sources(&shuffled[..1000]).unwrap_err().to_string();
    assert!(missing.len() < 200 && missing.contains("299000 missing"), "{missing}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(10));
}

#[test]
fn user_and_assistant_messages_have_their_shape() {
    let log = Log::default();
    let good = r#"{"id":"a","role":"user","content":[1,null],"source":{"kind":"user"}}"#;
    let model = r#"{"turn":1,"message":{"id":"a","role":"assistant","content":[],"source":{"kind":"model","provider":"p","model":"m"}}}"#;
    let cases = [
        (
            "user/message",
            good,
            vec![
                ("{\"id\":\"a\"", "{\"id\":\"\"", "data.id"),
                ("\"id\":\"a\",", "", "data.id"),
                ("\"id\":\"a\"", "\"id\":1", "data.id"),
                ("\"role\":\"user\"", "\"role\":\"assistant\"", "data.role"),
                ("\"role\":\"user\"", "\"role\":null", "data.role"),
                ("[1,null]", "\"hi\"", "data.content"),
                ("\"content\":[1,null],", "", "data.content"),
                ("{\"kind\":\"user\"}", "null", "data.source"),
                ("{\"kind\":\"user\"}", "[]", "data.source"),
                ("{\"kind\":\"user\"}", "{}", "data.source.kind"),
                ("{\"kind\":\"user\"}", "{\"kind\":\"\"}", "data.source.kind"),
                (good, "null", "data"),
                (good, "[]", "data"),
                ("\"id\":\"a\"", "\"id\":\"a\",\"id\":2", "data.id"),
            ],
        ),
        (
            "assistant/message",
            model,
            vec![
                ("\"role\":\"assistant\"", "\"role\":\"user\"", "data.message.role"),
                ("\"kind\":\"model\"", "\"kind\":\"x\"", "data.message.source.kind"),
                ("\"provider\":\"p\"", "\"provider\":\"\"", "data.message.source.provider"),
                (",\"model\":\"m\"", "", "data.message.source.model"),
                ("\"content\":[]", "\"content\":{}", "data.message.content"),
                ("\"message\"", "\"massage\"", "data.message"),
                (model, "1", "data.message"),
            ],
        ),
    ];
    for (event_type, good, breaks) in cases {
        assert!(log.judge(event_type, good, APPEND, None).is_ok(), "{good}");
        for (from, to, field) in breaks {
            let bad = good.replace(from, to);
            assert_eq!(refused(log.judge(event_type, &bad, APPEND, None)).0, field, "{bad}");
            assert!(Log::raw().judge(event_type, &bad, APPEND, None).is_ok(), "{bad}");
        }
    }
}

#[test]
fn tool_results_have_one_block_of_their_call() {
    let log = Log::default();
    let good = result("", "", "1");
    assert!(log.judge("tool/result", &good, APPEND, None).is_ok());
    let escaped = good.replace("\"callId\":\"c\"", "\"callId\":\"\\u0063\"");
    assert!(log.judge("tool/result", &escaped, APPEND, None).is_ok());
    for (from, to, field) in [
        ("\"kind\":\"tool\"", "\"kind\":\"model\"", "data.message.source.kind"),
        ("\"callId\":\"c\"", "\"callId\":\"\"", "data.message.source.callId"),
        ("\"callId\":\"c\"", "\"callId\":\"d\"", "data.message.content[0].toolCallId"),
        ("tool-result", "text", "data.message.content[0].type"),
        ("\"content\":[1]", "\"content\":1", "data.message.content[0].content"),
        ("[1]}]", "[1]},{}]", "data.message.content"),
        (
            "\"content\":[{\"type\":\"tool-result\",\"toolCallId\":\"c\",\"content\":[1]}]",
            "\"content\":[]",
            "data.message.content",
        ),
        (
            "\"content\":[{\"type\":\"tool-result\",\"toolCallId\":\"c\",\"content\":[1]}]",
            "\"content\":[3]",
            "data.message.content[0]",
        ),
        ("\"role\":\"user\"", "\"role\":\"tool\"", "data.message.role"),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good);
        assert_eq!(refused(log.judge("tool/result", &bad, APPEND, None)).0, field, "{bad}");
    }
}

#[test]
fn request_headers_have_their_shape() {
    let log = Log::default();
    let header = |header: &str| {
        log.judge(
            "request/header",
            &format!("{{\"reason\":\"initial\",\"header\":{header}}}"),
            None,
            None,
        )
    };
    let config = r#""config":{"provider":"p","model":"m","maxTokens":5}"#;
    for good in [
        format!("{{{config}}}"),
        format!("{{{config},\"adapterDefaults\":{{}}}}"),
        format!("{{{config},\"adapterDefaults\":{{\"maxTokens\":true}},\"tools\":null}}"),
        r#"{"config":{"provider":"p","model":"m","reasoningEffort":"high"}}"#.to_owned(),
    ] {
        assert!(header(&good).is_ok(), "{good}");
    }
    for (bad, field) in [
        ("null".to_owned(), "data.header"),
        ("{}".to_owned(), "data.header.config"),
        (r#"{"config":{"model":"m"}}"#.to_owned(), "data.header.config.provider"),
        (r#"{"config":{"provider":"p","model":""}}"#.to_owned(), "data.header.config.model"),
        (
            r#"{"config":{"provider":"p","model":"m","reasoningEffort":""}}"#.to_owned(),
            "data.header.config.reasoningEffort",
        ),
        (
            r#"{"config":{"provider":"p","model":"m","reasoningEffort":null}}"#.to_owned(),
            "data.header.config.reasoningEffort",
        ),
        (format!("{{{config},\"adapterDefaults\":null}}"), "data.header.adapterDefaults"),
        (
            format!("{{{config},\"adapterDefaults\":{{\"maxTokens\":false}}}}"),
            "data.header.adapterDefaults",
        ),
        (
            format!("{{{config},\"adapterDefaults\":{{\"reasoningEffort\":true}}}}"),
            "data.header.adapterDefaults",
        ),
        (
            format!("{{{config},\"adapterDefaults\":{{\"model\":true}}}}"),
            "data.header.adapterDefaults",
        ),
    ] {
        assert_eq!(refused(header(&bad)).0, field, "{bad}");
    }
    assert_eq!(refused(log.judge("request/header", "{}", None, None)).0, "data.header");
    assert!(Log::raw().judge("request/header", "{}", None, None).is_ok());
}

#[test]
fn a_replaced_result_may_change_its_content_only() {
    for mut log in [Log::default(), Log::raw()] {
        log.add("user/message", &user("u"), APPEND, None).unwrap();
        let meta = r#","meta":{"a":[1,{"b":2}],"c":1.0},"error":{"name":"E"}"#;
        let flag = r#","isError":true"#;
        log.add("tool/result", &result(meta, flag, "1"), APPEND, None).unwrap();
        let judge =
            |data: &str, op, sources: &[Seq]| log.judge("tool/result", data, op, Some(sources));
        let other_spelling = r#" , "error":{ "name":"\u0045" },"meta":{"c":1,"a":[1,{"b":2}]}"#;
        for same in
            [result(meta, flag, "2,3"), result(other_spelling, flag, ""), result(meta, flag, "1")]
        {
            assert!(judge(&same, replace(1, 1), &[1]).is_ok(), "{same}");
        }
        let good = result(meta, flag, "2");
        for (bad, part) in [
            (result("", flag, "2"), "data"),
            (result(&meta.replace("[1,{\"b\":2}]", "[{\"b\":2},1]"), flag, "2"), "data"),
            (good.replace("\"step\":1", "\"step\":2"), "data"),
            (good.replace("\"id\":\"r\"", "\"id\":\"s\""), "data.message"),
            (good.replace("\"c\"", "\"d\"").replace("\"d\":1", "\"c\":1"), "data"),
            (result(meta, "", "2"), "data.message.content[0]"),
            (result(meta, &flag.replace("true", "false"), "2"), "data.message.content[0]"),
        ] {
            let refusal = judge(&bad, replace(1, 1), &[1]).unwrap_err();
            let Refusal::ResultChanged { target: 1, field } = refusal else {
                panic!("{refusal:?}")
            };
            assert_eq!(
                field,
                if bad.contains("\"callId\":\"d\"") { "data.message" } else { part },
                "{bad}"
            );
        }
        assert!(matches!(
            judge(&good, replace(0, 1), &[0, 1]),
            Err(Refusal::ResultRange { count: 2 })
        ));
        assert!(matches!(
            judge(&good, replace(0, 0), &[0]),
            Err(Refusal::ResultTarget { target: 0 })
        ));
        // Another surface type may replace a result by anything.
        assert!(log.judge("user/message", &user("x"), replace(0, 1), Some(&[0, 1])).is_ok());
    }
}

#[test]
fn a_failed_lookup_is_the_error_of_the_lookup() {
    let surface = Surface::restore([0], 0, 1).unwrap();
    let data = result("", "", "");
    let event = Candidate {
        seq: 1,
        time_ms: None,
        event_type: TOOL_RESULT,
        data: data.as_bytes(),
        surface_op: replace(0, 0),
        sources: Some(&[0]),
    };
    let lost = judge(&event, &Rules::default(), &surface, |_| Err(crate::Error::corrupt("a hole")));
    assert_eq!(lost.unwrap_err().into_error(1).kind(), ErrorKind::Corrupt);
}
