//! Packed rows: one line that stands for a run of stream chunks.
//!
//! # Invariants
//! R1. Members come out with `data` in one layout; numbers and strings keep the text they have in the row.
//! R2. A row is checked whole before its first member is given: exact keys, at least one member, one gap
//!     between neighbours, and every seq and time a safe integer.
//!
//! # Units
//! `seq0`: seq of the first member. `time0`: its time in Unix milliseconds; gaps are differences of those.

use memchr::{memchr, memchr2};

use super::write::{push_i64, push_u64};
use crate::json::{self, Kind, Members, unescape};
use crate::limits::SAFE_INTEGER_MAX;
use crate::{Result, Seq};

/// What a row's members are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RowKind {
    /// Parts of an answer.
    Text,
    /// Parts of its reasoning.
    Reasoning,
    /// Parts of the arguments of a tool call.
    ToolCall,
}

impl RowKind {
    pub(super) const ALL: [Self; 3] = [Self::Text, Self::Reasoning, Self::ToolCall];

    /// The kind of row with this `type`.
    pub(super) fn of_tag(tag: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.tag().as_bytes() == tag)
    }

    /// The `type` of the row.
    pub(super) const fn tag(self) -> &'static str {
        match self {
            Self::Text => "text-chunks",
            Self::Reasoning => "reasoning-chunks",
            Self::ToolCall => "tool-call-chunks",
        }
    }

    /// The `type` of the chunk in each member.
    pub(super) const fn delta(self) -> &'static str {
        match self {
            Self::Text => "text-delta",
            Self::Reasoning => "reasoning-delta",
            Self::ToolCall => "tool-call-delta",
        }
    }

    /// The key of the strings in the row.
    pub(super) const fn many(self) -> &'static str {
        if matches!(self, Self::ToolCall) { "args" } else { "texts" }
    }

    /// The key of the string in a member.
    pub(super) const fn one(self) -> &'static str {
        if matches!(self, Self::ToolCall) { "argumentsDelta" } else { "text" }
    }
}

/// Type of the events that a row stands for.
pub(super) const CHUNK_TYPE: &[u8] = b"assistant/chunk";

/// What the members of a run share: raw JSON text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shared<'a> {
    pub(super) kind: RowKind,
    pub(super) turn: &'a [u8],
    pub(super) step: &'a [u8],
    pub(super) index: &'a [u8],
    /// Id of the tool call; for no other kind.
    pub(super) id: Option<&'a [u8]>,
    /// Its name, when it has one.
    pub(super) name: Option<&'a [u8]>,
}

impl Shared<'_> {
    /// Appends the data of a member, up to its string.
    pub(super) fn open_member(&self, out: &mut Vec<u8>) {
        let delta = self.kind.delta().as_bytes();
        push_all(out, &[b"{\"turn\":", self.turn, b",\"step\":", self.step]);
        push_all(out, &[b",\"chunk\":{\"type\":\"", delta, b"\",\"index\":", self.index]);
        self.push_call(out);
        push_all(out, &[b",\"", self.kind.one().as_bytes(), b"\":"]);
    }

    /// Appends what is special to tool calls, with a comma before each member.
    pub(super) fn push_call(&self, out: &mut Vec<u8>) {
        if let Some(id) = self.id {
            push_all(out, &[b",\"id\":", id]);
        }
        if let Some(name) = self.name {
            push_all(out, &[b",\"name\":", name]);
        }
    }
}

/// What stands after the string of a member.
pub(super) const MEMBER_END: &[u8] = b"}}";

pub(super) fn push_all(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// A row that was checked whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    shared: Shared<'a>,
    seq0: Seq,
    time0: i64,
    /// The array of gaps.
    gaps: &'a [u8],
    /// The array of strings.
    strings: &'a [u8],
    members: u64,
}

