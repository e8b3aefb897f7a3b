//! Salvaging: every byte of a damaged log is in the session, in an event or in what was set aside.

use std::collections::BTreeMap;
use std::fs;

use super::conformance::{json, shared};
use super::{HEADER, Kept, compress, read_with, sample};
use crate::dsh::aside::{SALVAGED_TYPE, read_aside};
use crate::dsh::{ImportOptions, ImportOutcome, Place, TornTail};
use crate::{Event, SessionId};

/// What one salvage did, and what it was given.
struct Salvaged<'a> {
    input: &'a [u8],
    outcome: ImportOutcome,
    kept: Kept,
    /// Bytes set aside of each line.
    lines: BTreeMap<u64, Vec<u8>>,
    /// Offset and bytes set aside of a compressed input.
    gaps: Vec<(usize, Vec<u8>)>,
    /// Events that went in as they are.
    prefix: usize,
}

fn options() -> ImportOptions {
    let name = SessionId::new("by-name").ok();
    ImportOptions { name, salvage: true, ..ImportOptions::default() }
}

fn is_aside(event: &Event) -> bool {
    *event.event_type == *SALVAGED_TYPE
}

impl<'a> Salvaged<'a> {
    fn of(input: &'a [u8]) -> Result<Self, String> {
        let (outcome, kept) =
            read_with(input, &options()).map_err(|e| format!("not salvaged: {e:?}"))?;
        let prefix = kept.events.iter().position(is_aside).unwrap_or(kept.events.len());
        let (mut lines, mut gaps) = (BTreeMap::<u64, Vec<u8>>::new(), Vec::new());
        for (event, line) in kept.events.iter().zip(&kept.lines).skip(prefix) {
            let part = is_aside(event).then(|| read_aside(&event.data)).flatten();
            let Some(part) = part else { return Err(format!("event {} took a place", event.seq)) };
            if !event.ignorable {
                return Err(format!("event {} cannot be stepped over", event.seq));
            }
            if part.compressed {
                let text = String::from_utf8_lossy(&event.data).into_owned();
                let offset = text.split("\"offset\":").nth(1).unwrap_or_default();
                let offset = offset.split(',').next().unwrap_or_default().parse().unwrap();
                gaps.push((offset, part.bytes));
            } else {
                lines.entry(*line).or_default().extend(part.bytes);
            }
        }
        Ok(Self { input, outcome, kept, lines, gaps, prefix })
    }

    fn torn(&self, place: Place) -> Option<TornTail> {
        self.outcome.warnings.iter().filter_map(|w| w.torn).find(|torn| torn.place == place)
    }

    /// The text of the input, without the bytes set aside of its frames and without a torn frame.
    fn text(&self) -> Result<Vec<u8>, String> {
        if !self.outcome.compressed {
            return Ok(self.input.to_vec());
        }
        let mut rest = self.input.to_vec();
        if let Some(torn) = self.torn(Place::Compressed) {
            rest.truncate(torn.offset as usize);
        }
        for (offset, bytes) in self.gaps.iter().rev() {
            if self.input.get(*offset..offset + bytes.len()) != Some(bytes) {
                return Err(format!("the gap at {offset} has other bytes"));
            }
            rest.drain(*offset..offset + bytes.len());
        }
        zstd::stream::decode_all(&rest[..]).map_err(|e| format!("what is left: {e}"))
    }

