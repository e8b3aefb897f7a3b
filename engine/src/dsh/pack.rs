//! Packs runs of stream chunks into rows while events go by.
//!
//! # Invariants
//! P1. What is written reads back as the same events, byte for byte of their data.
//! P2. A run is as long as it can be: runs are cut by other events and by the end only.
//! P3. A run of fewer than three is written as events.
//! P4. The memory of a run is the text of its row.

use super::rows::{
    CHUNK_TYPE, MEMBER_END, RowKind, Shared, open_event, push_all, take_number, take_string,
};
use super::write::{push_i64, push_u64, write_event};
use crate::limits::SAFE_INTEGER_MAX;
use crate::{EventRef, Result, Seq};

/// Fewest events that make a row.
const RUN_MIN: u64 = 3;

/// Writes events as lines, runs of three or more chunks as packed rows (dsh-spec.md section 8.4).
///
/// Events must come in the order of their seq. [`PackWriter::finish`] must be called after the last.
///
/// ```
/// use everlog::{EventRef, dsh::PackWriter};
/// let mut pack = PackWriter::new();
/// let mut out = Vec::new();
/// for (seq, text) in [(9, "a"), (10, ""), (11, "b")] {
///     let data = format!(
///         r#"{{"turn":4,"step":2,"chunk":{{"type":"text-delta","index":1,"text":"{text}"}}}}"#
///     );
///     let event = EventRef {
///         seq,
///         time_ms: 50,
///         event_type: b"assistant/chunk",
///         data: data.as_bytes(),
///         surface_op: None,
///         sources: None,
///         ignorable: false,
///         surface_first: false,
///     };
///     pack.push(&event, &mut out)?;
/// }
/// pack.finish(&mut out);
/// let row = r#"{"type":"text-chunks","seq0":9,"time0":50,"data":{"turn":4,"step":2,"index":1,"#;
/// assert_eq!(out, format!("{row}\"dt\":[0,0],\"texts\":[\"a\",\"\",\"b\"]}}}}\n").into_bytes());
/// # Ok::<(), everlog::Error>(())
/// ```
#[derive(Default)]
pub struct PackWriter {
    /// Events of the run; 0 without one.
    count: u64,
    /// Data of the run's events up to their strings.
    head: Vec<u8>,
    seq0: Seq,
    time0: i64,
    last_time: i64,
    /// The gaps, with commas between them.
    gaps: Vec<u8>,
    /// The strings, with commas between them.
    strings: Vec<u8>,
    /// Length of the first string.
    first_string: usize,
}

impl PackWriter {
    /// A writer without a run.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next event. Lines are appended to `out` when it is known what they are. [`PackWriter`] has an example.
    ///
    /// # Errors
    /// `Invalid`, as for [`write_event`]. The event was not taken.
    pub fn push(&mut self, event: &EventRef<'_>, out: &mut Vec<u8>) -> Result<()> {
        if let Some(string) = self.next_string(event) {
            self.strings.push(b',');
            if self.count > 1 {
                self.gaps.push(b',');
            }
            push_i64(&mut self.gaps, event.time_ms - self.last_time);
            self.strings.extend_from_slice(string);
        } else {
            self.finish(out);
            let Some((_, string)) = chunk_of(event) else { return write_event(out, event) };
            let head = event.data.len().saturating_sub(string.len() + MEMBER_END.len());
            self.head.extend_from_slice(event.data.get(..head).unwrap_or_default());
            self.seq0 = event.seq;
            self.time0 = event.time_ms;
            self.first_string = string.len();
            self.strings.extend_from_slice(string);
        }
        self.last_time = event.time_ms;
        self.count += 1;
        Ok(())
    }

