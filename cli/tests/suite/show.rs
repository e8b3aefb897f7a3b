//! `show`: one event and its relations; turns and steps as names.

use crate::log::samples;

#[test]
fn relations_exactly() {
    let place = samples(&["14-replace-of-replace.jsonl"]);
    let want = "\
session\tedge-replace-of-replace
seq\t7
time\t2026-09-21T14:13:20.056Z
type\tuser/message
surface\tshadowed
op\treplace 2..4
cites\t2\tuser/message\ttwo
cites\t3\tuser/message\tthree
cites\t4\tuser/message\tfour
shadows\t2\tuser/message\ttwo
shadows\t3\tuser/message\tthree
shadows\t4\tuser/message\tfour
shadowed by\t8\tuser/message\ta replacement replaced, alone
data\t{\"id\":\"m7\",\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"two to four in short\"}],\"source\":{\"kind\":\"user\"}}
";
    assert_eq!(place.ever(&["show", "edge-replace-of-replace@7"]).exits(0).text(), want);
    let json = place.ever(&["show", "edge-replace-of-replace@9", "-o", "json"]).exits(0).json();
    assert_eq!(
        (&json["v"], &json["seq"], &json["surface"]),
        (&1.into(), &9.into(), &"shadowed".into())
    );
    assert_eq!(json["cites"], serde_json::json!([8, 5]));
    assert_eq!(json["shadows"], serde_json::json!([8, 5]), "in the order of the surface");
    assert_eq!(json["shadowedBy"], 13);
    let last = place.ever(&["show", "edge-replace-of-replace@13", "-o", "json"]).exits(0).json();
    assert_eq!((&last["surface"], last.get("shadowedBy")), (&"current".into(), None));
    let turn = place.ever(&["show", "edge-replace-of-replace@6", "-o", "json"]).exits(0).json();
    assert_eq!((&turn["surface"], &turn["cites"]), (&"log-only".into(), &serde_json::json!([])));
    let table = place.ever(&["show", "edge-replace-of-replace@6", "-o", "table"]).exits(0).text();
    let want = "\
session     edge-replace-of-replace
seq         6
time        2026-09-21 14:13:20 (2026-09-21T14:13:20.049Z)
type        turn/end
surface     log-only
data
  {
    \"turn\": 1,
    \"reason\": {
      \"kind\": \"completed\"
    }
  }
";
    assert_eq!(table, want);
}

#[test]
fn many_citations_are_counted() {
    let place = samples(&[]);
    let mut lines = String::new();
    for n in 0..30 {
        lines += &format!("{{\"type\":\"note\",\"data\":{n}}}\n");
    }
    let sources: Vec<String> = (0..30).map(|n: u32| n.to_string()).collect();
    lines += &format!(
        "{{\"type\":\"user/message\",\"data\":{{\"id\":\"m\",\"role\":\"user\",\"source\":{{\"kind\":\"user\"}},\"content\":[]}},\"surfaceOp\":\"append\",\"sourceEventSeqs\":[{}]}}\n",
        sources.join(",")
    );
    place.feed(&["append", "s-777", "--create", "-q"], lines).exits(0);
    let text = place.ever(&["show", "s-777@30"]).exits(0).text();
    assert_eq!(text.lines().filter(|l| l.starts_with("cites\t")).count(), 21);
    assert!(text.contains("cites\tand 10 more (-o json has all)\n"), "{text}");
    let json = place.ever(&["show", "s-777@30", "-o", "json"]).exits(0).json();
    assert_eq!(json["cites"].as_array().unwrap().len(), 30);
}

#[test]
fn turns_and_steps_are_names_of_their_last_events() {
    let place = samples(&["10-packed-few.jsonl", "14-replace-of-replace.jsonl"]);
    let seq = |name: &str| {
        place.ever(&["show", name, "-o", "json"]).exits(0).json()["seq"].as_u64().unwrap()
    };
    assert_eq!(seq("edge-packed-few@turn:1"), 8);
    assert_eq!(seq("edge-packed-few@step:1"), 7);
    assert_eq!(seq("edge-replace-of-replace@turn:1"), 6);
    assert_eq!(seq("edge-replace-of-replace@turn:2"), 12);
    let lines: String = ["turn/start", "step/start", "note", "step/start", "note", "turn/start"]
        .map(|t| format!("{{\"type\":\"{t}\",\"data\":{{\"turn\":1,\"step\":1}}}}\n"))
        .concat();
    place.feed(&["append", "open-1", "--create", "-q"], lines).exits(0);
    assert_eq!(seq("open-1@step:1"), 2, "the next step ends one that was left open");
    assert_eq!(seq("open-1@step:2"), 4);
    assert_eq!(seq("open-1@turn:1"), 4);
    assert_eq!(seq("open-1@turn:2"), 5, "an open turn goes to the end");
    assert_eq!(place.ever(&["cat", "open-1@step:2"]).exits(0).text().lines().count(), 1);
    let none = place.ever(&["show", "open-1@turn:3", "-o", "json"]).exits(1).error();
    assert_eq!(none["kind"], "not-found");
    assert!(none["hint"].as_str().unwrap().contains("has 2"), "{none}");
    place.ever(&["show", "open-1@turn:0"]).exits(1);
    place.ever(&["show", "open-1@0..3"]).exits(2);
    place.ever(&["show", "open-1"]).exits(2);
    place.ever(&["show"]).exits(2);
    place.ever(&["show", "open-1@99"]).exits(1);
}
