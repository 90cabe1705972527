//! Numbers that look random and are the same on every run: splitmix64, so that a failure is its seed.

pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn seeded(seed: u64) -> Dice {
        Dice(seed)
    }

    /// A seed for one named thing, so that a case stays the same when others are added before it.
    pub(crate) fn named(name: &str, number: i64) -> Dice {
        let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = name.bytes().chain(number.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325, fnv);
        Dice(hash)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `low..=high`.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        assert!(low <= high, "an empty choice: {low}..={high}");
        low + (self.roll() % (high - low + 1) as u64) as i64
    }

    pub(crate) fn percent(&mut self, chance: i64) -> bool {
        self.between(0, 99) < chance
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.between(0, choices.len() as i64 - 1) as usize]
    }

    /// An index into `weights`, drawn as often as its weight says.
    pub(crate) fn weighted(&mut self, weights: &[i64]) -> usize {
        let mut left = self.between(0, weights.iter().sum::<i64>() - 1);
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return index;
            }
            left -= weight;
        }
        unreachable!("the draw is below the sum of the weights")
    }
}
