//! The jobs of a demo: those of a small web shop, with the simulated work of each, how long it takes, and how it
//! fails.

use std::time::Duration;

use calendar::{Dialect, Gap, Overlap, Timestamp};
use punctual_core::model::{Definition, Delivery, Executor, FlowControl, Schedule, ScheduleKind, Target};
use punctual_core::policy::{Block, Misfire, Retry, Route};

/// When a job fires.
pub(super) enum When {
    Cron(&'static str, &'static str),
    Every(u64),
    Delay(u64),
    ByHand,
}

/// A job, and the simulated work of its handler.
pub(super) struct DemoWork {
    pub(super) app: &'static str,
    pub(super) name: &'static str,
    about: &'static str,
    tags: &'static [&'static str],
    when: When,
    /// How long it takes, from and to, in milliseconds.
    takes: (u64, u64),
    /// How many of a hundred attempts fail, and their message.
    fails: (u64, &'static str),
    /// The lines of its log.
    lines: &'static [&'static str],
    /// Its result when it succeeds; `#` stands for a number.
    result: &'static str,
    attempts: u32,
    failure_limit: u32,
    /// Whether a person stopped it.
    pub(super) is_stopped: bool,
}

const PLAIN: DemoWork = DemoWork {
    app: "",
    name: "",
    about: "",
    tags: &[],
    when: When::ByHand,
    takes: (40, 400),
    fails: (0, ""),
    lines: &[],
    result: "ok",
    attempts: 3,
    failure_limit: 0,
    is_stopped: false,
};

/// The apps, and how many executors each has.
pub(super) const APPS: [(&str, usize); 5] =
    [("shop", 3), ("billing", 2), ("reports", 1), ("warehouse", 2), ("ops", 1)];

