//! A hostile corpus: nothing of it reaches a terminal raw, through any verb that shows events, in any shape.

use unicode_width::UnicodeWidthStr;

use crate::support::{Place, log, os};

/// Session ids that act on terminals, on paths and on option parsers.
const IDS: [&[u8]; 6] = [
    b"\x1b]0;owned\x07",
    b"\xed\xa0\x80lone\xed\xbf\xbf",
    "x\u{202e}y\u{e0041}\u{9b}31m".as_bytes(),
    b"../../etc/passwd",
    b"-rf\nx\ty\r",
    b"odd@7",
];

/// Strings of JSON that hold what a terminal would act on, raw where JSON allows it and escaped where not; `long` ones
/// as well.
fn strings(long: bool) -> Vec<String> {
    let mut out: Vec<String> = vec![
        r"\u001b]52;c;QUFB\u0007 \u001b[2J \u001bP1$r\u001b\\".into(),
        "\u{7f}\u{9b}31m\u{9d}0;x\u{9c} raw c1".into(),
        "\u{202a}\u{202e}\u{2066}\u{2069}\u{61c}\u{200e}\u{200f} bidi".into(),
        "\u{2028}\u{2029}\u{feff}\u{ad}\u{200b}\u{2060} breaks".into(),
        "\u{e0001}\u{e0041}\u{e007f}\u{e0100} tags".into(),
        "\u{e000}\u{f0000}\u{10ffff}\u{378} private".into(),
        r"\ud800 lone \udfff\ud800 \u0000\u0008\u000c\n\r\t".into(),
        format!("climbing {}", "\u{301}".repeat(5_000)),
        "\u{4f60}\u{597d}".repeat(2_000),
    ];
    if long {
        out.push("y".repeat(1 << 20));
        out.push(r"\u001b[31m".repeat(100_000));
    }
    out
}

/// Events whose types and data are hostile, one JSON line each; with chunks and an open turn.
fn lines(long: bool) -> String {
    let mut out = String::new();
    for s in strings(long) {
        let message = |role: &str| {
            format!(
                "{{\"id\":\"m\",\"role\":\"{role}\",\"source\":{{\"kind\":\"user\"}},\"content\":[{{\"type\":\"text\",\"text\":\"{s}\"}}]}}"
            )
        };
        let short: String = s.chars().take(20).collect();
        let short = if s.contains('\\') { r"\u001b[1mtype".to_owned() } else { short };
        out += &format!("{{\"type\":\"x{short}\",\"data\":{{\"k{short}\": \t[\"{s}\" ,\r 1]}}}}\n");
        out += &format!(
            "{{\"type\":\"user/message\",\"data\":{},\"surfaceOp\":\"append\"}}\n",
            message("user")
        );
        out += &format!("{{\"type\":\"session/title\",\"data\":{{\"title\":\"{s}\"}}}}\n");
        for _ in 0..2 {
            out += &format!(
                "{{\"type\":\"assistant/chunk\",\"data\":{{\"turn\":1,\"step\":1,\"chunk\":{{\"type\":\"text-delta\",\"index\":0,\"text\":\"{s}\"}}}}}}\n"
            );
        }
        out += "{\"type\":\"turn/start\",\"data\":{\"turn\":1}}\n";
        out += &format!(
            "{{\"type\":\"tool/call\",\"data\":{{\"turn\":1,\"step\":1,\"callId\":\"{s}\",\"name\":\"{short}\",\"arguments\":\"{s}\"}}}}\n"
        );
    }
    out
}

/// A store with these sessions; the last one holds lines of 1 MiB.
fn corpus(ids: &[&[u8]]) -> Place {
    let place = Place::new();
    for (i, id) in ids.iter().enumerate() {
        let args: [&[u8]; 7] = [b"append", b"--create", b"-q", b"--level", b"os", b"--id", id];
        place.feed(&args.map(os), lines(i + 1 == ids.len())).exits(0);
    }
    let header = r"/w\u001b]0;cwd\u0007\u202e";
    place.write("in.jsonl", log("plain-1", 3).replace("\"/w\"", &format!("\"{header}\"")));
    place.ever(&["import", "in.jsonl"]).exits(0);
    place
}

/// Fails unless the bytes are text that no terminal acts on; with `colour`, escapes of colours are let through.
#[track_caller]
fn assert_clean(bytes: &[u8], colour: bool, what: &str) {
    let text = std::str::from_utf8(bytes).unwrap_or_else(|e| panic!("{what}: no UTF-8: {e}"));
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '\u{1b}' {
            let codes = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m"];
            let more = ["\u{1b}[33m", "\u{1b}[34m", "\u{1b}[1;31m", "\u{1b}[1;32m"];
            let code = codes.iter().chain(&more).find(|code| rest.starts_with(**code));
            let code = code.filter(|_| colour).unwrap_or_else(|| panic!("{what}: raw escape"));
            rest = &rest[code.len()..];
            continue;
        }
        let acts = match c {
            '\n' | '\t' => false,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' | '\u{378}' => true,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
            '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..='\u{10ffff}' => true,
            c => c.is_control(),
        };
        assert!(!acts, "{what}: U+{:04x} came out raw", u32::from(c));
        rest = &rest[c.len_utf8()..];
    }
}