impl<'a> Row<'a> {
    /// Checks the parts of a row (R2). `data` must be valid JSON.
    ///
    /// # Errors
    /// What is wrong with the row.
    pub(super) fn new(
        kind: RowKind,
        seq0: Seq,
        time0: i64,
        data: &'a [u8],
    ) -> std::result::Result<Self, &'static str> {
        if let Some(fields) = RowFields::canonical(kind, data)
            && let Ok(row) = Self::of_fields(kind, seq0, time0, &fields)
        {
            return Ok(row);
        }
        Self::of_fields(kind, seq0, time0, &RowFields::split(kind, data)?)
    }

    fn of_fields(
        kind: RowKind,
        seq0: Seq,
        time0: i64,
        fields: &RowFields<'a>,
    ) -> std::result::Result<Self, &'static str> {
        let number = |text: Option<&'a [u8]>, what| match text {
            Some(text) if json::kind(text) == Some(Kind::Number) => Ok(text),
            _ => Err(what),
        };
        let string = |text: &'a [u8]| json::is_string(text);
        let is_call = kind == RowKind::ToolCall;
        if is_call && !fields.id.is_some_and(string) {
            return Err("its id must be a string");
        }
        if fields.name.is_some_and(|name| !string(name)) {
            return Err("its name must be a string");
        }
        let shared = Shared {
            kind,
            turn: number(fields.turn, "its turn must be a number")?,
            step: number(fields.step, "its step must be a number")?,
            index: number(fields.index, "its index must be a number")?,
            id: fields.id,
            name: fields.name,
        };
        let gaps =
            fields.dt.filter(|text| json::is_array(text)).ok_or("its dt must be an array")?;
        let strings = fields
            .strings
            .filter(|text| json::is_array(text))
            .ok_or("its texts or args must be an array")?;
        let mut members = 0_u64;
        let mut elements = Flat::new(strings);
        for element in &mut elements {
            if element.first() != Some(&b'"') {
                return Err("its members must be strings");
            }
            members += 1;
        }
        if elements.rest != b"]" {
            return Err("its texts or args must stand alone");
        }
        if members == 0 {
            return Err("it has no members");
        }
        if seq0.saturating_add(members - 1) > SAFE_INTEGER_MAX {
            return Err("its last seq is too large");
        }
        let row = Self { shared, seq0, time0, gaps, strings, members };
        row.check_times()?;
        Ok(row)
    }

    fn check_times(&self) -> std::result::Result<(), &'static str> {
        let (mut time, mut count) = (self.time0, 0_u64);
        for gap in Flat::new(self.gaps) {
            let gap = json::safe_integer(gap).ok_or("its dt must hold safe integers")?;
            time = time.saturating_add(gap);
            if time.unsigned_abs() > SAFE_INTEGER_MAX {
                return Err("a time in it is too large");
            }
            count += 1;
        }
        if count != self.members - 1 {
            return Err("its dt must have one entry less than it has members");
        }
        Ok(())
    }

    /// Seq of the first member.
    pub(super) fn seq0(&self) -> Seq {
        self.seq0
    }

    /// Bytes that the data of no member is longer than.
    pub(super) fn member_bytes_max(&self) -> usize {
        let Shared { turn, step, index, id, name, .. } = self.shared;
        let shared = [Some(turn), Some(step), Some(index), id, name];
        let lengths = shared.into_iter().flatten().map(<[u8]>::len);
        self.strings.len().saturating_add(lengths.sum()).saturating_add(160)
    }

    /// Gives the members in order: time and data. `scratch` holds one data at a time.
    pub(super) fn for_each(
        &self,
        scratch: &mut Vec<u8>,
        mut f: impl FnMut(i64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        scratch.clear();
        self.shared.open_member(scratch);
        let head = scratch.len();
        let mut gaps = Flat::new(self.gaps);
        let mut time = self.time0;
        for string in Flat::new(self.strings) {
            scratch.truncate(head);
            push_all(scratch, &[string, MEMBER_END]);
            f(time, scratch)?;
            let gap = gaps.next().and_then(json::safe_integer).unwrap_or(0);
            time = time.saturating_add(gap);
        }
        Ok(())
    }
}

/// The members of a row's data, last ones of equal keys.
#[derive(Default)]
struct RowFields<'a> {
    turn: Option<&'a [u8]>,
    step: Option<&'a [u8]>,
    index: Option<&'a [u8]>,
    dt: Option<&'a [u8]>,
    id: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    strings: Option<&'a [u8]>,
}