    /// Writes what is left of a run. The writer can be used again.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let mut member = std::mem::take(&mut self.head);
        push_all(&mut member, &[b"\"\"", MEMBER_END]);
        if let Some((shared, _)) = split_chunk(&member) {
            if self.count >= RUN_MIN {
                self.write_row(&shared, out);
            } else {
                self.write_events(&shared, out);
            }
        }
        member.clear();
        self.head = member;
        self.count = 0;
        self.gaps.clear();
        self.strings.clear();
    }

    /// The string of an event that continues the run: equal up to there, so equal in all they share.
    fn next_string<'a>(&self, event: &EventRef<'a>) -> Option<&'a [u8]> {
        if self.count == 0
            || !can_pack(event)
            || event.seq != self.seq0 + self.count
            || event.time_ms.abs_diff(self.last_time) > SAFE_INTEGER_MAX
        {
            return None;
        }
        let (string, rest) = take_string(event.data.strip_prefix(&self.head[..])?)?;
        (rest == MEMBER_END).then_some(string)
    }

    fn write_row(&self, shared: &Shared<'_>, out: &mut Vec<u8>) {
        let tag = shared.kind.tag().as_bytes();
        push_all(out, &[b"{\"type\":\"", tag, b"\",\"seq0\":"]);
        push_u64(out, self.seq0);
        out.extend_from_slice(b",\"time0\":");
        push_i64(out, self.time0);
        push_all(out, &[b",\"data\":{\"turn\":", shared.turn, b",\"step\":", shared.step]);
        push_all(out, &[b",\"index\":", shared.index, b",\"dt\":[", &self.gaps, b"]"]);
        shared.push_call(out);
        let many = shared.kind.many().as_bytes();
        push_all(out, &[b",\"", many, b"\":[", &self.strings, b"]}}\n"]);
    }

    fn write_events(&self, shared: &Shared<'_>, out: &mut Vec<u8>) {
        let (first, rest) = self.strings.split_at(self.first_string.min(self.strings.len()));
        let second = rest.get(1..);
        let times = [self.time0, self.last_time];
        for ((seq, time), string) in (self.seq0..).zip(times).zip([Some(first), second]) {
            let Some(string) = string else { break };
            open_event(out, seq, time);
            shared.open_member(out);
            push_all(out, &[string, MEMBER_END, b"}\n"]);
        }
    }
}

/// Whether the envelope of an event is one that a row can hold.
fn can_pack(event: &EventRef<'_>) -> bool {
    event.event_type == CHUNK_TYPE
        && event.surface_op.is_none()
        && event.sources.is_none()
        && !event.ignorable
        && event.seq <= SAFE_INTEGER_MAX
        && event.time_ms.unsigned_abs() <= SAFE_INTEGER_MAX
}

/// What an event shares with its run, and its string; nothing for an event that no row can hold.
fn chunk_of<'a>(event: &EventRef<'a>) -> Option<(Shared<'a>, &'a [u8])> {
    if can_pack(event) { split_chunk(event.data) } else { None }
}

/// Takes data apart that is valid JSON and has exactly the layout in which members come out of a row.
fn split_chunk(data: &[u8]) -> Option<(Shared<'_>, &[u8])> {
    let rest = data.strip_prefix(b"{\"turn\":")?;
    let (turn, rest) = take_number(rest)?;
    let rest = rest.strip_prefix(b",\"step\":")?;
    let (step, rest) = take_number(rest)?;
    let rest = rest.strip_prefix(b",\"chunk\":{\"type\":\"")?;
    let (kind, rest) = RowKind::ALL
        .into_iter()
        .find_map(|kind| Some((kind, rest.strip_prefix(kind.delta().as_bytes())?)))?;
    let rest = rest.strip_prefix(b"\",\"index\":")?;
    let (index, mut rest) = take_number(rest)?;
    let (mut id, mut name) = (None, None);
    if kind == RowKind::ToolCall {
        let (text, after) = take_string(rest.strip_prefix(b",\"id\":")?)?;
        id = Some(text);
        rest = after;
        if let Some(after) = rest.strip_prefix(b",\"name\":") {
            let (text, after) = take_string(after)?;
            name = Some(text);
            rest = after;
        }
    }
    let rest = rest.strip_prefix(b",\"")?.strip_prefix(kind.one().as_bytes())?;
    let (string, rest) = take_string(rest.strip_prefix(b"\":")?)?;
    (rest == MEMBER_END).then_some((Shared { kind, turn, step, index, id, name }, string))
}
