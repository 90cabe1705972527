//! What only a real server shows: many at once, a server that goes away, databases that are refused, the plans of statements,
//! a pooler in between, days far ahead.

mod postgres_cases;
mod postgres_support;
