//! XXL-JOB's hash ring, bit for bit: a job that comes from there stays on the machine that has its files.
//!
//! Every address stands on the ring a hundred times; a job belongs to the first point from its own hash on. So an
//! address that goes moves only its own jobs.

use md5::{Digest, Md5};

use crate::model::JobId;

/// How often an address stands on the ring.
const POINTS: usize = 100;

#[derive(Debug)]
pub(super) struct Ring {
    /// Rising hashes, each with the place of its address.
    points: Box<[(u32, u32)]>,
}

impl Ring {
    pub(super) fn new<A: AsRef<str>>(addresses: &[A]) -> Ring {
        let places = (0..).zip(addresses);
        let mut points: Vec<(u32, u32)> = places
            .flat_map(|(place, address)| hashes(address.as_ref()).map(move |hash| (hash, place)))
            .collect();
        // The sort is stable: of two with the same hash the one that was put later stays, as in a map.
        points.sort_by_key(|point| point.0);
        points.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            kept.1 = if is_same { later.1 } else { kept.1 };
            is_same
        });
        Ring { points: points.into() }
    }

    /// The place of the address that a job belongs to.
    pub(super) fn owner(&self, job: JobId) -> usize {
        let hash = short(Md5::digest(job.to_string()).into());
        let at_or_after = self.points.partition_point(|point| point.0 < hash);
        let point = self.points.get(at_or_after).or_else(|| self.points.first());
        point.expect("a ring has addresses").1 as usize
    }
}

fn hashes(address: &str) -> impl Iterator<Item = u32> {
    let begun = Md5::new().chain_update("SHARD-").chain_update(address).chain_update("-NODE-");
    (0..POINTS).map(move |point| short(begun.clone().chain_update(point.to_string()).finalize().into()))
}

/// The first four bytes, the lowest first.
fn short(digest: [u8; 16]) -> u32 {
    u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_beginning_of_md5_read_from_its_low_end() {
        // md5("1") is c4ca4238a0b923820dcc509a6f75849b.
        assert_eq!(short(Md5::digest("1").into()), 0x3842_cac4);
    }

    #[test]
    fn of_two_points_with_the_same_hash_the_later_stays() {
        let twice = Ring::new(&["a", "b", "a"]);
        assert_eq!(twice.points.len(), 2 * POINTS);
        assert!(twice.points.iter().all(|point| point.1 != 0));
        assert!(twice.points.is_sorted());
    }

    #[test]
    fn a_job_belongs_to_the_point_at_its_hash_or_after_it_or_else_to_the_lowest() {
        // The hash of job 1.
        let hash = 0x3842_cac4;
        for (points, owner) in [
            ([(hash - 1, 7), (hash, 8), (hash + 1, 9)], 8),
            ([(hash - 1, 7), (hash + 1, 8), (hash + 2, 9)], 8),
            ([(0, 7), (1, 8), (hash - 1, 9)], 7),
        ] {
            assert_eq!(Ring { points: points.into() }.owner(JobId(1)), owner, "{points:?}");
        }
    }
}
