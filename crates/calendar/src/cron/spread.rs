//! `H`: a place that a seed decides, so that a thousand hourly jobs do not all fire at :00.
//!
//! The hash is part of what a stored job means: the same seed must fall on the same place in every
//! version, or an upgrade would move every spread job. FNV-1a folds the seed, the finaliser of SplitMix64
//! scatters seeds that differ in one letter.

use super::fields::Field;

/// The value that `seed` gives this field between `min` and `max`, both included.
pub(super) fn place(seed: &str, field: &Field, min: u32, max: u32) -> u32 {
    let width = u64::from(max - min + 1);
    // A plain remainder favours low values by less than one part in 2^55.
    min + (hash(seed, field.spread_salt) % width) as u32
}

fn hash(seed: &str, salt: u64) -> u64 {
    let folded = seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    scatter(folded.wrapping_add(salt.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

fn scatter(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::super::fields::{HOUR, MINUTE};
    use super::*;

    #[test]
    fn a_thousand_names_spread_evenly_over_the_minutes() {
        let mut jobs_per_minute = [0; 60];
        for number in 0..6_000 {
            jobs_per_minute[place(&format!("reports/job-{number}"), &MINUTE, 0, 59) as usize] += 1;
        }
        // 100 expected each; 40 either way is four standard deviations.
        assert!(jobs_per_minute.iter().all(|jobs| (60..=140).contains(jobs)), "{jobs_per_minute:?}");
    }

    #[test]
    fn a_seed_keeps_its_place_in_every_version() {
        let places = |seed| (place(seed, &MINUTE, 0, 59), place(seed, &HOUR, 0, 23));
        assert_eq!(places("reports/nightly"), (9, 14));
        assert_eq!(places("reports/nightlz"), (13, 17));
        assert_eq!(places(""), (22, 11));
    }
}
