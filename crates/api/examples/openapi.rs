//! Prints the OpenAPI document: `cargo run -p punctual-api --example openapi > docs/protocol/openapi.json`.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(punctual_api::document().as_bytes())
}
