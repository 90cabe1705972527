//! The hash ring against one that was written down by another program (`data/consistent_hash.py`).

use calendar::Timestamp;
use punctual_core::model::JobId;
use punctual_core::policy::{Choice, Route, Routes};

#[test]
fn jobs_belong_where_xxl_job_puts_them() {
    let now = Timestamp::from_millis(0);
    let (mut routes, mut addresses, mut cases) = (Routes::default(), Vec::new(), 0);
    for line in include_str!("data/consistent_hash.csv").lines() {
        let (kind, rest) = line.split_once(',').expect("a kind");
        if kind == "list" {
            addresses = rest.split('|').collect();
            continue;
        }
        let (job, place) = rest.split_once(',').expect("a job and a place");
        let (job, place) = (JobId(job.parse().expect("a job")), place.parse().expect("a place"));
        let choice = routes.choose(Route::ConsistentHash, job, &addresses, 0, now);
        assert_eq!(choice, Choice::At(place), "{line} of {addresses:?}");
        cases += 1;
    }
    assert!(cases >= 1_000, "{cases}");
}
