//! Tests of older shapes: what converts, what only looks like it, and results that replace older ones.
//!
//! Each conversion is judged twice, as written and as converted.

use proptest::prelude::*;

use super::*;

const OLD_RESULT: &str =
    r#"{"turn":1,"step":1,"callId":"c","content":[1],"isError":false,"meta":3}"#;

/// Older events with what they become, for the id `i`.
const OLD: [(&str, &str, &str); 14] = [
    ("turn/start", r#"{"turn":1,"trigger":{"kind":"user"}}"#, r#"{"turn":1}"#),
    (
        "turn/end",
        r#"{"turn":1,"reason":{"kind":"aborted"}}"#,
        r#"{"turn":1,"reason":{"kind":"aborted","reason":{"kind":"legacy"}}}"#,
    ),
    (
        "turn/end",
        r#"{"reason":{"kind":"disposed"},"turn":2}"#,
        r#"{"reason":{"kind":"aborted","reason":{"kind":"disposed"}},"turn":2}"#,
    ),
    (
        "turn/end",
        r#"{"turn":3,"reason":{"kind":"error","step":1,"message":"boom","code":"X"}}"#,
        r#"{"turn":3,"reason":{"kind":"error","error":{"message":"boom","code":"X"}}}"#,
    ),
    (
        "turn/end",
        r#"{"turn":3,"reason":{"kind":"error","step":1,"message":"boom"}}"#,
        r#"{"turn":3,"reason":{"kind":"error","error":{"message":"boom","code":"UNKNOWN"}}}"#,
    ),
    (
        "turn/end",
        r#"{"turn":4,"reason":{"kind":"error","step":1,"failure":{"message":"m","code":"C","status":500}}}"#,
        r#"{"turn":4,"reason":{"kind":"error","error":{"message":"m","code":"C","status":500}}}"#,
    ),
    (
        "steering/message",
        r#"{"turn":1,"message":{"id":"a","role":"user","content":[],"source":{"kind":"user"}}}"#,
        r#"{"id":"a","role":"user","content":[],"source":{"kind":"user"}}"#,
    ),
    (
        "steering/message",
        r#"{"turn":1,"content":[1],"source":{"kind":"user"}}"#,
        r#"{"content":[1],"source":{"kind":"user"},"id":"i","role":"user"}"#,
    ),
    (
        "user/message",
        r#"{"content":[1],"source":{"kind":"user"}}"#,
        r#"{"content":[1],"source":{"kind":"user"},"id":"i","role":"user"}"#,
    ),
    (
        "assistant/message",
        r#"{"turn":1,"step":1,"content":[1],"provenance":{"provider":"p","model":"m"},"usage":{}}"#,
        r#"{"turn":1,"step":1,"message":{"id":"i","role":"assistant","content":[1],"source":{"provider":"p","model":"m","kind":"model"}},"usage":{}}"#,
    ),
    (
        "tool/result",
        OLD_RESULT,
        r#"{"turn":1,"step":1,"message":{"id":"i","role":"user","content":[{"type":"tool-result","toolCallId":"c","content":[1],"isError":false}],"source":{"kind":"tool","callId":"c"}},"meta":3}"#,
    ),
    (
        "user/message",
        r#"{ "source" :{"kind":"user"}, "c\u006fntent":[ 1 ] }"#,
        r#"{"source":{"kind":"user"},"c\u006fntent":[ 1 ],"id":"i","role":"user"}"#,
    ),
    (
        "turn/end",
        r#"{"reason":1,"turn":1,"reason":{"kind":"disposed"}}"#,
        r#"{"reason":{"kind":"aborted","reason":{"kind":"disposed"}},"turn":1,"reason":{"kind":"aborted","reason":{"kind":"disposed"}}}"#,
    ),
    (
        "assistant/message",
        r#"{"content":[],"provenance":{"kind":"x","model":"m","provider":"p"}}"#,
        r#"{"message":{"id":"i","role":"assistant","content":[],"source":{"model":"m","provider":"p","kind":"model"}}}"#,
    ),
];

#[test]
fn older_shapes_convert_and_pass_as_converted() {
    for (event_type, old, new) in OLD {
        let modern = modernise(event_type.as_bytes(), old.as_bytes(), b"i").unwrap().expect(old);
        assert_eq!(String::from_utf8(modern.data).unwrap(), new);
        let today = if event_type == "steering/message" { "user/message" } else { event_type };
        assert_eq!(modern.event_type, today.as_bytes());
        assert_eq!(modernise(modern.event_type, new.as_bytes(), b"i").unwrap(), None, "{new}");
        let surface =
            matches!(Class::of(today.as_bytes()), Class::User | Class::Assistant | Class::Result);
        let op = surface.then_some(SurfaceOp::Append);
        assert!(Log::legacy().judge(event_type, old, op, None).is_ok(), "{old}");
        assert!(Log::legacy().judge(today, new, op, None).is_ok(), "{new}");
        // Without the option a message of an older shape is one of a wrong shape.
        assert_eq!(Log::default().judge(event_type, old, op, None).is_ok(), !surface, "{old}");
    }
    assert_eq!(minted_id(b"s-7", 12), b"legacy-message:s-7:12");
}

#[test]
fn what_only_looks_older_is_refused() {
    for (event_type, data, op) in [
        ("turn/start", r#"{"turn":1,"trigger":1}"#, None),
        ("turn/start", r#"{"turn":1,"trigger":{}}"#, None),
        ("turn/start", r#"{"trigger":{"kind":"user"}}"#, None),
        ("turn/end", r#"{"reason":{"kind":"error","step":1}}"#, None),
        ("turn/end", r#"{"reason":{"kind":"error","step":1,"failure":"x"}}"#, None),
        ("turn/end", r#"{"reason":{"kind":"error","step":1,"message":1}}"#, None),
        ("turn/end", r#"{"reason":{"kind":"error","step":1,"message":"m","code":1}}"#, None),
        ("turn/end", r#"{"reason":{"kind":"error","message":"m"}}"#, None),
        ("steering/message", r#"{"turn":1}"#, APPEND),
        ("steering/message", r#"{"turn":1,"message":"m"}"#, APPEND),
        ("steering/message", r#"{"content":[],"source":{"kind":"user"}}"#, APPEND),
        ("steering/message", r#"{"turn":1,"content":[],"source":{"kind":"user"}}"#, None),
        ("steering/message", r#"{"turn":1,"content":1,"source":{"kind":"user"}}"#, APPEND),
        ("user/message", r#"{"content":"x","source":{"kind":"user"}}"#, APPEND),
        ("user/message", r#"{"content":[]}"#, APPEND),
        ("user/message", r#"{"message":{},"content":[],"source":{"kind":"user"}}"#, APPEND),
        ("user/message", r#"{"role":"user","content":[],"source":{"kind":"user"}}"#, APPEND),
        ("assistant/message", r#"{"content":[],"provenance":1}"#, APPEND),
        ("assistant/message", r#"{"provenance":{"provider":"p","model":"m"}}"#, APPEND),
        ("assistant/message", r#"{"content":[],"provenance":{"provider":"p"}}"#, APPEND),
        ("assistant/message", r#"{"content":[]}"#, APPEND),
        ("tool/result", r#"{"callId":"c","content":[]}"#, APPEND),
        ("tool/result", r#"{"callId":"c","isError":true}"#, APPEND),
        ("tool/result", r#"{"callId":"","content":[],"isError":true}"#, APPEND),
        ("tool/result", r#"{"callId":"c","content":1,"isError":true}"#, APPEND),
        ("tool/result", r#"{"callId":"c","content":[],"isError":0}"#, APPEND),
    ] {
        assert!(Log::legacy().judge(event_type, data, op, None).is_err(), "{event_type} {data}");
    }
    for data in [
        r#"{"reason":{"kind":"error"}}"#,
        r#"{"reason":{"kind":"new","x":1}}"#,
        r#"{"reason":1}"#,
        "{}",
    ] {
        assert!(Log::legacy().judge("turn/end", data, None, None).is_ok(), "{data}");
        assert_eq!(modernise(b"turn/end", data.as_bytes(), b"i").unwrap(), None);
    }
}

#[test]
fn an_older_result_inherits_the_id_of_the_one_it_replaces() {
    let modern = r#"{"turn":1,"step":1,"message":{"id":"ID","role":"user","content":[{"type":"tool-result","toolCallId":"c","content":[2],"isError":false}],"source":{"kind":"tool","callId":"c"}},"meta":3}"#;
    let minted = modern.replace("ID", "legacy-message:s:0");
    let shorter = OLD_RESULT.replace("[1]", "[]");
    for mut log in
        [Log::legacy(), Log { rules: Rules { legacy: true, ..Log::raw().rules }, ..Log::default() }]
    {
        log.add("tool/result", OLD_RESULT, APPEND, None).unwrap();
        let judge = |data: &str| log.judge("tool/result", data, replace(0, 0), Some(&[0]));
        assert!(judge(&shorter).is_ok());
        assert!(judge(&minted).is_ok());
        assert!(judge(modern).is_err());
        assert!(judge(&shorter.replace("\"c\"", "\"d\"")).is_err());
        assert!(judge(&shorter.replace("false", "true")).is_err());
        log.add("tool/result", &minted, replace(0, 0), Some(&[0])).unwrap();
        log.add("tool/result", &shorter, replace(1, 1), Some(&[1])).unwrap();
        assert_eq!(log.nodes(), [2]);
    }
    // Written raw without the option, equal older results still replace each other.
    let mut log = Log::raw();
    log.add("tool/result", OLD_RESULT, APPEND, None).unwrap();
    assert!(log.judge("tool/result", &shorter, replace(0, 0), Some(&[0])).is_ok());
    // An imported older result may be pruned by an event of today.
    let mut log = Log::legacy();
    log.add("tool/result", OLD_RESULT, APPEND, None).unwrap();
    log.rules.legacy = false;
    assert!(log.judge("tool/result", &minted, replace(0, 0), Some(&[0])).is_ok());
    assert!(log.judge("tool/result", &shorter, replace(0, 0), Some(&[0])).is_err());
}

/// Data made of the keys and values that the rules look at, in any combination.
fn arb_data() -> impl Strategy<Value = String> {
    let keys = prop::sample::select(vec![
        "id",
        "role",
        "source",
        "content",
        "message",
        "provenance",
        "callId",
        "isError",
        "turn",
        "trigger",
        "reason",
        "kind",
        "failure",
        "step",
        "code",
        "provider",
        "model",
        "type",
        "toolCallId",
        "error",
        "x",
    ]);
    let leaf = prop::sample::select(vec![
        "1",
        "\"\"",
        "\"c\"",
        "\"user\"",
        "\"assistant\"",
        "\"model\"",
        "\"tool\"",
        "\"error\"",
        "\"aborted\"",
        "\"disposed\"",
        "\"tool-result\"",
        "null",
        "true",
        "[]",
        "{}",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 40, 7, move |inner| {
        let object =
            prop::collection::vec((keys.clone(), inner.clone()), 0..7).prop_map(|members| {
                let members: Vec<_> =
                    members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            });
        prop_oneof![4 => object, 1 => inner.prop_map(|value| format!("[{value}]"))]
    })
}

proptest! {
    #[test]
    fn an_older_event_is_judged_as_its_conversion(
        event_type in prop::sample::select(vec![
            "user/message", "assistant/message", "tool/result", "steering/message", "turn/start", "turn/end",
            "request/header",
        ]),
        data in arb_data(),
    ) {
        let log = Log::legacy();
        let today = if event_type == "steering/message" { "user/message" } else { event_type };
        let op = today.ends_with("message") || today.ends_with("result");
        let op = op.then_some(SurfaceOp::Append);
        let written = log.judge(event_type, &data, op, None).is_ok();
        match modernise(event_type.as_bytes(), data.as_bytes(), b"i") {
            Err(_) => prop_assert!(!written),
            Ok(None) => {
                prop_assert_eq!(written, Log::default().judge(event_type, &data, op, None).is_ok());
            }
            Ok(Some(modern)) => {
                prop_assert_eq!(json::check(&modern.data, limits::JSON_DEPTH_MAX), Ok(()));
                let text = String::from_utf8(modern.data).unwrap();
                prop_assert_eq!(written, Log::default().judge(today, &text, op, None).is_ok());
            }
        }
    }
}