#[test]
fn nothing_reaches_the_terminal_raw() {
    let place = corpus(&IDS);
    let mut calls: Vec<Vec<&[u8]>> = vec![
        vec![b"ls"],
        vec![b"ls", b"-q"],
        vec![b"log"],
        vec![b"log", b"-n", b"3", b"-r"],
        vec![b"log", b"-g", b"\x1b|raw c1"],
        vec![b"ps"],
        vec![b"info"],
        vec![b"check"],
    ];
    for id in IDS {
        calls.push(vec![b"log", b"--id", id]);
        for seq in [&b"0"[..], b"1", b"2", b"13", b"20"] {
            calls.push(vec![b"show", b"--id", id, b"--seq", seq]);
        }
        calls.push(vec![b"show", b"--id", id, b"--seq", b"9999"]);
        calls.push(vec![b"cat", b"--id", id, b"--seq", b"9999"]);
        calls.push(vec![b"append", b"--id", id, b"--expect-seq", b"1", b"-t", b"x", b"-d", b"1"]);
    }
    calls.push(vec![b"show", b"--id", IDS[5], b"--seq", b"70"]);
    calls.push(vec![b"log", b"\x1b[2Jno such"]);
    calls.push(vec![b"show", b"\x1b[2Jno such@1"]);
    calls.push(vec![b"log", b"-g", b"\x1b(["]);
    calls.push(vec![b"log", b"--since", b"\x1b[2J"]);
    calls.push(vec![b"log", b"--surface", b"\x1b[2J"]);
    for call in &calls {
        for shape in ["text", "table", "json", "jsonl"] {
            for color in ["never", "always"] {
                if color == "always" && shape.starts_with("json") {
                    continue;
                }
                let mut args: Vec<_> = call.iter().map(|a| os(a)).collect();
                args.extend(["-o", shape, "--color", color].map(|a| os(a.as_bytes())));
                let done = place.ever(&args);
                let what = format!("{args:?}");
                assert!((0..=14).contains(&done.code), "{what} gave {}", done.code);
                assert!(done.code != 12, "{what}: damage");
                assert_clean(&done.out, color == "always", &what);
                assert_clean(done.err.as_bytes(), color == "always", &what);
            }
        }
    }
}

#[test]
fn json_of_hostile_events_keeps_their_values() {
    let place = corpus(&IDS[4..5]);
    let id = os(IDS[4]);
    let cat = place.ever(&[os(b"cat"), os(b"--id"), id]).exits(0).out;
    let shown = place.ever(&["log", "-o", "jsonl", "--id", id.to_str().unwrap()]).exits(0).out;
    let lines = |bytes: &[u8]| bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (exact, escaped) = (lines(&cat), lines(&shown));
    assert_eq!(exact.len(), escaped.len());
    let mut compared = 0;
    for (a, b) in exact.iter().zip(&escaped).filter(|(a, _)| !a.is_empty()) {
        // serde_json takes no lone surrogate; the lines that hold none are compared as values.
        let value = |l: &[u8]| serde_json::from_slice::<serde_json::Value>(l);
        let (Ok(a), Ok(b)) = (value(a), value(b)) else { continue };
        assert_eq!((&a["type"], &a["data"], &a["seq"]), (&b["type"], &b["data"], &b["seq"]));
        compared += 1;
    }
    assert!(compared > 60, "{compared}");
}

#[test]
fn long_lines_are_cut_to_the_columns() {
    let place = corpus(&IDS[3..]);
    for columns in [60, 80, 200] {
        for (i, id) in IDS.into_iter().enumerate().skip(3) {
            let args = ["-s", "store", "log", "-o", "table", "--id"].map(|a| os(a.as_bytes()));
            let mut command = place.command(&[&args[..], &[os(id)]].concat());
            let output = command.env("COLUMNS", columns.to_string()).output().unwrap();
            assert_eq!(output.status.code(), Some(0));
            let text = String::from_utf8(output.stdout).unwrap();
            // Of the two chunks in a row one line is made.
            assert_eq!(text.lines().count(), 6 * strings(i == 5).len());
            for line in text.lines() {
                assert!(line.width() <= columns.max(72), "{} columns: {line}", line.width());
                assert!(line.len() < 40 * columns);
            }
        }
    }
    let long = place.ever(&[os(b"log"), os(b"--id"), os(IDS[5])]).exits(0).text();
    assert!(long.lines().all(|l| l.width() < 500), "cut in a pipe as well");
}