pub(super) const WORKS: &[DemoWork] = &[
    DemoWork {
        app: "shop",
        name: "expire-carts",
        about: "Gives back what lies in carts for too long",
        tags: &["stock"],
        when: When::Every(300),
        takes: (80, 900),
        fails: (1, "lock timeout on carts"),
        lines: &["looking for carts older than 45 minutes", "# carts expired"],
        result: "# carts expired",
        ..PLAIN
    },
    DemoWork {
        app: "shop",
        name: "refresh-search-index",
        about: "Puts changed products into the search index",
        tags: &["search"],
        when: When::Cron("*/10 * * * *", "UTC"),
        takes: (900, 4_000),
        fails: (3, "search-2.internal answered 503"),
        lines: &[
            "reading products changed since the last run",
            "\u{1b}[32mindexed\u{1b}[0m # products",
            "swapping aliases",
        ],
        result: "# products indexed",
        ..PLAIN
    },
    DemoWork {
        app: "shop",
        name: "price-feed",
        about: "Fetches prices from the supplier",
        tags: &["supplier", "external"],
        when: When::Cron("7,37 * * * *", "Europe/Berlin"),
        takes: (1_500, 9_000),
        fails: (18, "prices.supplier.example: connection reset by peer"),
        lines: &[
            "GET https://prices.supplier.example/v2/feed",
            "parsing # rows",
            "\u{1b}[33mwarning\u{1b}[0m 3 rows without a price",
        ],
        result: "# prices changed",
        attempts: 1,
        ..PLAIN
    },
    DemoWork {
        app: "shop",
        name: "send-welcome-mail",
        about: "One mail for each new customer, an hour after they came",
        tags: &["mail"],
        when: When::ByHand,
        takes: (120, 700),
        fails: (4, "451 greylisted, try again later"),
        lines: &["rendering welcome.html", "handing over to smtp-relay"],
        result: "250 queued as #",
        ..PLAIN
    },
    DemoWork {
        app: "shop",
        name: "import-reviews",
        about: "Fails since the partner changed its format",
        tags: &["external"],
        when: When::Cron("*/15 * * * *", "UTC"),
        takes: (400, 1_200),
        fails: (100, "unexpected field `stars` at line 3"),
        lines: &["GET https://partner.example/reviews", "parsing"],
        attempts: 1,
        ..PLAIN
    },
    DemoWork {
        app: "shop",
        name: "newsletter",
        about: "The weekly newsletter",
        tags: &["mail"],
        when: When::Cron("0 10 * * 2", "Europe/Berlin"),
        takes: (20_000, 60_000),
        lines: &["# recipients", "sent 1000", "sent 2000"],
        result: "# mails handed over",
        ..PLAIN
    },
    DemoWork {
        app: "billing",
        name: "capture-payments",
        about: "Captures what was authorised and shipped",
        tags: &["money", "critical"],
        when: When::Every(120),
        takes: (200, 1_200),
        fails: (1, "payment provider: rate limited"),
        lines: &["# authorisations to capture", "captured # of #"],
        result: "# captured",
        ..PLAIN
    },
    DemoWork {
        app: "billing",
        name: "retry-failed-cards",
        about: "Tries cards again that were refused yesterday",
        tags: &["money"],
        when: When::Cron("15 6 * * *", "America/New_York"),
        takes: (4_000, 15_000),
        fails: (10, "card network timeout"),
        lines: &["# cards to try again"],
        result: "# recovered",
        ..PLAIN
    },
    DemoWork {
        app: "billing",
        name: "invoice-run",
        about: "Writes the invoices of the day",
        tags: &["money", "nightly"],
        when: When::Cron("30 1 * * *", "Europe/Berlin"),
        takes: (30_000, 90_000),
        lines: &["# orders without an invoice", "writing PDF", "archiving"],
        result: "# invoices",
        attempts: 1,
        ..PLAIN
    },
    DemoWork {
        app: "billing",
        name: "reconcile-bank",
        about: "Matches the bank statement with open invoices",
        tags: &["money", "nightly"],
        when: When::Cron("0 5 * * 1-5", "Europe/Berlin"),
        takes: (5_000, 20_000),
        fails: (30, "statement of today is not there yet"),
        lines: &["fetching CAMT.053", "# entries matched, 2 left over"],
        result: "# matched",
        ..PLAIN
    },
    DemoWork {
        app: "billing",
        name: "export-to-tax-office",
        about: "Broken since the certificate expired",
        tags: &["legal"],
        when: When::Cron("*/30 * * * *", "Europe/Berlin"),
        takes: (300, 900),
        fails: (100, "TLS: certificate expired 2 days ago"),
        lines: &["connecting to elster.example"],
        attempts: 2,
        failure_limit: 20,
        ..PLAIN
    },
    DemoWork {
        app: "reports",
        name: "nightly-report",
        about: "The figures of the day, for the morning meeting",
        tags: &["nightly", "report"],
        when: When::Cron("0 6 * * *", "America/Toronto"),
        takes: (12_000, 40_000),
        fails: (5, "warehouse replica is 20 minutes behind"),
        lines: &["collecting orders", "collecting returns", "rendering 14 pages"],
        result: "report of # rows",
        ..PLAIN
    },
    DemoWork {
        app: "reports",
        name: "hourly-sales",
        about: "Sales by hour for the dashboard",
        tags: &["report"],
        when: When::Cron("2 * * * *", "UTC"),
        takes: (900, 3_500),
        lines: &["aggregating # orders"],
        result: "# rows",
        ..PLAIN
    },
    DemoWork {
        app: "reports",
        name: "cohort-analysis",
        about: "Slow on purpose: how long customers stay",
        tags: &["report", "slow"],
        when: When::Cron("40 */4 * * *", "UTC"),
        takes: (60_000, 150_000),
        fails: (12, "out of memory in stage 3"),
        lines: &["stage 1: cohorts", "stage 2: retention", "stage 3: value"],
        result: "# cohorts",
        attempts: 1,
        ..PLAIN
    },
    DemoWork {
        app: "warehouse",
        name: "sync-stock",
        about: "Stock levels from the warehouse system",
        tags: &["stock", "critical"],
        when: When::Every(60),
        takes: (150, 800),
        fails: (2, "wms.internal: read timeout"),
        lines: &["# positions changed"],
        result: "# positions",
        attempts: 1,
        ..PLAIN
    },
    DemoWork {
        app: "warehouse",
        name: "pick-lists",
        about: "Pick lists for the next wave",
        tags: &["stock"],
        when: When::Cron("0,20,40 6-21 * * 1-6", "Europe/Berlin"),
        takes: (700, 2_500),
        lines: &["wave of # orders", "optimising the way through the aisles"],
        result: "# lists",
        ..PLAIN
    },
    DemoWork {
        app: "warehouse",
        name: "parcel-labels",
        about: "Asks the carriers for labels, again ten minutes after the last time",
        tags: &["carrier", "external"],
        when: When::Delay(600),
        takes: (2_000, 7_000),
        fails: (6, "carrier API answered 500"),
        lines: &["# parcels without a label", "DHL: #, UPS: #"],
        result: "# labels",
        ..PLAIN
    },
    DemoWork {
        app: "warehouse",
        name: "reorder-points",
        about: "Computes when to order again",
        tags: &["nightly"],
        when: When::Cron("45 2 * * *", "Europe/Berlin"),
        takes: (15_000, 35_000),
        lines: &["forecasting demand", "# products below their point"],
        result: "# orders proposed",
        ..PLAIN
    },
    DemoWork {
        app: "ops",
        name: "rotate-logs",
        about: "Compresses and moves logs",
        tags: &["housekeeping"],
        when: When::Cron("5 0 * * *", "UTC"),
        takes: (4_000, 9_000),
        lines: &["# files"],
        result: "# MB freed",
        ..PLAIN
    },
    DemoWork {
        app: "ops",
        name: "check-certificates",
        about: "Warns two weeks before a certificate ends",
        tags: &["housekeeping"],
        when: When::Cron("0 8 * * *", "UTC"),
        takes: (700, 1_500),
        lines: &["# hosts", "\u{1b}[31melster.example expired\u{1b}[0m"],
        result: "1 expired, # fine",
        ..PLAIN
    },
    DemoWork {
        app: "ops",
        name: "backup-database",
        about: "A full backup, and a look whether it can be read",
        tags: &["housekeeping", "critical"],
        when: When::Cron("0 3 * * *", "UTC"),
        takes: (90_000, 200_000),
        lines: &["pg_basebackup started", "checksum verified"],
        result: "# GB",
        attempts: 2,
        ..PLAIN
    },
    DemoWork {
        app: "ops",
        name: "ping-status-page",
        about: "Says every half minute that we live",
        tags: &["heartbeat"],
        when: When::Every(30),
        takes: (20, 120),
        lines: &[],
        result: "200 OK",
        ..PLAIN
    },
    DemoWork {
        app: "ops",
        name: "old-migration",
        about: "Stopped when the new warehouse system came",
        tags: &["legacy"],
        when: When::Cron("*/5 * * * *", "UTC"),
        is_stopped: true,
        ..PLAIN
    },
];

