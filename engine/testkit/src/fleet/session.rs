//! One session of the fleet: what an agent loop appends, in its order, until the count of events is reached.
//!
//! # Invariants
//! B1. A step that runs a tool is begun only when the last step still fits after it, so the last step can take up exactly
//!     what is left.
//! B2. `surface` holds the seqs of the nodes that are on the surface, in order.
//!
//! # Units
//! `room`: events that may still be appended.

use super::{DeltaPlace, FleetEvent, FleetOp, text};
use crate::rng::Rng;

const MODEL: &str = "\"provider\":\"example\",\"model\":\"example-large\"";
const TOOLS: [&str; 4] = ["read_file", "search", "run", "edit"];

/// Most events of the last step of a session with one delta, its turn's end included.
const LAST_STEP_MIN: usize = 11;
/// Most events between two steps: a turn's end, a compaction, the next turn's start, its message, a title.
const BETWEEN_MAX: usize = 8;

/// Lengths of the blocks of a step, in deltas.
struct Sizes {
    reasoning: u64,
    text: u64,
    tool: u64,
    steps: u64,
    /// Nodes on the surface that a session to be compacted gathers first.
    nodes: usize,
    /// Nodes that a compaction leaves.
    kept: usize,
}

const SMALL: Sizes = Sizes { reasoning: 3, text: 4, tool: 3, steps: 2, nodes: 3, kept: 1 };
const LARGE: Sizes = Sizes { reasoning: 16, text: 22, tool: 8, steps: 4, nodes: 14, kept: 3 };

impl Sizes {
    /// Most events of a step with a tool.
    fn step_max(&self) -> usize {
        let blocks = (self.reasoning + self.text + self.tool) as usize + 3 * 2;
        1 + 2 + blocks + 2 + 1 + 5 + 1
    }
}

pub(super) struct Builder {
    rng: Rng,
    events: Vec<FleetEvent>,
    time_ms: i64,
    k: usize,
    events_wanted: usize,
    events_max: usize,
    surface: Vec<u64>,
    turn: u64,
    step: u64,
    sizes: &'static Sizes,
}

impl Builder {
    pub(super) fn new(mut rng: Rng, time_ms: i64, k: usize, events: usize) -> Self {
        // A killed session is one that would have gone on.
        let events_max = if k % 7 == 6 { events + 1 + rng.index(10) } else { events };
        let sizes = if events < 300 { &SMALL } else { &LARGE };
        Self {
            rng,
            events: Vec::with_capacity(events_max),
            time_ms,
            k,
            events_wanted: events,
            events_max,
            surface: Vec::new(),
            turn: 0,
            step: 0,
            sizes,
        }
    }

    pub(super) fn run(mut self) -> Vec<FleetEvent> {
        loop {
            self.start_turn();
            let steps = 1 + self.rng.below(self.sizes.steps);
            for _ in 0..steps {
                if self.room() < self.sizes.step_max() + BETWEEN_MAX + LAST_STEP_MIN {
                    self.last_step();
                    self.end_turn();
                    self.events.truncate(self.events_wanted);
                    return self.events;
                }
                self.tool_step();
            }
            self.end_turn();
            if self.k.is_multiple_of(5) && self.surface.len() >= self.sizes.nodes {
                self.compact();
            }
        }
    }

    fn room(&self) -> usize {
        self.events_max - self.events.len()
    }

    fn push(&mut self, event_type: &'static str, data: String) -> u64 {
        let stream = event_type == "assistant/chunk";
        self.time_ms += self.rng.range(1, if stream { 60 } else { 400 }) as i64;
        if self.rng.chance(1, 250) {
            self.time_ms -= self.rng.range(60, 500) as i64;
        }
        self.events.push(FleetEvent {
            event_type,
            time_ms: self.time_ms,
            data,
            sources: None,
            surface_op: None,
            delta: None,
        });
        self.events.len() as u64 - 1
    }

    fn append(&mut self, event_type: &'static str, data: String, sources: Option<Vec<u64>>) {
        let seq = self.push(event_type, data);
        if let Some(event) = self.events.last_mut() {
            event.sources = sources;
            event.surface_op = Some(FleetOp::Append);
        }
        self.surface.push(seq);
    }

