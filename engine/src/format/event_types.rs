//! The known event types and their codes (docs/format.md section 7.1), and what a frame's marks say about them.

/// Known types; the code of a type is its place in this list plus one.
pub(crate) const KNOWN: [&str; 48] = [
    "agent-preset/selected",
    "agent/inbox/spliced",
    "approval/asked",
    "approval/decided",
    "approval/policy",
    "assistant/chunk",
    "assistant/message",
    "command/done",
    "command/run",
    "compaction/end",
    "compaction/prune",
    "compaction/start",
    "compaction/summary",
    "feedback/record",
    "goal/change",
    "hook/invoked",
    "hook/result",
    "llm/retry",
    "llm/retry-started",
    "permission/preset",
    "plan/mode",
    "request/context",
    "request/header",
    "sandbox/mode",
    "schedule/change",
    "session/end-seed",
    "session/title",
    "session/title-llm-request",
    "step/end",
    "step/start",
    "subagent/descriptor",
    "team/member",
    "team/message/delivered",
    "team/message/queued",
    "team/task",
    "todo/write",
    "tool-workflow/agent-end",
    "tool-workflow/agent-start",
    "tool-workflow/run-end",
    "tool-workflow/run-start",
    "tool/call",
    "tool/code-dispatch",
    "tool/code-dispatch-start",
    "tool/result",
    "turn/end",
    "turn/start",
    "user/message",
    "web/deepseek-search-llm-request",
];

/// Code of a type, when it is known.
pub(crate) fn code_of(event_type: &[u8]) -> Option<u8> {
    let mut at = slot_of(event_type);
    loop {
        let code = CODES[at];
        if type_of(code)? == event_type {
            return Some(code);
        }
        at = (at + 1) % SLOTS;
    }
}

/// Codes by the slot of their type or the next that is free; 0 where there is none. Most types that are not known meet
/// a free slot at once, the others after one comparison.
const SLOTS: usize = 256;
static CODES: [u8; SLOTS] = {
    let mut out = [0; SLOTS];
    let mut i = 0;
    while i < KNOWN.len() {
        let mut at = slot_of(KNOWN[i].as_bytes());
        while out[at] != 0 {
            at = (at + 1) % SLOTS;
        }
        out[at] = i as u8 + 1;
        i += 1;
    }
    out
};

/// Where the code of a type would be: its length and three of its bytes tell the known ones apart.
const fn slot_of(event_type: &[u8]) -> usize {
    let n = event_type.len();
    if n == 0 {
        return 0;
    }
    let (a, b, c) = (event_type[0], event_type[n / 2], event_type[n - 1]);
    let mix = n as u32 * 31 + a as u32 * 7 + b as u32 * 61 + c as u32 * 113;
    (mix % 251) as usize
}

/// Type of a code.
pub(crate) fn type_of(code: u8) -> Option<&'static [u8]> {
    KNOWN.get(usize::from(code.checked_sub(1)?)).map(|t| t.as_bytes())
}

/// Classes of events whose places an INDEX frame lists.
pub(crate) mod mark {
    pub(crate) const SURFACE: u8 = 0;
    pub(crate) const TURN_START: u8 = 1;
    pub(crate) const TURN_END: u8 = 2;
    pub(crate) const STEP_START: u8 = 3;
    pub(crate) const STEP_END: u8 = 4;
    pub(crate) const REQUEST: u8 = 5;
    pub(crate) const END_SEED: u8 = 6;
    pub(crate) const OTHER: u8 = 7;
    /// All classes, for the specification test.
    #[cfg(test)]
    pub(crate) const ALL: [(u8, &str); 8] = [
        (SURFACE, "SURFACE"),
        (TURN_START, "TURN_START"),
        (TURN_END, "TURN_END"),
        (STEP_START, "STEP_START"),
        (STEP_END, "STEP_END"),
        (REQUEST, "REQUEST"),
        (END_SEED, "END_SEED"),
        (OTHER, "OTHER"),
    ];
}

/// Class of the mark of an event, when it has one. Of those of class OTHER a frame has the first only.
pub(crate) fn mark_of(event_type: &[u8], has_surface_op: bool, ignorable: bool) -> Option<u8> {
    if has_surface_op {
        return Some(mark::SURFACE);
    }
    Some(match event_type {
        b"turn/start" => mark::TURN_START,
        b"turn/end" => mark::TURN_END,
        b"step/start" => mark::STEP_START,
        b"step/end" => mark::STEP_END,
        b"request/header" | b"request/context" => mark::REQUEST,
        b"session/end-seed" => mark::END_SEED,
        _ if !ignorable && code_of(event_type).is_none() => mark::OTHER,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_type_has_its_code() {
        assert!(KNOWN.is_sorted());
        for (i, t) in KNOWN.iter().enumerate() {
            let code = u8::try_from(i + 1).ok();
            assert_eq!(code_of(t.as_bytes()), code);
            assert_eq!(code.and_then(type_of), Some(t.as_bytes()));
        }
        assert_eq!((code_of(b"x"), type_of(0), type_of(49)), (None, None, None));
        assert_eq!((code_of(b""), code_of(&[0xFF; 1_024])), (None, None));
    }
}