impl<'a> RowFields<'a> {
    /// The parts of data that has its keys in the order of writers, with nothing between its tokens. The
    /// text of the strings may go on behind their array.
    fn canonical(kind: RowKind, data: &'a [u8]) -> Option<Self> {
        let (turn, rest) = take_number(data.strip_prefix(b"{\"turn\":")?)?;
        let (step, rest) = take_number(rest.strip_prefix(b",\"step\":")?)?;
        let (index, rest) = take_number(rest.strip_prefix(b",\"index\":")?)?;
        let rest = rest.strip_prefix(b",\"dt\":")?;
        let (dt, mut rest) = rest.split_at_checked(memchr(b']', rest)? + 1)?;
        let (mut id, mut name) = (None, None);
        if kind == RowKind::ToolCall {
            let (text, after) = take_string(rest.strip_prefix(b",\"id\":")?)?;
            (id, rest) = (Some(text), after);
            if let Some(after) = rest.strip_prefix(b",\"name\":") {
                let (text, after) = take_string(after)?;
                (name, rest) = (Some(text), after);
            }
        }
        let rest = rest.strip_prefix(b",\"")?.strip_prefix(kind.many().as_bytes())?;
        let strings = rest.strip_prefix(b"\":")?.strip_suffix(b"}")?;
        Some(Self {
            turn: Some(turn),
            step: Some(step),
            index: Some(index),
            dt: Some(dt),
            id,
            name,
            strings: Some(strings),
        })
    }

    fn split(kind: RowKind, data: &'a [u8]) -> std::result::Result<Self, &'static str> {
        if !json::is_object(data) {
            return Err("its data must be an object");
        }
        let is_call = kind == RowKind::ToolCall;
        let mut fields = Self::default();
        for (raw, value) in Members::new(data) {
            let key = unescape(raw);
            let slot = match &*key {
                b"turn" => &mut fields.turn,
                b"step" => &mut fields.step,
                b"index" => &mut fields.index,
                b"dt" => &mut fields.dt,
                b"id" if is_call => &mut fields.id,
                b"name" if is_call => &mut fields.name,
                other if other == kind.many().as_bytes() => &mut fields.strings,
                _ => return Err("its data has a key that a row does not have"),
            };
            *slot = Some(value);
        }
        Ok(fields)
    }
}

/// Elements of an array of strings and numbers in text that is known to be valid, at the speed of a search.
/// Other elements come out in pieces, the first of which starts like neither.
struct Flat<'a> {
    rest: &'a [u8],
}

impl<'a> Flat<'a> {
    fn new(array: &'a [u8]) -> Self {
        Self { rest: array.get(1..).unwrap_or_default() }
    }
}

impl<'a> Iterator for Flat<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while let [b' ' | b'\t' | b'\n' | b'\r' | b',', rest @ ..] = self.rest {
            self.rest = rest;
        }
        let text = self.rest;
        let end = match text.first()? {
            b']' => return None,
            b'"' => string_end(text)?,
            _ => {
                text.iter().position(|b| matches!(b, b',' | b']' | b' ' | b'\t' | b'\n' | b'\r'))?
            }
        };
        let (element, rest) = text.split_at_checked(end)?;
        self.rest = rest;
        Some(element)
    }
}

/// Length of the valid JSON string at the start of `text`, quotes included.
pub(super) fn string_end(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        let hit = at + memchr2(b'"', b'\\', text.get(at..)?)?;
        if text.get(hit) == Some(&b'"') {
            return Some(hit + 1);
        }
        at = hit + 2;
    }
}

/// A number and the comma after it, at the start of valid text, with nothing between them.
pub(super) fn take_number(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == b',')?;
    let (number, rest) = text.split_at(end);
    let first = json::kind_of(*number.first()?)?;
    // Whitespace after a number would be lost with the row.
    let tight = !number.last().is_some_and(|byte| json::is_space(*byte));
    (first == Kind::Number && tight).then_some((number, rest))
}

/// A string at the start of valid text.
pub(super) fn take_string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if text.first() != Some(&b'"') {
        return None;
    }
    text.split_at_checked(string_end(text)?)
}

/// Appends the envelope of an event up to its data.
pub(super) fn open_event(out: &mut Vec<u8>, seq: Seq, time: i64) {
    push_all(out, &[b"{\"type\":\"", CHUNK_TYPE, b"\",\"seq\":"]);
    push_u64(out, seq);
    out.extend_from_slice(b",\"time\":");
    push_i64(out, time);
    out.extend_from_slice(b",\"data\":");
}