/// The simulated work of one attempt.
pub(super) struct Deed {
    pub(super) takes: Duration,
    pub(super) lines: Vec<String>,
    pub(super) end: Result<String, String>,
}

impl DemoWork {
    /// The job, anchored at an instant so that it fires from then on.
    pub(super) fn definition(&self, anchor: Timestamp) -> Definition {
        let kind = match self.when {
            When::Cron(expression, zone) => ScheduleKind::Cron {
                expression: expression.into(),
                dialect: Dialect::Unix,
                zone: zone.into(),
                gap: Gap::default(),
                overlap: Overlap::default(),
            },
            When::Every(seconds) => ScheduleKind::Every { interval: Duration::from_secs(seconds), anchor },
            When::Delay(seconds) => ScheduleKind::Delay { delay: Duration::from_secs(seconds) },
            When::ByHand => ScheduleKind::Manual,
        };
        Definition {
            app: self.app.into(),
            name: self.name.into(),
            description: self.about.into(),
            tags: self.tags.iter().map(|tag| (*tag).into()).collect(),
            schedule: Schedule::from(kind),
            target: Target::Executor(Executor { route: Route::Round, ..Executor::of(self.name) }),
            misfire: Misfire::default(),
            retry: Retry {
                max_attempts: self.attempts,
                initial_delay: Duration::from_secs(5),
                ..Retry::default()
            },
            timeout: Duration::from_secs(300),
            delivery: Delivery::AtLeastOnce,
            priority: 5,
            block: Block::default(),
            windows: vec![],
            after: vec![],
            failure_limit: self.failure_limit,
            flow: FlowControl::default(),
        }
    }

    /// The work of an attempt of a run. It is computed from the run and the attempt, so nothing has to be remembered.
    pub(super) fn deed(&self, run: u64, attempt: u32) -> Deed {
        let mut dice = Dice(run.wrapping_mul(31).wrapping_add(u64::from(attempt)));
        let (least, most) = self.takes;
        // Most take about as long as the shortest, some much longer.
        let part = dice.below(1_000) * dice.below(1_000) / 1_000;
        let takes = Duration::from_millis(least + (most - least) * part / 1_000);
        let (percent, failure) = self.fails;
        let mut told = |text: &str| {
            let parts: Vec<&str> = text.split('#').collect();
            let mut said = parts[0].to_owned();
            for part in &parts[1..] {
                said.push_str(&format!("{}{part}", dice.below(900) + 7));
            }
            said
        };
        let lines = self.lines.iter().map(|line| told(line)).collect();
        let result = told(self.result);
        let end = if dice.below(100) < percent { Err(failure.to_owned()) } else { Ok(result) };
        Deed { takes, lines, end }
    }
}

/// Numbers that look random and are always the same.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }
}

#[cfg(test)]
mod tests {
    use calendar::Zones;
    use punctual_core::model::{Job, JobId, JobState};

    use super::*;

    #[test]
    fn every_job_of_the_demo_can_be_made_and_has_an_app_with_executors() {
        let anchor = Timestamp::from_millis(0);
        for work in WORKS {
            let definition = work.definition(anchor);
            let made =
                Job::compile(JobId(1), 1, anchor, JobState::Enabled, definition, vec![], &Zones::bundled());
            assert!(made.is_ok(), "{}", work.name);
            assert!(APPS.iter().any(|(app, _)| *app == work.app), "{}", work.name);
        }
    }

    #[test]
    fn an_attempt_does_the_same_every_time_it_is_asked() {
        let work = &WORKS[2];
        for run in 0..50 {
            let (one, two) = (work.deed(run, 1), work.deed(run, 1));
            assert_eq!((one.takes, one.lines, one.end), (two.takes, two.lines, two.end));
        }
        let failed = (0..1_000).filter(|run| work.deed(*run, 1).end.is_err()).count();
        assert!((100..300).contains(&failed), "{failed} of 1000, and 18 of a hundred should");
    }
}
