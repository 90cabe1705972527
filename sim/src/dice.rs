//! Pseudo-random numbers from the seed alone: splitmix64, drawn in order or addressed by name.
//!
//! Everything that happens while a world runs (the latency of a request, the answer of an executor) is addressed by name,
//! never drawn: leaving out one fault must not shift everything after it, or no failure could be shrunk.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Draws in order, for decisions before a world starts.
#[derive(Clone, Debug)]
pub struct Dice(u64);

/// The purpose of a number. Each purpose has a stream of its own, so that one can change without the others.
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    /// The shape of the world.
    Setup = 1,
    /// Jobs and commands.
    Workload,
    /// Faults.
    Faults,
    /// Durations.
    Latency,
    /// Behaviour of executors.
    Executors,
    /// The randomness of nodes.
    Entropy,
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The number of this name.
pub fn named(seed: u64, stream: Stream, first: u64, second: u64) -> u64 {
    let bits = mix(seed.wrapping_add(GOLDEN.wrapping_mul(stream as u64)));
    mix(mix(bits ^ first.wrapping_mul(GOLDEN)).wrapping_add(second.wrapping_mul(0xd6e8_feb8_6659_fd93)))
}

/// Whether an event with this probability, in parts per million, happens.
pub fn is_hit(number: u64, per_million: u32) -> bool {
    (number >> 8) % 1_000_000 < u64::from(per_million)
}

/// One of `low..=high`.
pub fn within(number: u64, low: u64, high: u64) -> u64 {
    low + (number >> 4) % (high - low + 1)
}

impl Dice {
    /// The draws of one stream of a seed.
    pub fn new(seed: u64, stream: Stream) -> Dice {
        Dice(named(seed, stream, 0, 0))
    }

    /// The draws that follow from a number that was drawn.
    pub fn seeded(number: u64) -> Dice {
        Dice(mix(number))
    }

    /// 64 bits.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// One of `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty choice: {low}..={high}");
        within(self.roll(), low, high)
    }

    /// Like [`Dice::between`], but each doubling is equally likely: small numbers are as interesting as large ones.
    pub fn scaled(&mut self, low: u64, high: u64) -> u64 {
        assert!(0 < low && low <= high, "no doublings in {low}..={high}");
        let doublings = (high / low).ilog2();
        let base = low << self.between(0, u64::from(doublings));
        self.between(base, (base * 2 - 1).min(high))
    }

    /// True with this probability, in per cent.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.between(0, 99) < chance
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.between(0, choices.len() as u64 - 1) as usize]
    }

    /// An index into `weights`, drawn as often as its weight says.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut left = self.between(0, weights.iter().sum::<u64>() - 1);
        weights
            .iter()
            .position(|weight| {
                let is_here = left < *weight;
                left = left.saturating_sub(*weight);
                is_here
            })
            .expect("the draw is below the sum of the weights")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_is_the_same_number_and_streams_differ() {
        assert_eq!(named(7, Stream::Latency, 1, 2), named(7, Stream::Latency, 1, 2));
        assert_ne!(named(7, Stream::Latency, 1, 2), named(7, Stream::Faults, 1, 2));
        assert_ne!(named(7, Stream::Latency, 1, 2), named(7, Stream::Latency, 2, 1));
        assert_ne!(named(7, Stream::Latency, 1, 2), named(8, Stream::Latency, 1, 2));
    }

    #[test]
    fn draws_stay_in_their_bounds_and_reach_both_ends() {
        let mut dice = Dice::new(1, Stream::Setup);
        let drawn: Vec<u64> = (0..1_000).map(|_| dice.between(3, 5)).collect();
        assert!(
            (3..=5).all(|value| drawn.contains(&value)) && drawn.iter().all(|value| (3..=5).contains(value))
        );
        assert!((0..1_000).all(|_| (10..=1_000).contains(&dice.scaled(10, 1_000))));
        let picked: Vec<usize> = (0..1_000).map(|_| dice.weighted(&[1, 0, 3])).collect();
        assert!(picked.contains(&0) && !picked.contains(&1) && picked.contains(&2));
    }
}
