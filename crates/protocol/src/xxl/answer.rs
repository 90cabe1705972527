//! Answers to executors. The HTTP status is always 200, because most executors read no body of another one.
//!
//! Older ones look for a payload in `content`, newer ones in `data`, so both are there.

use serde_json::json;

/// The answer to a request that was carried out.
pub const ACCEPTED: &str = r#"{"code":200,"msg":null,"content":null,"data":null}"#;

/// The refusal of a registration that lacks a field.
pub const ILLEGAL_ARGUMENT: &str = "Illegal Argument.";
/// The refusal of a wrong access token.
pub const WRONG_TOKEN: &str = "The access token is wrong.";
/// The refusal of another method than POST.
pub const NOT_POST: &str = "invalid request, HttpMethod not support.";
/// The refusal of an empty body.
pub const NO_BODY: &str = "invalid request, requestBody empty.";

/// The refusal of a callback with more than [`super::callback::ITEMS_MAX`] results.
pub const TOO_MANY: &str =
    "Illegal Argument. At most 10000 results are taken in one callback, so none was: send them in portions.";

/// The answer to a request that was refused, with the reason.
pub fn refused(message: &str) -> String {
    json!({ "code": super::FAILED, "msg": message, "content": null, "data": null }).to_string()
}

/// The refusal of an unknown path.
pub fn unknown_path(path: &str) -> String {
    format!("invalid request, uri-mapping({path}) not found.")
}
