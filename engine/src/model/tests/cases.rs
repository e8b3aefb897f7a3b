//! Single shapes: closers, statistics and token figures at their edges, older events as converted.

use super::event;
use super::twin::counted;
use crate::error::{ErrorKind, Result};
use crate::event::{Event, SurfaceOp};
use crate::model::stats::StatsFold;
use crate::model::{Closers, ContextFold, History, View, message_in, modern};
use crate::types::{Seq, SessionId};

const APPEND: Option<SurfaceOp> = Some(SurfaceOp::Append);

fn none(_: Seq) -> Result<Event> {
    panic!("no earlier event is needed")
}

/// Events of these types and data, one millisecond after the other.
fn log(rows: &[(&str, &str)]) -> Vec<Event> {
    let op = |t: &str| matches!(t, "user/message" | "assistant/message" | "tool/result");
    let rows = rows.iter().enumerate();
    rows.map(|(i, (t, d))| event(i as Seq, i as i64, t, d, if op(t) { APPEND } else { None }))
        .collect()
}

fn closers(rows: &[(&str, &str)]) -> Vec<Event> {
    let mut fold = Closers::default();
    for e in log(rows) {
        fold.apply(e.seq, e.time_ms, &modern(&e.as_ref(), b"s", &mut none).unwrap());
    }
    fold.events()
}

