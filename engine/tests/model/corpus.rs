//! The shared corpus: what the reference makes of each log, against what a store makes of it after an import.

use std::fs;
use std::path::{Path, PathBuf};

use everlog::{ImportOptions, Session, Store, StoreOptions, SurfaceOp, ViewOptions, dsh};
use serde_json::{Value, json};

use super::sha256;

/// The corpus in `EVERLOG_SHARED`, or in a folder `shared` above the crate. Without it the test has nothing to run on:
/// it says so, and fails where it must not be skipped.
fn corpus() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = std::env::var_os("EVERLOG_SHARED").map(PathBuf::from);
    let above = here.ancestors().map(|dir| dir.join("shared"));
    let found = named.into_iter().chain(above).map(|d| d.join("conformance")).find(|d| d.is_dir());
    if found.is_none() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "shared/conformance is missing");
        eprintln!("SKIPPED, NOTHING TESTED: no folder shared/conformance above {}", here.display());
    }
    found
}

/// JSON, with lone surrogates, which the parser refuses, as other characters.
fn parse(text: &[u8]) -> Value {
    let text = String::from_utf8(text.to_vec()).unwrap();
    serde_json::from_str(&text.replace("\\ud", "\\u0").replace("\\uD", "\\u0")).unwrap()
}

/// The same without the texts that closers give a model: their wording is ours.
fn blank(mut message: Value) -> Value {
    if message["id"].as_str().is_some_and(|id| id.starts_with("interrupted-tool-result-")) {
        message["content"][0]["content"][0]["text"] = json!("");
    }
    message
}

struct Case {
    name: String,
    expected: Value,
    ours: Value,
    bad: Vec<String>,
}

impl Case {
    fn same(&mut self, what: &str, want: &Value, got: &Value) {
        if want != got {
            self.bad.push(format!("{}: {what}: want {want} got {got}", self.name));
        }
    }

    fn run(&mut self, dir: &Path) {
        let temp = tempfile::tempdir().unwrap();
        let store = Store::create(temp.path().join("s"), StoreOptions::default()).unwrap();
        let input = fs::read(dir.join(self.expected["input"].as_str().unwrap())).unwrap();
        let report =
            store.import_dsh(&input[..], &ImportOptions::default(), &mut |_| true).unwrap();
        let session = store.session(&report.session).unwrap();
        let view = session.view(ViewOptions::default());
        if self.ours["messages"] == "unsupported" {
            let kind = view.map(|_| ()).unwrap_err().kind().name();
            self.same("refusal", &json!("unknown-type"), &json!(kind));
            return;
        }
        if !self.ours["differs"].is_null() {
            return;
        }
        let view = view.unwrap();
        let surface = self.expected["surface"].clone();
        if surface["nodes"].as_array().map(Vec::len)
            == surface["count"].as_u64().map(|n| n as usize)
        {
            self.same("nodes", &surface["nodes"], &json!(view.nodes().collect::<Vec<_>>()));
        }
        let replaced: Vec<Value> = view
            .replacements()
            .iter()
            .map(|r| json!({"seq": r.seq, "start": r.start, "end": r.end, "shadowedSeqs": r.shadowed}))
            .collect();
        self.same("replacements", &surface["replacements"], &json!(replaced));
        self.messages(&view);
        self.transcript(&view);
        self.closers(&view);
        self.stats(&session);
        self.reencoded(&store, &session, &view);
    }

    fn messages(&mut self, view: &everlog::SessionView) {
        let text = view.messages_json().unwrap();
        let got: Vec<Value> = parse(&text).as_array().unwrap().iter().cloned().map(blank).collect();
        self.same("messageCount", &self.expected["messageCount"].clone(), &json!(got.len()));
        if let Some(want) = self.expected["messages"].as_array() {
            let want: Vec<Value> = want.iter().cloned().map(blank).collect();
            if self.ours["compare"] == "text" {
                self.same("messages", &json!(want), &json!(got));
            }
        } else if view.closers().is_empty() {
            let want = self.expected["messagesSha256"].clone();
            self.same("messagesSha256", &want, &json!(sha256::hex(&text)));
        }
    }

