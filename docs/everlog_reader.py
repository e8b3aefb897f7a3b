#!/usr/bin/env python3
"""Dumps an Everlog store as JSONL, from docs/format.md alone: everlog_reader.py STORE [SESSION]
Each session: its header line, then one line an event. Findings go to stderr, one a line. Exit 0: none, 1: some."""
import json, os, re, struct, sys, types, zlib
TYPES = """agent-preset/selected agent/inbox/spliced approval/asked approval/decided approval/policy assistant/chunk
assistant/message command/done command/run compaction/end compaction/prune compaction/start compaction/summary
feedback/record goal/change hook/invoked hook/result llm/retry llm/retry-started permission/preset plan/mode
request/context request/header sandbox/mode schedule/change session/end-seed session/title session/title-llm-request
step/end step/start subagent/descriptor team/member team/message/delivered team/message/queued team/task todo/write
tool-workflow/agent-end tool-workflow/agent-start tool-workflow/run-end tool-workflow/run-start tool/call
tool/code-dispatch tool/code-dispatch-start tool/result turn/end turn/start user/message
web/deepseek-search-llm-request""".split()
NONE, NONZERO, findings, Obj, crc32 = 2**64 - 1, re.compile(rb"[^\0]"), [], types.SimpleNamespace, zlib.crc32
def say(*what): findings.append(print(*what, sep=": ", file=sys.stderr))
def need(holds, what):
    if not holds: raise ValueError(what)
    return holds
class Payload:
    def __init__(self, b): self.b, self.at = b, 0
    def take(self, n):
        self.at += need(n <= len(self.b) - self.at, "payload too short") * n
        return self.b[self.at - n:self.at]
    def ints(self, fmt): return struct.unpack("<" + fmt, self.take(struct.calcsize("<" + fmt)))
    def varint(self):
        bits = need(re.match(rb"[\x80-\xff]{0,9}[\0-\x7f]", self.b[self.at:self.at + 10]), "varint")[0]
        return sum((x & 127) << 7 * i for i, x in enumerate(self.take(len(bits))))
    def zigzag(self): return (n := self.varint()) >> 1 ^ -(n & 1)
def series(c, start, room):  # times and data of a series whose record begins at `start`
    n, back, t = *c.take(1), c.varint(), c
    if back: t = Payload(c.b[need(back <= start, "back") * (start - back):start])
    prefix, suffix = t.take(t.varint()), t.take(t.varint())
    times = [c.zigzag() for _ in range(need(0 < n <= room and len(prefix + suffix) <= 1024, "series") * n)]
    return [(t, prefix + c.take(size) + suffix) for t, size in zip(times, [c.varint() for _ in times])]