const TURN: (&str, &str) = ("turn/start", r#"{"turn":1}"#);
const STEP: (&str, &str) = ("step/start", r#"{"turn":1,"step":1}"#);
const STEP_END: (&str, &str) = ("step/end", r#"{"turn":1,"step":1}"#);
const END: (&str, &str) = ("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#);
const CALLS_C1: (&str, &str) = (
    "assistant/message",
    r#"{"turn":1,"step":1,"message":{"content":[{"type":"tool-call","id":"c1"},{"type":"text"},null,{"type":"tool-call","id":7}]}}"#,
);
const CALL_C1: (&str, &str) = ("tool/call", r#"{"turn":1,"step":1,"callId":"c1"}"#);
const NOTE: (&str, &str) = ("session/title", "{}");

#[test]
fn t50_t58_what_is_balanced_has_no_closers() {
    for rows in [&[][..], &[NOTE], &[TURN, STEP, STEP_END, END], &[TURN, END, NOTE, NOTE]] {
        assert_eq!(closers(rows), []);
    }
    // A turn without its number has none to close.
    assert_eq!(closers(&[("turn/start", "{}")]), []);
}

#[test]
fn t51_an_open_turn_is_ended_and_before_it_the_open_step() {
    let made = closers(&[TURN]);
    assert_eq!((made.len(), made[0].seq, made[0].time_ms), (1, 1, 0));
    assert_eq!(&*made[0].data, br#"{"turn":1,"reason":{"kind":"interrupted"}}"#);
    let made = closers(&[TURN, STEP, NOTE]);
    assert_eq!((&*made[0].event_type, &*made[1].event_type), (&b"step/end"[..], &b"turn/end"[..]));
    assert_eq!((made[0].seq, made[1].seq, made[1].time_ms), (3, 4, 2));
    assert_eq!(&*made[0].data, br#"{"turn":1,"step":1}"#);
}

#[test]
fn t52_t55_t56_calls_are_answered_by_what_is_known_of_them() {
    let made = closers(&[TURN, STEP, CALLS_C1]);
    assert_eq!(made[0].sources, None);
    let text = String::from_utf8_lossy(&made[0].data);
    let start = r#"{"turn":1,"step":1,"message":{"id":"interrupted-tool-result-c1-3","role":"user","source":{"kind":"tool","callId":"c1"},"content":[{"type":"tool-result","toolCallId":"c1","isError":true,"content":[{"type":"text","text":""#;
    assert!(text.starts_with(start), "{text}");
    assert!(
        text.ends_with(
            r#"}]}]},"error":{"name":"ToolNotStartedError","code":"TOOL_NOT_STARTED"}}"#
        )
    );
    let made = closers(&[TURN, STEP, CALLS_C1, CALL_C1]);
    assert_eq!((made[0].sources.as_deref(), made[0].surface_op), (Some(&[3][..]), APPEND));
    assert!(String::from_utf8_lossy(&made[0].data).contains("TOOL_OUTCOME_UNKNOWN"));
    // Announced again, a call has not begun.
    let made = closers(&[TURN, STEP, CALLS_C1, CALL_C1, CALLS_C1]);
    assert_eq!(made[0].sources, None);
    // A call that no message announced is not answered.
    assert_eq!(counted(&closers(&[TURN, STEP, CALL_C1])).get("tool/result"), None);
}

#[test]
fn t54_t59_ended_steps_and_compactions_are_left() {
    let made = closers(&[TURN, STEP, CALLS_C1, CALL_C1, STEP_END]);
    assert_eq!(counted(&made), [("turn/end".to_owned(), 1)].into());
    let made = closers(&[TURN, ("compaction/start", r#"{"compactionId":"k","turn":1}"#)]);
    assert_eq!(made.len(), 1);
}

fn stats(rows: &[(&str, i64, &str)]) -> crate::Stats {
    let mut fold = StatsFold::default();
    for (i, (t, time, d)) in rows.iter().enumerate() {
        fold.apply(*time, &View::plain(&event(i as Seq, *time, t, d, None)));
    }
    fold.stats()
}

const M: &str = r#"{"turn":1,"step":1,"message":{"content":[]},"usage":{"outputTokens":8}}"#;
const TEXT: &str = r#"{"turn":1,"step":1,"chunk":{"type":"text-delta","text":"x"}}"#;

#[test]
fn t131_t133_t134_steps_are_timed_as_they_went() {
    let s = stats(&[
        ("step/start", 10, STEP.1),
        ("assistant/chunk", 14, TEXT),
        ("llm/retry", 15, "{}"),
        ("assistant/chunk", 30, TEXT),
        ("assistant/message", 40, M),
        ("assistant/message", 90, M),
        ("step/end", 91, STEP_END.1),
    ]);
    assert_eq!((s.llm_ms, s.ttft_ms, s.ttft_steps, s.decode_ms), (30, 4, 1, 26));
    assert_eq!((s.decode_tokens, s.tokens.output, s.steps, s.turns), (8.0, 8.0, 1, 1));
    let back = stats(&[
        ("step/start", 10, STEP.1),
        ("assistant/chunk", 4, TEXT),
        ("assistant/message", 2, M),
    ]);
    assert_eq!((back.llm_ms, back.ttft_ms, back.decode_ms, back.ttft_steps), (0, 0, 0, 1));
    let cancelled = stats(&[("step/start", 10, STEP.1), ("step/end", 99, STEP_END.1)]);
    assert_eq!((cancelled.steps, cancelled.llm_ms), (1, 0));
    let invalid = M.replace('8', "-1");
    let s = stats(&[
        ("step/start", 0, STEP.1),
        ("assistant/chunk", 1, TEXT),
        ("assistant/message", 2, &invalid),
    ]);
    assert_eq!((s.ttft_steps, s.decode_ms, s.decode_tokens), (1, 0, 0.0));
}

#[test]
fn t132_only_tokens_of_the_open_step_are_first() {
    for (chunk, counts) in [
        (r#"{"type":"text-delta","text":""}"#, 0),
        (r#"{"type":"usage","usage":{}}"#, 0),
        (r#"{"type":"finish","reason":{"kind":"stop"}}"#, 0),
        (r#"{"type":"tool-call-delta","argumentsDelta":""}"#, 0),
        (r#"{"type":"tool-call-delta","argumentsDelta":"","name":""}"#, 1),
        (r#"{"type":"tool-call-delta","argumentsDelta":"{"}"#, 1),
        (r#"{"type":"reasoning-delta","text":"a"}"#, 1),
    ] {
        let data = format!("{{\"turn\":1,\"step\":1.0,\"chunk\":{chunk}}}");
        let rows = [
            ("step/start", 0, STEP.1),
            ("assistant/chunk", 1, &*data),
            ("assistant/message", 2, M),
        ];
        assert_eq!(stats(&rows).ttft_steps, counts, "{chunk}");
        let other = data.replace("\"turn\":1", "\"turn\":2");
        let rows = [rows[0], ("assistant/chunk", 1, &*other), rows[2]];
        assert_eq!(stats(&rows).ttft_steps, 0, "{chunk}");
    }
}

#[test]
fn t135_t136_results_and_samples_pair_up() {
    let result = r#"{"message":{"source":{"callId":"c1"}}}"#;
    let s = stats(&[
        ("tool/result", 1, result),
        ("tool/call", 5, CALL_C1.1),
        ("tool/result", 9, result),
        ("tool/result", 20, result),
        ("tool/call", 30, CALL_C1.1),
        ("turn/end", 31, END.1),
        ("tool/result", 99, result),
    ]);
    assert_eq!((s.tool_ms, s.tool_calls), (4, 2));
    let usage = r#"{"turn":1,"step":1,"chunk":{"type":"usage","usage":{"inputTokens":5,"outputTokens":6}}}"#;
    assert_eq!(
        stats(&[("assistant/chunk", 0, usage), ("assistant/message", 1, M)]).tokens.output,
        8.0
    );
    let next = usage.replace("\"step\":1", "\"step\":2");
    let s = stats(&[("assistant/message", 1, M), ("assistant/chunk", 2, &next)]);
    assert_eq!((s.tokens.output, s.tokens.input), (14.0, 5.0));
}

#[test]
fn t137_context_figures_follow_samples_claims_and_the_surface() {
    let mut fold = ContextFold::default();
    let mut seq = 0;
    let mut apply = |fold: &mut ContextFold, t: &str, d: &str, op| {
        let e = event(seq, 0, t, d, op);
        seq += 1;
        fold.apply(e.seq, op, &View::plain(&e))
    };
    let text = r#"{"content":[{"type":"text","text":"12345678"}]}"#;
    apply(&mut fold, "request/context", r#"{"contextWindow":1000}"#, None).unwrap();
    apply(&mut fold, "user/message", text, APPEND).unwrap();
    assert_eq!((fold.figures().message_tokens, fold.figures().projected_tokens), (10.0, None));
    let sampled = r#"{"message":{"content":[{"type":"text","text":""}]},"usage":{"inputTokens":70,"cacheReadTokens":30}}"#;
    apply(&mut fold, "assistant/message", sampled, APPEND).unwrap();
    let f = fold.figures();
    assert_eq!((f.pressure_tokens, f.projected_tokens), (Some(100.0), Some(108.0)));
    assert_eq!((f.message_tokens, f.context_window), (18.0, Some(1000.0)));
    // A replacement right behind its compaction takes away what that claims.
    let claim = r#"{"shadowedRange":{"start":1,"end":2},"shadowedTokenCount":18}"#;
    let op = Some(SurfaceOp::Replace { start: 1, end: 2 });
    apply(&mut fold, "compaction/summary", claim, None).unwrap();
    apply(&mut fold, "user/message", text, op).unwrap();
    assert_eq!(fold.figures().message_tokens, 10.0);
    // Without one, or with something in between, it counts as nothing.
    apply(&mut fold, "compaction/summary", claim, None).unwrap();
    apply(&mut fold, "session/title", "{}", None).unwrap();
    apply(&mut fold, "user/message", text, op).unwrap();
    assert_eq!(fold.figures().message_tokens, 10.0);
    apply(&mut fold, "compaction/prune", claim, None).unwrap();
    let wrong = Some(SurfaceOp::Replace { start: 1, end: 1 });
    let refused = apply(&mut fold, "user/message", text, wrong).unwrap_err();
    assert_eq!((refused.kind(), refused.seq()), (ErrorKind::Invalid, Some(9)));
    apply(&mut fold, "request/context", "{}", None).unwrap();
    let header = r#"{"header":{"system":"12345","tools":[{}]}}"#;
    apply(&mut fold, "request/header", header, None).unwrap();
    let f = fold.figures();
    assert_eq!((f.context_window, f.system_tokens, f.tools_tokens), (None, 6.0, 5.0));
}

#[test]
fn t115_older_shapes_are_read_as_converted() {
    let old = r#"{"turn":1,"step":1,"callId":"c","content":[],"isError":false}"#;
    let mut events = vec![event(0, 0, "tool/result", old, APPEND)];
    for n in 1..5_000 {
        let op = Some(SurfaceOp::Replace { start: n - 1, end: n - 1 });
        events.push(event(n, 0, "tool/result", old, op));
    }
    let mut history = History::new(&SessionId::new("s").unwrap());
    let last = events.last().unwrap().clone();
    let text = |e: &Event| {
        let view = modern(&e.as_ref(), b"s", &mut |seq| Ok(events[seq as usize].clone())).unwrap();
        String::from_utf8_lossy(message_in(view.event_type, &view.data).unwrap()).into_owned()
    };
    // The id is that of the first result, whatever the length of the chain.
    assert!(text(&last).starts_with(r#"{"id":"legacy-message:s:0","role":"user","content":[{"type":"tool-result","toolCallId":"c""#));
    let steering = event(
        0,
        0,
        "steering/message",
        r#"{"turn":1,"content":[],"source":{"kind":"user"}}"#,
        APPEND,
    );
    history.apply(&steering.as_ref(), &mut none).unwrap();
    let said = history.messages();
    let want = r#"{"content":[],"source":{"kind":"user"},"id":"legacy-message:s:0","role":"user"}"#;
    assert_eq!(String::from_utf8_lossy(&said[0]), want);
    let broken = event(1, 0, "turn/start", r#"{"turn":1,"trigger":7}"#, None);
    let refused = modern(&broken.as_ref(), b"s", &mut none).unwrap_err();
    assert_eq!((refused.kind(), refused.seq()), (ErrorKind::Invalid, Some(1)));
}

#[test]
fn t22_t23_unknown_types_stop_a_history_unless_they_say_otherwise() {
    let mut history = History::new(&SessionId::new("s").unwrap());
    let mut unknown = event(4, 0, "fut\u{202e}ure", "{}", None);
    let refused = history.apply(&unknown.as_ref(), &mut none).unwrap_err();
    assert_eq!((refused.kind(), refused.seq()), (ErrorKind::UnknownType, Some(4)));
    assert!(refused.message().contains("\"fut\\u{202e}ure\""), "{refused}");
    unknown.ignorable = true;
    history.apply(&unknown.as_ref(), &mut none).unwrap();
}

#[test]
fn t43_a_list_that_was_given_out_does_not_change() {
    let mut history = History::new(&SessionId::new("s").unwrap());
    let text = r#"{"id":"u","role":"user","content":[],"source":{"kind":"user"}}"#;
    history.apply(&event(0, 0, "user/message", text, APPEND).as_ref(), &mut none).unwrap();
    let held = history.messages();
    history.apply(&event(1, 0, "user/message", text, APPEND).as_ref(), &mut none).unwrap();
    let bad = Some(SurfaceOp::Replace { start: 7, end: 7 });
    let refused = history.apply(&event(2, 0, "user/message", text, bad).as_ref(), &mut none);
    assert_eq!(refused.unwrap_err().field(), Some("surfaceOp.start"));
    assert_eq!((held.len(), history.messages().len(), history.surface().len()), (1, 2, 2));
}