    fn start_turn(&mut self) {
        self.turn += 1;
        self.step = 0;
        self.push("turn/start", format!("{{\"turn\":{}}}", self.turn));
        let id = text::uuid(&mut self.rng);
        let mut data = format!(
            "{{\"id\":\"{id}\",\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":\""
        );
        let bytes = self.rng.range(30, 300) as usize;
        text::prose(&mut self.rng, bytes, &mut data);
        data.push_str("\"}],\"source\":{\"kind\":\"user\"}}");
        self.append("user/message", data, None);
        if self.turn == 1 {
            let seq = self.events.len() - 1;
            let mut data = String::from("{\"title\":\"");
            text::plain(&mut self.rng, 4, " ", &mut data);
            data.push_str(&format!(
                "\",\"messageSeqs\":[{seq}],\"source\":{{\"kind\":\"fallback\"}}}}"
            ));
            self.push("session/title", data);
        }
    }

    fn end_turn(&mut self) {
        let data = format!("{{\"turn\":{},\"reason\":{{\"kind\":\"completed\"}}}}", self.turn);
        self.push("turn/end", data);
    }

    fn at(&self) -> String {
        format!("\"turn\":{},\"step\":{}", self.turn, self.step)
    }

    fn start_step(&mut self) {
        self.step += 1;
        self.push("step/start", format!("{{{}}}", self.at()));
        if self.turn == 1 && self.step == 1 {
            let data = self.request_header();
            self.push("request/header", data);
            self.push("request/context", format!("{{{MODEL},\"contextWindow\":131072}}"));
        }
    }

