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
    if event_type == b"assistant/chunk" {
        return Some(6);
    }
    let at = KNOWN.binary_search_by(|t| t.as_bytes().cmp(event_type)).ok()?;
    u8::try_from(at + 1).ok()
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
    /// All classes, for the specification test.
    #[cfg(test)]
    pub(crate) const ALL: [(u8, &str); 7] = [
        (SURFACE, "SURFACE"),
        (TURN_START, "TURN_START"),
        (TURN_END, "TURN_END"),
        (STEP_START, "STEP_START"),
        (STEP_END, "STEP_END"),
        (REQUEST, "REQUEST"),
        (END_SEED, "END_SEED"),
    ];
}

/// Class of the mark of an event, when it has one.
pub(crate) fn mark_of(event_type: &[u8], has_surface_op: bool) -> Option<u8> {
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
    }
}
