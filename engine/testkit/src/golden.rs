//! The golden stores: made the same way each time, and kept as text that can be reviewed line by line.
//!
//! 1. [`make`] and [`make_columns`] give equal bytes on every run: machine, clock and chance come from one seed.
//! 2. `parse` of `print` gives back every byte of every file, its size included.
//! 3. Text: `file PATH SIZE`, then lines `OFFSET HEX` of up to 32 bytes and `OFFSET BYTE*COUNT` for runs; what no line
//!    names is zero. Numbers are hex, but for SIZE and COUNT.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use everlog::{
    ImportOptions, Level, NewEvent, NewSession, Result, SessionId, SessionWriter, Store,
    StoreOptions, SurfaceOp,
};

use crate::oracle::OracleStore;
use crate::sim::{SimMachine, SimProcess};

/// Seed of the machine that the store is made on.
pub const SEED: u64 = 0x601D;
/// Where the store stands on that machine.
pub const PATH: &str = "/data/store";
/// The log that is imported into it.
pub const LOG: &[u8] = br#"{"type":"session","version":0,"id":"imported","createdAt":1749999999000,"delegationDepth":0}
{"type":"turn/start","seq":0,"time":1749999999001,"data":{"turn":0}}
{"type":"user/message","seq":1,"time":1749999999001,"data":{"id":"m","role":"user","source":{"kind":"user"},"content":[]},"surfaceOp":"append"}
{"type":"odd/type","seq":2,"time":1749999999000,"data":[1.0, "\ud800"],"ignorable":true}
{"type":"turn/end","seq":3,"time":1749999999009,"data":{"turn":0,"reason":{"kind":"completed"}}}
"#;

/// The log that is imported into the store with columns.
pub const PACKED_LOG: &[u8] = br#"{"type":"session","version":0,"id":"packed","createdAt":1749999999000,"delegationDepth":0}
{"type":"text-chunks","seq0":0,"time0":1749999999001,"data":{"turn":1,"step":1,"index":0,"dt":[0,-2,31,0],"texts":["The"," \"user\"","","\ud800","\\"]}}
{"type":"turn/end","seq":5,"time":1749999999099,"data":{"turn":1,"reason":{"kind":"completed"}}}
"#;

const USER: &[u8] = br#"{"id":"u","role":"user","source":{"kind":"user"},"content":[]}"#;
const ASSISTANT: &[u8] = br#"{"turn":0,"step":0,"message":{"id":"a","role":"assistant","source":{"kind":"model","provider":"p","model":"m"},"content":[]}}"#;

fn options() -> StoreOptions {
    StoreOptions::default().with_segment_bytes(256 << 10, 256 << 10).with_level(Level::Sync)
}

