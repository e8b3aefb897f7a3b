//! `messages`, `transcript`, `surface` and `stats`: shapes, closers, positions, refusals.

use serde_json::{Value, json};

use crate::support::Place;

fn user(seq: u64, op: &str) -> String {
    format!(
        r#"{{"type":"user/message","data":{{"id":"m{seq}","role":"user","content":[{{"type":"text","text":"said {seq}\u202e"}}],"source":{{"kind":"user"}}}},{op}}}"#
    ) + "\n"
}

/// An open turn: two messages, one of which replaces the other, a model's message with a call, and the call.
fn place() -> Place {
    let place = Place::new();
    let lines = [
        r#"{"type":"turn/start","data":{"turn":1},"time":5}"#.to_owned() + "\n",
        user(1, r#""surfaceOp":"append""#),
        user(2, r#""surfaceOp":{"op":"replace","start":1,"end":1},"sourceEventSeqs":[1]"#),
        r#"{"type":"step/start","data":{"turn":1,"step":1},"time":10}"#.to_owned() + "\n",
        r#"{"type":"assistant/message","data":{"turn":1,"step":1,"message":{"id":"a","role":"assistant","content":[{"type":"tool-call","id":"c1","name":"ls","arguments":"{}"}],"source":{"kind":"model","provider":"p","model":"m"}},"usage":{"inputTokens":7,"outputTokens":2}},"surfaceOp":"append","time":17}"#.to_owned() + "\n",
        r#"{"type":"tool/call","data":{"turn":1,"step":1,"callId":"c1","name":"ls","arguments":"{}"},"time":20}"#.to_owned() + "\n",
    ];
    place.feed(&["append", "sess", "--create", "-q"], lines.concat()).exits(0);
    place
}

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect()
}

#[test]
fn messages_are_those_of_the_contract() {
    let place = place();
    let all = place.ever(&["messages", "sess", "-o", "json"]).exits(0).json();
    assert_eq!(ids(&all), ["m2", "a", "interrupted-tool-result-c1-6"]);
    let raw = place.ever(&["messages", "sess", "-o", "json", "--raw"]).exits(0).json();
    assert_eq!(ids(&raw), ["m2", "a"]);
    let at = place.ever(&["messages", "sess@1", "-o", "json"]).exits(0).json();
    assert_eq!(ids(&at), ["m1"]);
    let at = place.ever(&["messages", "--id", "sess", "--seq", "0", "-o", "json"]).exits(0);
    assert_eq!(at.text(), "[]\n");
    let lines = place.ever(&["messages", "sess", "-o", "jsonl", "--explain"]).exits(0).jsonl();
    assert_eq!((&lines[0]["seq"], &lines[0]["shadowedSeqs"]), (&json!(2), &json!([1])));
    assert_eq!((&lines[0]["v"], &lines[0]["message"]["id"]), (&json!(1), &json!("m2")));
    assert_eq!((&lines[2]["seq"], &lines[2]["closer"]), (&json!(6), &json!(true)));
    let openai = place.ever(&["messages", "sess", "-o", "openai"]).exits(0).json();
    assert_eq!(openai[1]["tool_calls"][0]["function"]["name"], "ls");
    assert_eq!((&openai[2]["role"], &openai[2]["tool_call_id"]), (&json!("tool"), &json!("c1")));
    let text = place.ever(&["messages", "sess"]).exits(0).text();
    assert!(text.starts_with("2 user\nsaid 2\\u{202e}\n\n4 assistant\n> ls {} [c1]\n"), "{text}");
    place.ever(&["messages", "sess@6"]).exits(1);
    place.ever(&["messages", "sess@1..3"]).exits(2);
    place.ever(&["messages", "sess", "--explain", "-o", "openai"]).exits(2);
}

#[test]
fn text_never_reaches_a_terminal_raw() {
    let place = place();
    for args in [
        &["messages", "sess", "-o", "json"][..],
        &["messages", "sess", "-o", "openai"],
        &["messages", "sess"],
        &["transcript", "sess", "-o", "md"],
        &["transcript", "sess", "-o", "jsonl"],
    ] {
        let text = place.ever(args).exits(0).text();
        assert!(!text.contains('\u{202e}') && text.contains("202e"), "{args:?}: {text}");
    }
}

#[test]
fn transcript_and_surface_show_what_was_replaced() {
    let place = place();
    let seen = place.ever(&["transcript", "sess", "-o", "json"]).exits(0).json();
    let seqs: Vec<u64> =
        seen.as_array().unwrap().iter().map(|e| e["seq"].as_u64().unwrap()).collect();
    assert_eq!((seqs, &seen[0]["message"]["id"]), (vec![1, 4, 6], &json!("m1")));
    let md = place.ever(&["transcript", "sess", "-o", "md"]).exits(0).text();
    assert!(md.starts_with("## user\n\nsaid 1"), "{md}");
    let surface = place.ever(&["surface", "sess", "-o", "json"]).exits(0).json();
    assert_eq!(
        surface,
        json!({"v": 1, "nodes": [2, 4, 6], "generation": 1, "closers": 3,
            "replacements": [{"seq": 2, "start": 1, "end": 1, "shadowedSeqs": [1]}]})
    );
    assert_eq!(place.ever(&["surface", "sess"]).exits(0).text(), "2\n4\n6\tcloser\n");
    assert_eq!(place.ever(&["surface", "sess@1"]).exits(0).text(), "1\n");
}

#[test]
fn stats_count_what_the_view_shows() {
    let place = place();
    let stats = place.ever(&["stats", "sess", "-o", "json"]).exits(0).json();
    for (key, want) in [
        ("v", 1),
        ("turns", 1),
        ("steps", 1),
        ("events", 6),
        ("messages", 3),
        ("toolCalls", 1),
        ("inputTokens", 7),
        ("outputTokens", 2),
        ("cacheReadTokens", 0),
        ("llmMs", 7),
        ("ttftSteps", 0),
    ] {
        assert_eq!(stats[key], json!(want), "{key}");
    }
    assert_eq!((&stats["own"]["steps"], &stats["session"]), (&json!(1), &json!("sess")));
    assert_eq!(stats["context"]["pressureTokens"], json!(7));
    let raw = place.ever(&["stats", "sess", "--raw", "-o", "json"]).exits(0).json();
    assert_eq!((&raw["steps"], &raw["messages"]), (&json!(0), &json!(2)));
    // A child in the same store adds its own part only.
    let child = r#"{"type":"session","version":0,"id":"child","createdAt":1,"parentSession":"sess","seedLength":1,"delegationDepth":0}
{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}
{"type":"turn/end","seq":1,"time":1,"data":{"turn":1,"reason":{"kind":"completed"}}}
"#;
    place.write("child.jsonl", child);
    place.ever(&["import", "child.jsonl"]).exits(0);
    let all = place.ever(&["stats", "-o", "json"]).exits(0).json();
    assert_eq!((&all["sessions"], &all["events"]), (&json!(2), &json!(7)));
    assert!(place.ever(&["stats"]).exits(0).text().starts_with("sessions\t2\nturns\t1\n"));
}

#[test]
fn unknown_required_types_exit_with_15() {
    let place = place();
    place.ever(&["append", "sess", "-q", "-t", "future/type", "-d", "1"]).exits(0);
    for verb in ["messages", "transcript", "surface", "stats"] {
        let error = place.ever(&[verb, "sess", "-o", "json"]).exits(15).error();
        assert_eq!((&error["kind"], &error["seq"]), (&json!("unknown-type"), &json!(6)), "{verb}");
        assert!(error["message"].as_str().unwrap().contains("future/type"));
        place.ever(&[verb, "sess", "--unknown", "keep"]).exits(0);
    }
    assert_eq!(place.ever(&["stats"]).exits(3).text().lines().next(), Some("sessions\t0"));
    place.ever(&["cat", "sess"]).exits(0);
}

#[test]
fn resume_stores_the_closers_once() {
    let place = place();
    let done = place.ever(&["resume", "sess", "-o", "json"]).exits(0).json();
    assert_eq!(
        done,
        json!({"v": 1, "session": "sess", "nextSeq": 10, "closers": 3, "endSeed": true,
            "unknownCalls": [{"callId": "c1", "seq": 5}]})
    );
    let again = place.ever(&["resume", "sess", "-o", "json"]).exits(0).json();
    assert_eq!((&again["nextSeq"], &again["endSeed"]), (&json!(10), &json!(false)));
    let surface = place.ever(&["surface", "sess", "-o", "json"]).exits(0).json();
    assert_eq!((&surface["nodes"], &surface["closers"]), (&json!([2, 4, 6]), &json!(0)));
    let last = place.ever(&["cat", "sess@-2.."]).exits(0).jsonl();
    assert_eq!(
        (&last[0]["type"], &last[1]["type"]),
        (&json!("turn/end"), &json!("session/end-seed"))
    );
    assert_eq!(last[0]["time"], json!(20), "closers carry the time of the last event");
    place.ever(&["append", "sess", "-q", "-t", "future/type", "-d", "1"]).exits(0);
    place.ever(&["resume", "sess"]).exits(15);
    place.ever(&["resume", "sess", "--unknown", "keep"]).exits(0);
}

#[test]
fn fork_makes_a_child_or_says_why_not() {
    let place = place();
    let error = place.ever(&["fork", "sess", "kid", "-o", "json"]).exits(1).error();
    assert_eq!((&error["kind"], &error["seq"]), (&json!("open-turn"), &json!(5)));
    let error = place.ever(&["fork", "sess@99", "kid", "-o", "json"]).exits(1).error();
    assert_eq!((&error["kind"], &error["seq"]), (&json!("invalid-boundary"), &json!(99)));
    let error = place.ever(&["fork", "nobody", "kid", "-o", "json"]).exits(1).error();
    assert_eq!(error["kind"], "not-found");
    let error = place.ever(&["fork", "sess", "sess", "-o", "json"]).exits(1).error();
    assert_eq!(error["kind"], "exists");
    let done = place.ever(&["fork", "sess", "kid", "--close", "-o", "json"]).exits(0).json();
    assert_eq!(
        done,
        json!({"v": 1, "session": "kid", "parentSession": "sess", "seedLength": 6, "boundary": 5})
    );
    let own = place.ever(&["stats", "kid", "-o", "json"]).exits(0).json();
    assert_eq!((&own["events"], &own["own"]["events"]), (&json!(10), &json!(4)));
    let all = place.ever(&["stats", "-o", "json"]).exits(0).json();
    assert_eq!((&all["sessions"], &all["events"]), (&json!(2), &json!(10)));
    let fresh = place.ever(&["fork", "kid"]).exits(0).text();
    assert!(fresh.starts_with("session-") && fresh.trim_end().len() == 40, "{fresh}");
    let listed = place.ever(&["ls", "-q", "--parent", "sess"]).exits(0).text();
    assert_eq!(listed, "kid\n");
    place.ever(&["check"]).exits(0);
    place.ever(&["fork", "sess@1..2", "x"]).exits(2);
}
