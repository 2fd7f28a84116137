//! A small seeded generator, so that a failing case is identified by one number.

/// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014). Or a tape, for a
/// fuzzer that changes one decision at a time.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
    tape: Option<Tape>,
}

#[derive(Clone, Debug)]
struct Tape {
    bytes: Vec<u8>,
    at: usize,
}

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng { state: seed, tape: None }
    }

    /// Numbers from bytes; zeros when they are used up.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Rng { state: 0, tape: Some(Tape { bytes: bytes.to_vec(), at: 0 }) }
    }

    /// Whether a tape is used up.
    pub fn is_over(&self) -> bool {
        self.tape.as_ref().is_some_and(|tape| tape.at >= tape.bytes.len())
    }

    /// This many bytes of a tape, or a whole number.
    fn draw(&mut self, width: usize) -> u64 {
        if let Some(tape) = &mut self.tape {
            let end = (tape.at + width).min(tape.bytes.len());
            let taken = tape.bytes[tape.at..end].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
            tape.at = end;
            return taken;
        }
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn number(&mut self) -> u64 {
        self.draw(8)
    }

    /// In 0..n; 0 when there is nothing to choose from.
    pub fn below(&mut self, n: usize) -> usize {
        let width = if n <= 1 << 8 { 1 } else { 2 };
        if n == 0 { 0 } else { (self.draw(width) % n as u64) as usize }
    }

    /// In low..=high.
    pub fn within(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        if self.tape.is_some() {
            // The content matters little, and would use up the tape.
            let first = self.draw(1) as u8;
            return (0..len).map(|i| first.wrapping_add(i as u8)).collect();
        }
        (0..len).map(|_| self.number() as u8).collect()
    }
}