    /// Every line is the header, an event, set aside, blank, or in the torn tail that was reported.
    fn check(&self) -> Result<(), String> {
        let text = self.text()?;
        let torn_frame = self.outcome.compressed && self.outcome.torn_bytes > 0;
        let torn = self.torn(Place::Text).map(|torn| torn.line);
        let header_made = self.outcome.warnings.iter().any(|w| w.kind.name() == "header-made");
        let mut header_seen = header_made;
        let mut before = Vec::new();
        for (at, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let no = at as u64 + 1;
            let bare = line.strip_suffix(b"\n").unwrap_or(line);
            let bare =
                if no == 1 { bare.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bare) } else { bare };
            if let Some(aside) = self.lines.get(&no) {
                if aside != bare && !(torn == Some(no) && bare.starts_with(aside)) {
                    return Err(format!("line {no} was set aside with other bytes"));
                }
                continue;
            }
            if bare.iter().all(u8::is_ascii_whitespace) || torn.is_some_and(|torn| no > torn) {
                continue;
            }
            if !header_seen {
                header_seen = true;
            } else if !self.kept.lines[..self.prefix].contains(&no) && torn != Some(no) {
                return Err(format!("line {no} is lost"));
            }
            if !self.lines.is_empty() && self.lines.range(..no).next().is_some() {
                return Err(format!("line {no} took a place behind one that could not"));
            }
            before.extend_from_slice(line);
        }
        let listed: u64 = self.outcome.aside.iter().map(|r| r.last - r.first + 1).sum();
        let named = (self.lines.len() + self.gaps.len()) as u64;
        if self.outcome.salvaged > named || listed != self.outcome.salvaged {
            return Err(format!("{listed} lines are named, {named} were set aside"));
        }
        if header_made || torn_frame {
            return Ok(());
        }
        // What took a place is what the log without its damage holds.
        let (_, alone) = read_with(&before[..], &ImportOptions { salvage: false, ..options() })
            .map_err(|e| format!("the lines before the damage: {e:?}"))?;
        if alone.events != self.kept.events[..self.prefix] {
            return Err("other events than those before the damage".to_owned());
        }
        Ok(())
    }
}

fn salvage(input: &[u8]) -> Result<(u64, u64), String> {
    let done = Salvaged::of(input)?;
    done.check()?;
    Ok((done.prefix as u64, done.outcome.salvaged))
}

#[test]
fn every_case_of_the_corpus_that_is_refused_is_salvaged_whole() {
    let Some(root) = shared("conformance") else { return };
    let (mut refused, mut accepted, mut bad) = (0, 0, Vec::new());
    for base in ["fixtures", "cases"] {
        for entry in fs::read_dir(root.join(base)).unwrap() {
            let dir = entry.unwrap().path();
            let ours = json(dir.join("ours.json"));
            if !ours["skip"].is_null() {
                continue;
            }
            let expected = json(dir.join("expected.json"));
            let input = fs::read(dir.join(expected["input"].as_str().unwrap())).unwrap();
            let done = salvage(&input);
            if let Err(why) = &done {
                bad.push(format!("{}: {why}", dir.display()));
            }
            let Ok((prefix, aside)) = done else { continue };
            if ours["accepted"].as_bool().unwrap() {
                accepted += 1;
                if aside != 0 || prefix != ours["stored"].as_u64().unwrap() {
                    bad.push(format!("{}: {prefix} events, {aside} aside", dir.display()));
                }
            } else {
                refused += 1;
                if aside == 0 && !input.is_empty() {
                    bad.push(format!("{}: refused, but nothing is aside", dir.display()));
                }
            }
        }
    }
    assert!(bad.is_empty(), "{} failures\n{}", bad.len(), bad.join("\n"));
    assert!(refused > 70 && accepted > 100, "only {refused} refused and {accepted} accepted");
    println!("salvaged {refused} refused cases, {accepted} accepted ones unchanged");
}

#[test]
fn v1_v2_the_first_line_out_of_place_ends_the_events() {
    let text = sample();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for damaged in 1..lines.len() {
        let cut = &lines[damaged][..lines[damaged].len() / 2];
        let input =
            [&lines[..damaged].concat(), cut, "\n", &lines[damaged + 1..].concat()].concat();
        let (prefix, aside) = salvage(input.as_bytes()).unwrap();
        let rest = lines.len() as u64 - damaged as u64;
        let last = damaged + 1 == lines.len();
        assert_eq!((prefix, aside), (damaged as u64 - 1, if last { 0 } else { rest }), "{damaged}");
    }
}

