//! `import --salvage`, `--format jsonl` both ways, and zstd out.

use crate::support::{Place, log};

/// A log of six events whose fourth line was cut.
fn damaged() -> String {
    let log = log("s-777", 6);
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    let cut = &lines[3][..lines[3].len() / 2];
    [&lines[..3].concat(), cut, "\n", &lines[4..].concat()].concat()
}

#[test]
fn a_damaged_log_is_refused_and_salvaged() {
    let place = Place::new();
    place.write("in.jsonl", damaged());
    let refused = place.ever(&["import", "in.jsonl"]).exits(1);
    assert!(refused.err.contains("--salvage"), "{}", refused.err);
    let dry = place.ever(&["import", "in.jsonl", "--salvage", "--dry-run", "-o", "jsonl"]).exits(3);
    assert_eq!(dry.jsonl()[0]["salvaged"], 4);
    assert_eq!(place.ever(&["ls", "-q"]).exits(0).text(), "");
    let done = place.ever(&["import", "in.jsonl", "--salvage", "-o", "jsonl"]).exits(3);
    let report = &done.jsonl()[0];
    assert_eq!((report["ok"].as_bool(), report["stored"].as_u64()), (Some(true), Some(6)));
    assert_eq!(report["salvaged"], 4);
    assert_eq!(report["salvaged_lines"].to_string(), "[[4,4],[5,5],[6,6],[7,7]]");
    let told = report["warnings"].as_array().unwrap();
    assert_eq!(told.iter().map(|w| w["line"].as_u64().unwrap()).collect::<Vec<_>>(), [4, 5, 6, 7]);
    assert!(told.iter().all(|w| w["offset"].is_u64()));
    // The export and the lines that were set aside are all of the input.
    let mut back = String::new();
    for line in place.ever(&["export", "s-777"]).exits(0).text().split_inclusive('\n') {
        if line.starts_with("{\"type\":\"everlog/salvaged\"") {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(event["ignorable"], true);
            back += event["data"]["text"].as_str().unwrap();
            back.push('\n');
        } else {
            back += line;
        }
    }
    assert_eq!(back, damaged());
    let again = place.ever(&["import", "in.jsonl", "--salvage", "-o", "jsonl"]).exits(3).jsonl();
    assert_eq!((again[0]["added"].as_u64(), again[0]["stored"].as_u64()), (Some(0), Some(6)));
    place.ever(&["check"]).exits(0);
    // For people, the lines are named on standard error.
    let told = place.ever(&["import", "in.jsonl", "--salvage"]).exits(3);
    assert!(told.err.contains("line 4 was kept aside") && told.err.contains("4 lines of 1 inputs"));
}

#[test]
fn lines_of_any_tool_come_back_as_they_were() {
    let place = Place::new();
    let chat = "{\"type\":\"user\",\"time\":7}\n{\"a\": 1}{\"b\":2}\n\n{\"cut\n{\"type\":\"end\"}";
    place.write("a chat.jsonl", chat);
    let done = place.ever(&["import", "a chat.jsonl", "--format", "jsonl", "-o", "jsonl"]).exits(3);
    let report = &done.jsonl()[0];
    assert_eq!(
        (report["session"].as_str(), report["format"].as_str()),
        (Some("a chat"), Some("jsonl"))
    );
    assert_eq!(report["salvaged_lines"].to_string(), "[[2,2],[4,4]]");
    let cat = place.ever(&["cat", "a chat@0"]).exits(0).text();
    assert_eq!(
        cat,
        "{\"type\":\"jsonl/user\",\"seq\":0,\"time\":7,\"data\":{\"type\":\"user\",\"time\":7},\"ignorable\":true}\n"
    );
    let out = place.ever(&["export", "a chat", "--format", "jsonl"]).exits(0).text();
    assert_eq!(out, chat.replace("\n\n", "\n"));
    // The input goes on where it ended.
    place.write("a chat.jsonl", format!("{chat}\n{{\"more\":1}}\n"));
    let grown =
        place.ever(&["import", "a chat.jsonl", "--format", "jsonl", "-o", "jsonl"]).exits(3);
    assert_eq!(grown.jsonl()[0]["added"], 1);
    let out = place.ever(&["export", "a chat", "--format", "jsonl"]).exits(0).text();
    assert_eq!(out, format!("{}\n{{\"more\":1}}\n", chat.replace("\n\n", "\n")));
    place.write("doc.json", "{\n  \"a\": 1\n}\n");
    let doc = place.ever(&["import", "doc.json", "--format", "jsonl", "-o", "jsonl"]).exits(1);
    assert_eq!(doc.jsonl()[0]["error"]["kind"], "invalid");
    // Any other session is written with its header.
    place.write("in.jsonl", log("s-777", 4));
    place.ever(&["import", "in.jsonl"]).exits(0);
    let out = place.ever(&["export", "s-777", "--format", "jsonl"]).exits(0).text();
    assert_eq!(out, log("s-777", 4));
    place.ever(&["check"]).exits(0);
}

#[test]
fn compressed_exports_are_read_again() {
    let place = Place::new();
    place.write("in.jsonl", log("s-777", 5_000));
    place.ever(&["import", "in.jsonl"]).exits(0);
    place.ever(&["export", "--all", "--format", "dsh-zstd", "--out", "logs"]).exits(0);
    let packed = place.ever(&["export", "s-777", "--format", "dsh-zstd"]).exits(0).out;
    let starts = packed.windows(4).filter(|w| *w == b"\x28\xB5\x2F\xFD").count();
    assert!(starts >= 3 && packed.len() < log("s-777", 5_000).len() / 2, "{starts} frames");
    let names: Vec<_> = std::fs::read_dir(place.path("logs"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.len() == 1 && names[0].ends_with(".jsonl.zstd"), "{names:?}");
    let again = place.ever(&["import", "logs", "-o", "jsonl"]).exits(0).jsonl();
    assert_eq!((again[0]["stored"].as_u64(), again[0]["added"].as_u64()), (Some(5_000), Some(0)));
}