    fn request_header(&mut self) -> String {
        let large = std::ptr::eq(self.sizes, &LARGE);
        let mut data =
            format!("{{\"header\":{{\"config\":{{{MODEL},\"maxTokens\":8192}},\"system\":\"");
        text::prose(&mut self.rng, if large { 3_000 } else { 400 }, &mut data);
        data.push_str("\",\"tools\":[");
        for (n, name) in TOOLS.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            data.push_str(&format!("{comma}{{\"name\":\"{name}\",\"description\":\""));
            text::prose(&mut self.rng, if large { 160 } else { 40 }, &mut data);
            data.push_str(
                "\",\"parameters\":{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},\
                 \"limit\":{\"type\":\"integer\"}},\"required\":[\"path\"]}}",
            );
        }
        data.push_str("]},\"reason\":\"initial\"}");
        data
    }

    /// A step that thinks, speaks, and calls a tool.
    fn tool_step(&mut self) {
        self.start_step();
        let first_chunk = self.events.len() as u64;
        let reasoning = self.rng.range(1, self.sizes.reasoning) as usize;
        let speech = self.rng.range(2, self.sizes.text) as usize;
        let parts = self.rng.range(2, self.sizes.tool) as usize;
        let mut content = vec![self.stream_text("reasoning", 0, reasoning)];
        content.push(self.stream_text("text", 1, speech));
        let (call_id, name, arguments, block) = self.stream_call(2, parts);
        content.push(block);
        self.finish("tool-calls", first_chunk, &content);
        self.run_tool(&call_id, name, &arguments);
        self.push("step/end", format!("{{{}}}", self.at()));
    }

    /// The step that answers; its text takes up the room that is left but for the end of the turn.
    fn last_step(&mut self) {
        self.start_step();
        let first_chunk = self.events.len() as u64;
        let mut content = Vec::new();
        let reasoning = self.sizes.reasoning as usize;
        if self.room() > reasoning + 2 + LAST_STEP_MIN {
            content.push(self.stream_text("reasoning", 0, reasoning));
        }
        let deltas = self.room().saturating_sub(7).max(1);
        content.push(self.stream_text("text", content.len(), deltas));
        self.finish("stop", first_chunk, &content);
        self.push("step/end", format!("{{{}}}", self.at()));
    }

    fn chunk(&mut self, chunk: &str) {
        self.push("assistant/chunk", format!("{{{},\"chunk\":{{{chunk}}}}}", self.at()));
    }

    fn delta(
        &mut self,
        kind: &'static str,
        index: usize,
        call: Option<(String, Option<&'static str>)>,
        piece: &str,
    ) {
        let mut data =
            format!("{{{},\"chunk\":{{\"type\":\"{kind}-delta\",\"index\":{index},", self.at());
        match &call {
            Some((id, Some(name))) => {
                data.push_str(&format!("\"id\":\"{id}\",\"name\":\"{name}\",\"argumentsDelta\":"));
            }
            Some((id, None)) => data.push_str(&format!("\"id\":\"{id}\",\"argumentsDelta\":")),
            None => data.push_str("\"text\":"),
        }
        let text_start = data.len();
        data.push_str(&format!("\"{piece}\""));
        let place = DeltaPlace {
            kind,
            turn: self.turn,
            step: self.step,
            index,
            call,
            text: text_start..data.len(),
        };
        data.push_str("}}");
        self.push("assistant/chunk", data);
        if let Some(event) = self.events.last_mut() {
            event.delta = Some(place);
        }
    }

    /// Streams a block of text; gives the whole block.
    fn stream_text(&mut self, kind: &'static str, index: usize, deltas: usize) -> String {
        self.chunk(&format!("\"type\":\"block-start\",\"index\":{index},\"blockType\":\"{kind}\""));
        let mut whole = String::new();
        let mut half = false;
        for n in 0..deltas {
            // The stream may cut a character beyond 16 bits in two; only the whole text has it in one piece.
            let mut piece = String::from(if half { "\\ude80" } else { "" });
            let from = piece.len();
            if n % 9 != 8 {
                let bytes = self.rng.range(4, 90) as usize;
                text::prose(&mut self.rng, bytes, &mut piece);
            }
            whole.push_str(&piece[from..]);
            half = n + 1 < deltas && self.rng.chance(1, 60);
            if half {
                piece.push_str("\\ud83d");
                whole.push('\u{1f680}');
            }
            self.delta(kind, index, None, &piece);
        }
        let block = format!("{{\"type\":\"{kind}\",\"text\":\"{whole}\"}}");
        self.chunk(&format!("\"type\":\"block-end\",\"index\":{index},\"block\":{block}"));
        block
    }

    /// Streams a tool call; gives its id, name, arguments (escaped) and the whole block.
    fn stream_call(
        &mut self,
        index: usize,
        deltas: usize,
    ) -> (String, &'static str, String, String) {
        let id = format!("call_{:016x}", self.rng.next_u64());
        let name = TOOLS[self.rng.index(TOOLS.len())];
        self.chunk(&format!(
            "\"type\":\"block-start\",\"index\":{index},\"blockType\":\"tool-call\""
        ));
        let mut arguments = String::new();
        for n in 0..deltas {
            let mut piece = String::new();
            if n == 0 {
                piece.push_str("{\\\"path\\\":\\\"src/");
            }
            text::plain(&mut self.rng, 3, "/", &mut piece);
            if n + 1 == deltas {
                piece.push_str(&format!("\\\",\\\"limit\\\":{}}}", self.rng.below(500)));
            }
            arguments.push_str(&piece);
            let named = if n == 0 { Some(name) } else { None };
            self.delta("tool-call", index, Some((id.clone(), named)), &piece);
        }
        let block = format!(
            "{{\"type\":\"tool-call\",\"id\":\"{id}\",\"name\":\"{name}\",\"arguments\":\"{arguments}\"}}"
        );
        self.chunk(&format!("\"type\":\"block-end\",\"index\":{index},\"block\":{block}"));
        (id, name, arguments, block)
    }

    /// Ends a stream, then appends the message that repeats it and cites its chunks.
    fn finish(&mut self, reason: &str, first_chunk: u64, content: &[String]) {
        let usage = format!(
            "{{\"inputTokens\":{},\"outputTokens\":{},\"cacheReadTokens\":{}}}",
            self.rng.range(200, 24_000),
            self.rng.range(10, 900),
            self.rng.below(20_000)
        );
        self.chunk(&format!("\"type\":\"usage\",\"usage\":{usage}"));
        self.chunk(&format!("\"type\":\"finish\",\"reason\":{{\"kind\":\"{reason}\"}}"));
        let id = text::uuid(&mut self.rng);
        let data = format!(
            "{{{},\"message\":{{\"id\":\"{id}\",\"role\":\"assistant\",\"content\":[{}],\
             \"source\":{{\"kind\":\"model\",{MODEL}}}}},\"usage\":{usage}}}",
            self.at(),
            content.join(",")
        );
        let cited = (first_chunk..self.events.len() as u64).collect();
        self.append("assistant/message", data, Some(cited));
    }

    /// Appends the call and its result; before it the question whether it may run, after it a list of things to do.
    fn run_tool(&mut self, call_id: &str, name: &str, arguments: &str) {
        let asked = self.rng.chance(1, 6);
        let call = self.push(
            "tool/call",
            format!(
                "{{{},\"callId\":\"{call_id}\",\"name\":\"{name}\",\"arguments\":\"{arguments}\"}}",
                self.at()
            ),
        );
        if asked {
            let id = text::uuid(&mut self.rng);
            let question =
                format!("{{\"id\":\"{id}\",\"toolName\":\"{name}\",\"callId\":\"{call_id}\"}}");
            self.push("approval/asked", question);
            let answer = format!("{{\"id\":\"{id}\",\"outcome\":\"allowed-once\"}}");
            self.push("approval/decided", answer);
        }
        let data = self.tool_result(call_id);
        self.append("tool/result", data, Some(vec![call]));
        if self.rng.chance(1, 5) {
            let mut data = String::from("{\"todos\":[{\"content\":\"");
            text::plain(&mut self.rng, 5, " ", &mut data);
            data.push_str("\",\"status\":\"in_progress\"}]}");
            self.push("todo/write", data);
        }
    }

    fn tool_result(&mut self, call_id: &str) -> String {
        let failed = self.rng.chance(1, 10);
        let id = text::uuid(&mut self.rng);
        let mut data = format!(
            "{{{},\"message\":{{\"id\":\"{id}\",\"role\":\"user\",\"source\":{{\"kind\":\"tool\",\
             \"callId\":\"{call_id}\"}},\"content\":[{{\"type\":\"tool-result\",\"toolCallId\":\"{call_id}\",\
             \"content\":[{{\"type\":\"text\",\"text\":\"",
            self.at()
        );
        // 1 to 8 KiB, the short ones more often.
        let bytes =
            1_024 + self.rng.below(7_168).min(self.rng.below(7_168)).min(self.rng.below(7_168));
        text::listing(&mut self.rng, bytes as usize, &mut data);
        data.push_str(&format!("\"}}],\"isError\":{failed}}}]}}"));
        if failed {
            data.push_str(",\"error\":{\"name\":\"ToolError\",\"code\":\"TOOL_FAILED\"}");
        }
        let exit = u8::from(failed);
        let wall = self.rng.range(1, 9_000);
        data.push_str(&format!(",\"meta\":{{\"exitCode\":{exit},\"durationMs\":{wall}}}}}"));
        data
    }

    /// Replaces all but the newest nodes by a summary that cites them (B2).
    fn compact(&mut self) {
        let id = format!("compaction-{:08x}", self.rng.next_u64() >> 32);
        let shadowed: Vec<u64> =
            self.surface.drain(..self.surface.len() - self.sizes.kept).collect();
        let (Some(&start), Some(&end)) = (shadowed.first(), shadowed.last()) else { return };
        let mut summary = String::from("[{\"type\":\"text\",\"text\":\"");
        text::prose(&mut self.rng, 500, &mut summary);
        summary.push_str("\"}]");
        let seqs = shadowed.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let start_data = format!("{{\"compactionId\":\"{id}\",\"turn\":null}}");
        let mut cited = vec![self.push("compaction/start", start_data.clone())];
        let tokens = self.rng.range(500, 90_000);
        cited.push(self.push(
            "compaction/summary",
            format!(
                "{{\"compactionId\":\"{id}\",\"summary\":{summary},\"shadowedRange\":{{\"start\":{start},\
                 \"end\":{end}}},\"shadowedSeqs\":[{seqs}],\"shadowedTokenCount\":{tokens},{MODEL}}}"
            ),
        ));
        cited.extend(&shadowed);
        let message_id = text::uuid(&mut self.rng);
        let seq = self.push(
            "user/message",
            format!(
                "{{\"id\":\"{message_id}\",\"role\":\"user\",\"content\":{summary},\"source\":{{\"kind\":\"plugin\",\
                 \"plugin\":\"compaction\",\"compactionId\":\"{id}\"}}}}"
            ),
        );
        if let Some(event) = self.events.last_mut() {
            event.sources = Some(cited);
            event.surface_op = Some(FleetOp::Replace { start, end });
        }
        self.surface.insert(0, seq);
        self.push("compaction/end", start_data);
    }
}
