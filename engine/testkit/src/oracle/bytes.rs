//! Integers, varints and WTF-8, and the list of type codes, as docs/format.md gives them.
//!
//! 1. No function here panics on any input; a short read is `None` (`Cur`) or zero (`le*`).
//! 2. Varints longer than needed, or over 64 bits, are refused.

/// Types with a code: code 1 is the first.
pub(super) static TYPES: [&str; 48] = [
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

/// The code of a type, where it has one.
pub(super) fn type_code(ty: &[u8]) -> Option<u8> {
    TYPES.binary_search_by(|t| t.as_bytes().cmp(ty)).ok().map(|i| i as u8 + 1)
}

fn array<const N: usize>(b: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(part) = at.checked_add(N).and_then(|end| b.get(at..end)) {
        out.copy_from_slice(part);
    }
    out
}

pub(super) fn le16(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(b, at))
}

pub(super) fn le32(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(b, at))
}

pub(super) fn le64(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(b, at))
}

static ZEROS: [u8; 4096] = [0; 4096];

/// Is every byte zero?
pub(super) fn all_zero(b: &[u8]) -> bool {
    first_nonzero(b).is_none()
}

/// Position of the first byte that is not zero. Blocks are compared as slices: that is memcmp, which is
/// fast also where nothing is optimized.
pub(super) fn first_nonzero(b: &[u8]) -> Option<usize> {
    let mut base = 0;
    for block in b.chunks(ZEROS.len()) {
        if *block != ZEROS[..block.len()] {
            return block.iter().position(|&x| x != 0).map(|i| base + i);
        }
        base += block.len();
    }
    None
}

/// A place in a payload.
pub(super) struct Cur<'a> {
    b: &'a [u8],
    /// Bytes read so far.
    pub(super) at: usize,
}

impl<'a> Cur<'a> {
    pub(super) fn new(b: &'a [u8]) -> Self {
        Self { b, at: 0 }
    }

    pub(super) fn left(&self) -> usize {
        self.b.len() - self.at
    }

    pub(super) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let part = self.b.get(self.at..self.at.checked_add(n)?)?;
        self.at += n;
        Some(part)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        let &x = self.b.get(self.at)?;
        self.at += 1;
        Some(x)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|b| le16(b, 0))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|b| le32(b, 0))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take(8).map(|b| le64(b, 0))
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut v = 0u64;
        for i in 0..10 {
            let x = self.u8()?;
            if i == 9 && x > 1 {
                return None;
            }
            v |= u64::from(x & 0x7F) << (7 * i);
            if x < 0x80 {
                return if x == 0 && i > 0 { None } else { Some(v) };
            }
        }
        None
    }

    pub(super) fn zigzag(&mut self) -> Option<i64> {
        let n = self.varint()?;
        Some((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    /// A varint length and that many bytes.
    pub(super) fn counted(&mut self) -> Option<&'a [u8]> {
        let n = usize::try_from(self.varint()?).ok()?;
        self.take(n)
    }
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

pub(super) fn put_zigzag(out: &mut Vec<u8>, v: i64) {
    put_varint(out, ((v << 1) ^ (v >> 63)) as u64);
}

/// One code point of generalized UTF-8: value and length.
pub(super) fn code_point(b: &[u8]) -> Option<(u32, usize)> {
    let &first = b.first()?;
    let (n, low, mut v) = match first {
        0..=0x7F => return Some((u32::from(first), 1)),
        0xC2..=0xDF => (2, 0x80, u32::from(first & 0x1F)),
        0xE0..=0xEF => (3, 0x800, u32::from(first & 0x0F)),
        0xF0..=0xF4 => (4, 0x1_0000, u32::from(first & 0x07)),
        _ => return None,
    };
    for &x in b.get(1..n)? {
        if x & 0xC0 != 0x80 {
            return None;
        }
        v = v << 6 | u32::from(x & 0x3F);
    }
    (low..=0x10_FFFF).contains(&v).then_some((v, n))
}

/// Is it WTF-8: UTF-8 with lone surrogates allowed, but no high one followed by a low one?
pub(super) fn is_wtf8(b: &[u8]) -> bool {
    if std::str::from_utf8(b).is_ok() {
        return true;
    }
    let (mut at, mut high) = (0, false);
    while at < b.len() {
        let Some((v, n)) = code_point(&b[at..]) else { return false };
        if high && (0xDC00..0xE000).contains(&v) {
            return false;
        }
        high = (0xD800..0xDC00).contains(&v);
        at += n;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_shortest_and_bounded() {
        for v in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, v);
            let mut c = Cur::new(&out);
            assert_eq!((c.varint(), c.left()), (Some(v), 0));
            assert_eq!(Cur::new(&out[..out.len() - 1]).varint(), None);
        }
        assert_eq!(Cur::new(&[0x80, 0]).varint(), None);
        assert_eq!(Cur::new(&[0xFF; 10]).varint(), None);
        let mut over = [0x80; 10];
        over[9] = 2;
        assert_eq!(Cur::new(&over).varint(), None);
        for v in [0, -1, 1, i64::MIN, i64::MAX] {
            let mut out = Vec::new();
            put_zigzag(&mut out, v);
            assert_eq!(Cur::new(&out).zigzag(), Some(v));
        }
    }

    #[test]
    fn wtf8_takes_lone_surrogates_only() {
        assert!(is_wtf8("a\u{e9}\u{20ac}\u{1f600}".as_bytes()));
        assert!(is_wtf8(b"x\xED\xA0\x80y") && is_wtf8(b"\xED\xB0\x80\xED\xA0\x80"));
        assert!(!is_wtf8(b"\xED\xA0\x80\xED\xB0\x80"));
        for bad in [&b"\xC0\x80"[..], b"\x80", b"\xE0\x80\x80", b"\xF4\x90\x80\x80", b"\xE2\x82"] {
            assert!(!is_wtf8(bad), "{bad:?}");
        }
    }

    #[test]
    fn zeros_and_codes() {
        let mut b = vec![0u8; 5000];
        assert!(all_zero(&b) && first_nonzero(&[]).is_none());
        for at in [4999, 4096, 300, 255, 0] {
            b[at] = 1;
            assert_eq!(first_nonzero(&b), Some(at));
        }
        for (i, t) in TYPES.iter().enumerate() {
            assert_eq!(type_code(t.as_bytes()), Some(i as u8 + 1));
        }
        assert_eq!(type_code(b"zzz"), None);
    }
}
