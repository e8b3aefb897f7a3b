//! Lines of the fleet: events as JSONL, one event a line or with runs of stream chunks packed.
//!
//! # Invariants
//! L1. Keys of a line stand in the order type, seq, time, data, sourceEventSeqs, surfaceOp, and nothing is spaced.
//! L2. Packing takes whole runs of three or more deltas that differ in text and time only, as if the session had been
//!     appended in one batch.
//!
//! # Units
//! `seq`: events from 0. `time_ms`: Unix milliseconds.

use super::{DeltaPlace, FleetEvent, FleetOp};

/// Appends one event a line.
pub(super) fn write_plain(events: &[FleetEvent], out: &mut String) {
    for (seq, event) in events.iter().enumerate() {
        write_event(seq, event, out);
    }
}

/// Appends events with their runs of deltas as rows (L2).
pub(super) fn write_packed(events: &[FleetEvent], out: &mut String) {
    let mut seq = 0;
    while seq < events.len() {
        let run = run_len(&events[seq..]);
        if run >= 3 {
            write_row(seq, &events[seq..seq + run], out);
            seq += run;
        } else {
            write_event(seq, &events[seq], out);
            seq += 1;
        }
    }
}

fn write_event(seq: usize, event: &FleetEvent, out: &mut String) {
    out.push_str(&format!(
        "{{\"type\":\"{}\",\"seq\":{seq},\"time\":{},\"data\":{}",
        event.event_type, event.time_ms, event.data
    ));
    if let Some(sources) = &event.sources {
        out.push_str(",\"sourceEventSeqs\":[");
        push_list(sources.iter(), out);
        out.push(']');
    }
    match event.surface_op {
        Some(FleetOp::Append) => out.push_str(",\"surfaceOp\":\"append\""),
        Some(FleetOp::Replace { start, end }) => out.push_str(&format!(
            ",\"surfaceOp\":{{\"op\":\"replace\",\"start\":{start},\"end\":{end}}}"
        )),
        None => {}
    }
    out.push_str("}\n");
}

/// How many of the first events make one run; 0 when the first is no delta.
fn run_len(events: &[FleetEvent]) -> usize {
    let Some(first) = events.first().and_then(|e| e.delta.as_ref()) else { return 0 };
    events.iter().take_while(|e| e.delta.as_ref().is_some_and(|d| d.same_run(first))).count()
}

fn write_row(seq0: usize, run: &[FleetEvent], out: &mut String) {
    let Some(first) = run.first() else { return };
    let Some(place) = &first.delta else { return };
    out.push_str(&format!(
        "{{\"type\":\"{}-chunks\",\"seq0\":{seq0},\"time0\":{},\"data\":{{\"turn\":{},\"step\":{},\"index\":{},\"dt\":[",
        place.kind, first.time_ms, place.turn, place.step, place.index
    ));
    push_list(run.windows(2).map(|pair| pair[1].time_ms - pair[0].time_ms), out);
    out.push(']');
    let list = match &place.call {
        Some((id, name)) => {
            out.push_str(&format!(",\"id\":\"{id}\""));
            if let Some(name) = name {
                out.push_str(&format!(",\"name\":\"{name}\""));
            }
            "args"
        }
        None => "texts",
    };
    out.push_str(&format!(",\"{list}\":["));
    push_list(run.iter().filter_map(text_of), out);
    out.push_str("]}}\n");
}

/// The string literal of a delta, as it stands in `data`.
fn text_of(event: &FleetEvent) -> Option<&str> {
    event.delta.as_ref().and_then(|d| event.data.get(d.text.clone()))
}

fn push_list<T: std::fmt::Display>(items: impl Iterator<Item = T>, out: &mut String) {
    for (n, item) in items.enumerate() {
        if n > 0 {
            out.push(',');
        }
        out.push_str(&item.to_string());
    }
}

impl DeltaPlace {
    fn same_run(&self, other: &Self) -> bool {
        (self.kind, self.turn, self.step, self.index)
            == (other.kind, other.turn, other.step, other.index)
            && self.call == other.call
    }
}
