//! SHA-256 for comparing exports with the digests of the corpus. Test code only.

/// The digest in lower-case hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut state = INITIAL;
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks_exact(64) {
        compress(&mut state, block);
    }
    state.iter().map(|word| format!("{word:08x}")).collect()
}

const INITIAL: [u32; 8] = [
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
];

/// First 32 bits of the fractions of the cube roots of the first 64 primes.
fn constants() -> [u32; 64] {
    let mut out = [0; 64];
    let primes = (2_u64..).filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0));
    for (slot, prime) in out.iter_mut().zip(primes) {
        // The cube root of prime * 2^96 by bisection, of which the low 32 bits are the fraction.
        let (mut low, mut high) = (0_u128, 1 << 40);
        while high - low > 1 {
            let middle = (low + high) / 2;
            let cube = middle * middle * middle;
            if cube <= u128::from(prime) << 96 { low = middle } else { high = middle }
        }
        *slot = low as u32;
    }
    out
}

fn compress(state: &mut [u32; 8], block: &[u8]) {
    static CONSTANTS: std::sync::LazyLock<[u32; 64]> = std::sync::LazyLock::new(constants);
    let mut w = [0_u32; 64];
    for (slot, word) in w.iter_mut().zip(block.chunks_exact(4)) {
        *slot = u32::from_be_bytes(word.try_into().unwrap());
    }
    for i in 16..64 {
        let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ (w[i - 15] >> 3);
        let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (k, word) in CONSTANTS.iter().zip(w) {
        let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let pick = (e & f) ^ (!e & g);
        let t1 = h.wrapping_add(s1).wrapping_add(pick).wrapping_add(*k).wrapping_add(word);
        let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let t2 = s0.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(t1), c, b, a, t1.wrapping_add(t2));
    }
    for (slot, word) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *slot = slot.wrapping_add(word);
    }
}

#[test]
fn known_digests() {
    assert_eq!(hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_eq!(hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
