//! What a store promises, held against every store, in one program because linking is dear. One part of it:
//! `cargo test -p punctual-store --test all sqlite_kill::`.

mod conformance;
mod model;
mod mysql_layout;
mod mysql_open;
mod mysql_support;
mod mysql_together;
mod mysql_trouble;
mod mysql_words;
mod postgres_cases;
mod postgres_support;
mod redis;
mod serial;
mod sqlite_browse;
mod sqlite_full;
mod sqlite_kill;
mod sqlite_open;
mod sqlite_poison;
mod sqlite_support;
mod suite;
mod upgrade;
