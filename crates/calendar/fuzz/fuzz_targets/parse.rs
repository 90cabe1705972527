//! Any text is an expression or a refusal that points into the text; what is an expression reads the same in
//! other letter case, and can be described.
//!
//! `cargo +nightly fuzz run parse -- -max_len=4096 -dict=cron.dict`

#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_calendar::{Cron, Dialect};

fuzz_target!(|text: &str| {
    for dialect in [Dialect::Unix, Dialect::Quartz] {
        match Cron::parse(text, dialect, "fuzz/job") {
            Ok(cron) => {
                assert_eq!(cron.text(), text);
                assert!(!cron.describe().is_empty());
                let upper = Cron::parse(&text.to_ascii_uppercase(), dialect, "fuzz/job").expect("case does not matter");
                assert_eq!(cron.describe(), upper.describe());
            }
            Err(refusal) => {
                let characters = text.chars().count();
                assert!((1..=characters + 1).contains(&refusal.column()), "{refusal}");
                assert!(refusal.length() >= 1 && !refusal.reason().is_empty(), "{refusal}");
            }
        }
    }
});