def events(p, flags, count, seq, where, gsn):
    c, first, end = Payload(p[:len(p) - (count - 1) // 16 * 12 * (flags & 1)]), seq, seq + count
    time = c.zigzag()
    while seq < end:
        at, head, ops, cited = c.at, c.varint(), ["", ""], [seq]
        code = c.take(c.varint() if head & 32 else 1)
        need((head & 32 or 0 < code[0] <= len(TYPES)) and (head & 6 != 6 if head < 64 else flags & 4), "head or code")
        kind = code.decode("utf-8", "surrogatepass") if head & 32 else TYPES[code[0] - 1]
        kind = re.sub("[\ud800-\udfff]", lambda m: f"\\u{ord(m[0]):04x}", json.dumps(kind, ensure_ascii=False))
        if head > 63: parts = series(c, at, need(head & ~33 == 128, "head") * min(16 - (seq - first) % 16, end - seq))
        else:
            delta, front = c.zigzag(), head >> 4 & 1
            if head & 2: ops[1 - front] = ',"surfaceOp":"append"'
            if head & 4: ops[1 - front] = f',"surfaceOp":{{"op":"replace","start":{c.varint()},"end":{c.varint()}}}'
            for _ in range(c.varint() if head & 8 else 0): cited.append(cited[-1] + c.zigzag())
            if head & 8: ops[front] = f',"sourceEventSeqs":[{",".join(map(str, cited[1:]))}]'
            parts = [(delta, c.take(c.varint()))]
        for delta, data in parts:
            line = f'{{"type":{kind},"seq":{seq},"time":{(time := time + delta)},"data":'.encode() + data
            line += ("".join(ops) + ',"ignorable":true' * (head & 1) + "}\n").encode()
            yield Obj(seq=seq, id=(*where, gsn + seq - first), line=line)
            seq += 1
    need(c.at == len(c.b), "bytes after the last record")
def control(p, kind):
    c = Payload(p)
    r = Obj(**dict(zip(("epoch", "pending", "time"), c.ints("IIq"))), owners=[], before=None)
    if kind in (17, 18): r.before = (event := c.ints("16x" * (kind == 18) + "HHIQ"))[:1] + event[2:]  # 16x: see owners
    if kind == 18: r.owners = [c.ints("QQ") for _ in range(*c.ints("H"))]
    if kind in (16, 18): r.id, r.header = c.take(*c.ints("H")), c.take(*c.ints("I"))
    if kind in (21, 22): r.gone = c.ints("QQ")
    need(c.at == len(p) or kind == 25, "payload of a control frame")
    return r
def scan(path, b, salt, limit, durable):  # yields (offset, header, payload) of each valid frame
    pos = end = 4096  # end: of the last valid frame
    while pos + 48 <= limit:
        h = struct.unpack_from("<IIIBBHQQQII", b, pos)
        after = pos + 48 + (h[1] + 7 & ~7)
        if h[3] and after <= limit and crc32(b[pos + 4:pos + 48], crc32(struct.pack("<QQ", salt, pos))) == h[0]:
            if crc32(p := b[pos + 48:pos + 48 + h[1]]) == h[2] and not any(b[pos + 48 + h[1]:after]):
                if pos > end: say(path, end, f"damaged, the next frame is at {pos}")
                end = after
                yield pos, h, p
            pos = after
        elif not (more := NONZERO.search(b, pos, limit)): break
        else: pos = max(pos + 8, more.start() - 15 & ~7)  # a frame has a nonzero byte among its first 13
    if end < durable or NONZERO.search(b, end, limit): say(path, end, "damaged" if end < durable else "torn tail")
def read_lane(folder, lane, store_id, sessions):
    good, epochs, gsn = [], {}, 0
    for name in sorted(n for n in os.listdir(folder) if re.fullmatch("[0-9a-f]{16}[.]seg", n)):
        with open(path := f"{folder}/{name}", "rb") as f: b = f.read()
        if not NONZERO.search(b, 0, 4096): continue  # made ahead
        h = struct.unpack_from("<8sHHIIHH16sQQIIQQQQQQqII", b.ljust(128, b"\0"))
        whose = h[0] == b"\x89EVLSG\r\n" and (h[5], h[7], h[8]) == (lane, store_id, int(name[:16], 16))
        if not whose or crc32(b[:124]) != h[20]: say(path, 0, "bad segment header")
        elif h[1] != 1 or h[3] or h[6]: return say(path, 0, "newer format")
        else: good.append(Obj(path=path, b=b, me=h[8:10], where=(lane, h[10]), gsn=h[12], prev=h[14:17], size=h[17]))
    for a, s, z in zip([None] + good, good, good[1:] + [None]):
        if s.prev[0] != (a.me[0] if a else NONE): say(s.path, 80, f"segment {s.prev[0]:x} before it is missing")
        if a and s.gsn != gsn: say(s.path, 64, f"gsn {s.gsn}, not {gsn}")
        cut = z.prev[1] if z and z.prev[::2] == s.me else None  # a recovery drops what is behind it
        limit, gsn = min(len(s.b), s.size - 64, NONE if cut is None else cut), s.gsn
        for pos, (*_, kind, flags, count, no, seq, at, _, _), p in scan(s.path, s.b, s.me[1], limit, cut or 0):
            if at != gsn: say(s.path, pos, f"gsn {at}, not {gsn}")
            gsn = at + count
            if kind < 128 and (kind not in (1, 2, 3, 4, *range(16, 23), 24, 25) or flags & ~(5 * (kind == 1))):
                return say(s.path, pos, f"newer format, kind {kind} flags {flags}")
            try:
                if kind == 1: r = Obj(epoch=epochs.get(no, 0), events=[*events(p, flags, count, seq, s.where, at)])
                elif 16 <= kind <= 25: r = control(p, kind)
                else: continue
                if kind in (16, 17, 18): epochs[no] = r.epoch
                sessions.setdefault(no, []).append((kind, seq, r))
            except (ValueError, struct.error) as e: say(s.path, pos, "breaks the format", e)
def resolve(no, items):
    s = Obj(id=None, shown=False, hidden=False, first=0, time=0, owners=[], gone=[], claims=[], before=None)
    limbo, seqs = NONE, {}
    for kind, seq, r in sorted(items, key=lambda item: item[2].epoch):
        if kind == 1: s.claims += [Obj(**vars(e), pending=e.seq >= limbo) for e in r.events]
        elif kind in (16, 18):
            vars(s).update(vars(r), first=seq, shown=not r.pending)
            limbo = NONE if s.shown else 0
        elif kind == 17:
            s.claims = [e for e in s.claims if not e.pending or e.seq < seq]
            limbo = NONE if s.shown and limbo >= seq else limbo
            known = [(e.seq + 1, e.id) for e in s.claims] + [(s.first, s.before)]
            if (seq, r.before) not in known and (seq, r.before[2]) != (s.first, NONE): say(f"{no:x}", seq, "diverged")
        elif kind in (19, 20): s.hidden = kind == 19
        elif kind in (21, 22): s.gone.append(range(r.gone[0], r.gone[1] + 1))
        elif kind == 24:
            for e in s.claims: e.pending = e.pending and e.seq >= seq
            limbo, s.time, s.shown = NONE, s.time if s.shown else r.time, True
    for e in s.claims: seqs.setdefault(e.seq, []).append(e)
    for q in [q for q, same in seqs.items() if len(same) > 1]: say(f"session {no:x}", q, "diverged, claimed twice")
    if seqs and len(seqs) <= max(seqs) - s.first and not s.gone: say(f"session {no:x}", "seqs are missing")
    s.own = [c[0] for q, c in sorted(seqs.items()) if len(c) == 1 and not (c[0].pending or any(q in g for g in s.gone))]
    return s
def main(store, wanted=None):
    with open(f"{store}/STORE", "rb") as f: b, sessions, names = f.read(64).ljust(64, b"\0"), {}, {}
    if b[:8] != b"\x89EVL\r\n\x1a\n" or crc32(b[:60]) != int.from_bytes(b[60:], "little"): say("STORE", 0, "damaged")
    if b[8:10] != b"\1\0" or any(b[12:16]): return say("STORE", 8, "newer format")
    for lane in sorted(n for n in os.listdir(f"{store}/lanes") if re.fullmatch("[0-9a-f]{4}", n)):
        read_lane(f"{store}/lanes/{lane}", int(lane, 16), b[24:40], sessions)
    done = {no: resolve(no, items) for no, items in sorted(sessions.items())}
    for no, s in sorted(done.items(), key=lambda item: item[1].time):
        if s.id is None: say(f"session {no:x}", "no CREATE")
        elif s.shown and not s.hidden and names.setdefault(s.id, s) is not s: say(f"session {no:x}", "id is taken")
    if wanted is not None and wanted not in names: say("no such session")
    for s in [names[i] for i in sorted(names) if wanted in (None, i)]:
        lines, low = [s.header + b"\n"], 0
        for no, below in s.owners:
            owner = done.get(no, Obj(own=[], gone=[]))
            own = [e.line for e in owner.own if low <= e.seq < below]
            if len(own) < below - low and not owner.gone: say(f"fork of {no:x}", f"seqs below {below} are missing")
            lines, low = lines + own, below
        sys.stdout.buffer.writelines(lines + [e.line for e in s.own])
main(*sys.argv[1:2], *map(os.fsencode, sys.argv[2:3])) or sys.exit(bool(findings))