/// Events with every bit of a record's head.
fn every_feature() -> Vec<NewEvent<'static>> {
    let note = |data: &'static [u8]| NewEvent::new("note", data);
    let mut surrogate = note(br#""\ud800 and \u0000""#).with_ignorable();
    surrogate.event_type = Cow::Borrowed(b"odd \xED\xA0\x80 \x01\"");
    let mut replace = NewEvent::new("user/message", USER)
        .with_surface_op(SurfaceOp::Replace { start: 1, end: 2 })
        .with_sources(vec![2, 1]);
    replace.surface_first = true;
    vec![
        NewEvent::new("turn/start", br#"{"turn":0}"#),
        NewEvent::new("user/message", USER).with_surface_op(SurfaceOp::Append),
        NewEvent::new("assistant/message", ASSISTANT)
            .with_surface_op(SurfaceOp::Append)
            .with_sources(Vec::new()),
        note(b" [1.50, 1e3, -0, 123456789012345678901234567890 ]\t").with_time_ms(-5),
        surrogate,
        replace,
        NewEvent::new("step/start", br#"{"turn":0,"step":0}"#).with_time_ms(1 << 52),
    ]
}

/// `n` small events, of many types.
fn many(n: usize) -> Vec<NewEvent<'static>> {
    let types = ["assistant/chunk", "note", "tool/code-dispatch", "hook/invoked"];
    (0..n).map(|i| NewEvent::new(types[i % 4], if i % 3 == 0 { b"{}" } else { b"null" })).collect()
}

fn big() -> Vec<u8> {
    let mut data = vec![b'z'; 100_000];
    data[0] = b'"';
    data[99_999] = b'"';
    data
}

fn add(writer: &mut SessionWriter, events: &[NewEvent<'_>], level: Level) -> Result<()> {
    writer.append_batch(events, level).map(drop)
}

fn write(machine: &SimMachine) -> Result<()> {
    let (a, b) = (machine.process("a"), machine.process("b"));
    let on = |p: &SimProcess| -> Arc<SimProcess> { Arc::new(p.clone()) };
    let first = Store::create_on(on(&a), Path::new(PATH), options().with_label("first"))?;
    let second = Store::open_on(on(&b), Path::new(PATH), options().with_label("second"))?;
    let new = NewSession::new("alpha")?.with_cwd("/work").with_subagent().with_agent_preset("p");
    let mut alpha = first.create_session(&new)?;
    add(&mut alpha, &every_feature(), Level::Sync)?;
    add(&mut alpha, &many(50), Level::Os)?;
    alpha.close()?;
    let odd = SessionId::from_wtf8(b"b\xED\xB0\x80")?;
    let mut other = second.create_session(&NewSession::with_id(odd).with_delegation_depth(2))?;
    add(&mut other, &many(2), Level::Buffered)?;
    let alpha_id = SessionId::new("alpha")?;
    second.refresh()?;
    let mut alpha = second.writer(&alpha_id)?;
    add(&mut alpha, &many(33), Level::Sync)?;
    alpha.close()?;
    second.import_dsh(LOG, &ImportOptions::default(), &mut |_| true)?;
    first.refresh()?;
    let mut alpha = first.writer(&alpha_id)?;
    // The second of these goes to another segment, and the first segment is sealed.
    add(&mut alpha, &[NewEvent::new("note", &big())], Level::Os)?;
    add(&mut alpha, &[NewEvent::new("note", &big())], Level::Sync)?;
    add(
        &mut alpha,
        &[NewEvent::new("turn/end", br#"{"turn":0,"reason":{"kind":"completed"}}"#)],
        Level::Sync,
    )?;
    alpha.close()?;
    first.create_session(&NewSession::new("empty")?)?.close()?;
    first.close()?;
    add(&mut other, &many(1), Level::Sync)?;
    other.close()?;
    second.close()
}

/// `n` events as a model streams them: blocks of deltas, with what JSON strings can hold.
fn stream(n: usize) -> Vec<String> {
    let texts =
        ["The", " user", "", " \\\"said\\\"", "\\\\", "\\ud83d", "\u{e9}", " {\\\"a\\\":[1]}"];
    let chunk = |i: usize| match i % 24 {
        0 => format!(r#"{{"type":"block-start","index":{},"blockType":"text"}}"#, i / 24),
        23 => format!(r#"{{"type":"block-end","index":{}}}"#, i / 24),
        k if k > 16 => {
            let args = texts[k % 8];
            format!(r#"{{"type":"tool-call-delta","index":9,"id":"c","argumentsDelta":"{args}"}}"#)
        }
        k => format!(r#"{{"type":"text-delta","index":{},"text":"{}"}}"#, i / 24, texts[k % 8]),
    };
    (0..n).map(|i| format!(r#"{{"turn":1,"step":1,"chunk":{}}}"#, chunk(i))).collect()
}

fn write_columns(machine: &SimMachine) -> Result<()> {
    let process = Arc::new(machine.process("a"));
    let store = Store::create_on(process, Path::new(PATH), options().with_columns(true))?;
    let mut writer = store.create_session(&NewSession::new("stream")?)?;
    let data = stream(90);
    let mut events: Vec<NewEvent<'_>> =
        data.iter().map(|data| NewEvent::new("assistant/chunk", data.as_bytes())).collect();
    for (i, e) in events.iter_mut().enumerate() {
        e.time_ms = (i % 5 > 0).then_some(1_750_000_000_000 + i as i64 * 7 % 40);
        e.ignorable = (40..44).contains(&i);
    }
    let mut odd = events[60..63].to_vec();
    odd.iter_mut().for_each(|e| e.event_type = Cow::Borrowed(b"odd \xED\xA0\x80"));
    add(&mut writer, &events[1..4], Level::Sync)?;
    add(&mut writer, &events[..2], Level::Os)?;
    add(&mut writer, &events, Level::Os)?;
    add(&mut writer, &odd, Level::Sync)?;
    writer.close()?;
    store.import_dsh(PACKED_LOG, &ImportOptions::default(), &mut |_| true)?;
    store.close()
}

/// Makes the golden store and gives its files by their path in it.
///
/// # Errors
/// What the store says; none is expected.
pub fn make() -> Result<BTreeMap<String, Vec<u8>>> {
    make_by(write)
}

/// Makes the golden store whose frames hold columns.
///
/// # Errors
/// As [`make`].
pub fn make_columns() -> Result<BTreeMap<String, Vec<u8>>> {
    make_by(write_columns)
}

fn make_by(write: fn(&SimMachine) -> Result<()>) -> Result<BTreeMap<String, Vec<u8>>> {
    let machine = SimMachine::new(SEED);
    write(&machine)?;
    let prefix = format!("{PATH}/");
    let files = machine.files();
    let files = files.iter().filter_map(|(path, pages)| {
        path.strip_prefix(&prefix).map(|path| (path.to_owned(), pages.to_vec()))
    });
    Ok(files.collect())
}

/// The frames of a store, one line each.
#[must_use]
pub fn frames(store: &OracleStore) -> String {
    let mut out = String::from("# segment: offset kind flags count session seq gsn len\n");
    for segment in store.lanes.iter().flat_map(|lane| &lane.segments) {
        for f in &segment.frames {
            let _ = writeln!(
                out,
                "{}: {} {} {} {} {:x} {} {} {}",
                segment.path, f.offset, f.kind, f.flags, f.count, f.session, f.seq, f.gsn, f.len
            );
        }
    }
    out
}

/// Shortest run of one byte that gets a line of its own.
const RUN: usize = 64;

fn run_len(bytes: &[u8]) -> usize {
    bytes.first().map_or(0, |first| bytes.iter().take_while(|b| *b == first).count())
}

/// Files as text.
#[must_use]
pub fn print(files: &BTreeMap<String, Vec<u8>>) -> String {
    let mut out = String::new();
    for (path, bytes) in files {
        let _ = writeln!(out, "file {path} {}", bytes.len());
        let mut at = 0;
        while at < bytes.len() {
            let run = run_len(&bytes[at..]);
            if run >= RUN {
                if bytes[at] != 0 {
                    let _ = writeln!(out, "{at:x} {:02x}*{run}", bytes[at]);
                }
                at += run;
                continue;
            }
            let mut end = at;
            while end < bytes.len().min(at + 32) && run_len(&bytes[end..]) < RUN {
                end += 1;
            }
            let _ = write!(out, "{at:x} ");
            for b in &bytes[at..end] {
                let _ = write!(out, "{b:02x}");
            }
            out.push('\n');
            at = end;
        }
    }
    out
}

/// Files of a text; `None` when a line is not understood.
#[must_use]
pub fn parse(text: &str) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut path = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("file ") {
            let (name, size) = rest.rsplit_once(' ')?;
            let size: usize = size.parse().ok().filter(|n| *n <= 1 << 24)?;
            files.insert(name.to_owned(), vec![0; size]);
            path = name;
            continue;
        }
        let (at, what) = line.split_once(' ')?;
        let at = usize::from_str_radix(at, 16).ok()?;
        let bytes = match what.split_once('*') {
            Some((byte, count)) => {
                vec![
                    u8::from_str_radix(byte, 16).ok()?;
                    count.parse().ok().filter(|n| *n < 1 << 24)?
                ]
            }
            None => unhex(what)?,
        };
        let end = at.checked_add(bytes.len())?;
        files.get_mut(path)?.get_mut(at..end)?.copy_from_slice(&bytes);
    }
    Some(files)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits.filter(|d| d.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|d| (d[0] << 4 | d[1]) as u8).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_gives_back_every_byte() {
        let mut files = BTreeMap::new();
        files.insert("a/b c".to_owned(), Vec::new());
        files.insert("d".to_owned(), vec![0; 5_000]);
        let mut mixed: Vec<u8> = (0..200).collect();
        for len in [1, 31, 32, 33, 63, 64, 65, 1_000] {
            mixed.extend(vec![0; len]);
            mixed.extend(vec![b'z'; len]);
        }
        files.insert("e".to_owned(), mixed);
        assert_eq!(parse(&print(&files)), Some(files));
        for bad in [
            "0 00",
            "file a",
            "file a 1\n1 00",
            "file a 1\n0 0",
            "file a 1\n0 zz",
            "file a 9\n8 01*2",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