    fn transcript(&mut self, view: &everlog::SessionView) {
        let mut seqs = Vec::new();
        view.transcript(&mut |seq, _| {
            seqs.push(seq);
            Ok(())
        })
        .unwrap();
        self.same("transcriptCount", &self.expected["transcriptCount"].clone(), &json!(seqs.len()));
        let want = self.expected["transcriptSeqs"].clone();
        if want.as_array().map(Vec::len) == Some(seqs.len()) {
            self.same("transcriptSeqs", &want, &json!(seqs));
        }
    }

    fn closers(&mut self, view: &everlog::SessionView) {
        let got: Vec<Value> = view
            .closers()
            .iter()
            .map(|c| {
                let mut data = parse(&c.data);
                if !data["message"].is_null() {
                    data["message"] = blank(data["message"].take());
                }
                let mut out = json!({"type": String::from_utf8_lossy(&c.event_type), "seq": c.seq,
                    "time": c.time_ms, "data": data});
                if c.surface_op == Some(SurfaceOp::Append) {
                    out["surfaceOp"] = json!("append");
                }
                if let Some(sources) = &c.sources {
                    out["sourceEventSeqs"] = json!(sources);
                }
                out
            })
            .collect();
        let mut want = self.expected["closers"].as_array().cloned().unwrap_or_default();
        for closer in &mut want {
            if closer["type"] == "tool/result" {
                closer["data"]["message"] = blank(closer["data"]["message"].take());
            }
        }
        self.same("closers", &json!(want), &json!(got));
    }

    fn stats(&mut self, session: &Session) {
        let s = session.stats().unwrap().whole;
        let got = json!({"turns": s.turns, "steps": s.steps, "llmMs": s.llm_ms, "toolMs": s.tool_ms,
            "ttftMs": s.ttft_ms, "ttftSteps": s.ttft_steps, "decodeMs": s.decode_ms,
            "decodeTokens": s.decode_tokens});
        for (key, want) in self.expected["stats"].as_object().cloned().unwrap_or_default() {
            let got = got[&key].as_f64();
            self.same(&key, &json!(want.as_f64()), &json!(got));
        }
    }

    /// The log with its closers, written again, is the reference's byte for byte, once the wording is theirs.
    fn reencoded(&mut self, store: &Store, session: &Session, view: &everlog::SessionView) {
        if self.ours["compare"] != "text" || !self.ours["export"].is_null() {
            return;
        }
        for (packed, key) in [(false, "reencoded_unpacked"), (true, "reencoded_packed")] {
            let Some(want) = self.expected[key]["sha256"].as_str().map(str::to_owned) else {
                continue;
            };
            let mut log = Vec::new();
            store.export_dsh(session.id(), packed, &mut log).unwrap();
            for (i, closer) in view.closers().iter().enumerate() {
                let mut closer = closer.clone();
                let said =
                    |data: &Value| data["message"]["content"][0]["content"][0]["text"].to_string();
                let theirs = said(&self.expected["closers"][i]["data"]);
                let text = String::from_utf8(closer.data.to_vec()).unwrap();
                closer.data =
                    text.replace(&said(&parse(&closer.data)), &theirs).into_bytes().into();
                dsh::write_event(&mut log, &closer.as_ref()).unwrap();
            }
            self.same(key, &json!(want), &json!(sha256::hex(&log)));
        }
    }
}

#[test]
fn every_log_means_what_the_reference_says() {
    let Some(root) = corpus() else { return };
    let (mut ran, mut closed, mut bad) = (0, 0, Vec::new());
    for base in ["fixtures", "cases"] {
        for entry in fs::read_dir(root.join(base)).unwrap() {
            let dir = entry.unwrap().path();
            let ours = parse(&fs::read(dir.join("ours.json")).unwrap());
            if !ours["skip"].is_null() || ours["accepted"] != true {
                continue;
            }
            let expected = parse(&fs::read(dir.join("expected.json")).unwrap());
            closed += usize::from(!expected["closers"].is_null());
            let name = dir.file_name().unwrap().to_string_lossy().into_owned();
            let mut case = Case { name, expected, ours, bad: Vec::new() };
            case.run(&dir);
            ran += 1;
            bad.extend(case.bad);
        }
    }
    assert!(bad.is_empty(), "{} failures\n{}", bad.len(), bad.join("\n"));
    assert!(ran > 100 && closed > 5, "only {ran} cases, {closed} with closers");
}