#[test]
fn v4_a_log_without_a_header_is_named_by_its_first_line_or_the_file() {
    let made = |input: &str| Salvaged::of(input.as_bytes()).unwrap().kept.header.unwrap().view.id;
    let newer = HEADER.replace("\"version\":0", "\"version\":9");
    assert_eq!(made(&newer).as_str(), Some("s"));
    for input in ["", "\n\n", "\0\0", "{\"type\":\"turn/end\",\"id\":\"x\"}\n", "\u{feff}garbage"] {
        assert_eq!(made(input).as_str(), Some("by-name"), "{input:?}");
        assert!(salvage(input.as_bytes()).is_ok());
    }
    let nameless = ImportOptions { salvage: true, ..ImportOptions::default() };
    assert_eq!(
        read_with(&b"x\n"[..], &nameless).err().map(|e| e.kind()),
        Some(crate::ErrorKind::Corrupt)
    );
}

#[test]
fn v3_a_long_tail_without_an_event_is_kept() {
    let tail = "no event\n".repeat(200_000);
    let input = sample() + &tail;
    assert_eq!(salvage(input.as_bytes()).unwrap(), (10, 200_000));
    let input = sample() + "no event\n";
    assert_eq!(salvage(input.as_bytes()).unwrap(), (10, 0));
}

#[test]
fn lines_and_data_over_their_limits_are_kept_in_parts() {
    let big =
        format!("{{\"type\":\"x\",\"seq\":10,\"time\":1,\"data\":\"{}\"}}\n", "y".repeat(9_000));
    let input = sample() + &big + "{\"type\":\"x\",\"seq\":11,\"time\":1,\"data\":1}";
    for (line_bytes_max, event_bytes_max) in [(1_000, 48 << 20), (64 << 20, 1_000), (900, 1_000)] {
        let options = ImportOptions { line_bytes_max, event_bytes_max, ..options() };
        let (outcome, kept) = read_with(input.as_bytes(), &options).unwrap();
        assert_eq!((outcome.salvaged, outcome.aside.len()), (2, 2));
        let mut back = Vec::new();
        for event in kept.events.iter().skip(10) {
            let part = read_aside(&event.data).unwrap();
            back.extend(part.bytes);
            back.extend((!part.after && !part.unended).then_some(b'\n'));
        }
        assert_eq!(back, input.as_bytes()[sample().len()..]);
    }
}

/// One change of a few bytes at a place.
fn damage(input: &[u8], place: usize, how: usize) -> Vec<u8> {
    let mut out = input.to_vec();
    match how {
        0 => out[place] ^= 1 << (place % 8),
        1 => drop(out.drain(place..(place + 7).min(input.len()))),
        2 => drop(out.splice(place..place, *b"\0\n{\"a\":1}\xff")),
        _ => out[place..(place + 40).min(input.len())].fill(0),
    }
    out
}

#[test]
fn damage_anywhere_loses_nothing() {
    let text = sample();
    let (mut held, mut aside) = (0, 0);
    for place in 0..text.len() {
        for how in 0..4 {
            let input = damage(text.as_bytes(), place, how);
            match salvage(&input) {
                Ok((_, lines)) => {
                    held += 1;
                    aside += u64::from(lines > 0);
                }
                Err(why) => panic!("damage {how} at {place}: {why}"),
            }
        }
    }
    assert!(aside > held / 2, "{aside} of {held}");
}

#[test]
fn m2_whole_frames_around_a_damaged_one_are_kept() {
    let packed = compress(&sample(), 3);
    let (mut gaps, mut plain) = (0, 0);
    for place in 0..packed.len() {
        for how in 0..4 {
            let input = damage(&packed, place, how);
            let done = Salvaged::of(&input).unwrap();
            if let Err(why) = done.check() {
                panic!("damage {how} at {place}: {why}");
            }
            gaps += u64::from(!done.gaps.is_empty());
            plain += u64::from(!done.outcome.compressed);
        }
    }
    assert!(gaps > packed.len() as u64 * 2 && plain < 60, "{gaps} of {}, {plain}", packed.len());
    // One flipped bit in the second of five frames: the other four are there.
    let starts: Vec<usize> =
        (0..packed.len()).filter(|at| packed[*at..].starts_with(b"\x28\xB5\x2F\xFD")).collect();
    let mut input = packed.clone();
    input[starts[2] - 1] ^= 4;
    let done = Salvaged::of(&input).unwrap();
    assert_eq!((done.prefix, done.gaps.len(), done.lines.len()), (0, 1, 7));
}
