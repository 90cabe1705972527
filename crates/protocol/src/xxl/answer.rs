//! What we answer to executors. The HTTP status is always 200: most of them read nothing else.
//!
//! Older ones look for a payload in `content`, newer ones in `data`, so both are there.

use serde_json::json;

/// It is done.
pub const ACCEPTED: &str = r#"{"code":200,"msg":null,"content":null,"data":null}"#;

/// Why a registration is refused that lacks something.
pub const ILLEGAL_ARGUMENT: &str = "Illegal Argument.";
/// Why a call is refused whose token is not ours.
pub const WRONG_TOKEN: &str = "The access token is wrong.";
/// Why a call is refused that is no POST.
pub const NOT_POST: &str = "invalid request, HttpMethod not support.";
/// Why a call is refused that says nothing.
pub const NO_BODY: &str = "invalid request, requestBody empty.";

/// Why a callback is refused that names more attempts than are looked up at once.
pub const TOO_MANY: &str =
    "Illegal Argument. At most 10000 results are taken in one callback, so none was: send them in portions.";

/// It is not done, and why.
pub fn refused(message: &str) -> String {
    json!({ "code": super::FAILED, "msg": message, "content": null, "data": null }).to_string()
}

/// Why a call is refused whose path means nothing.
pub fn unknown_path(path: &str) -> String {
    format!("invalid request, uri-mapping({path}) not found.")
}
