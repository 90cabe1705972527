//! Tokens: made, listed, revoked.

use std::sync::Arc;

use axum::response::IntoResponse;
use calendar::Timestamp;
use http::StatusCode;
use punctual_node::ports::{Digest, Remain, StoreError, TokenRow};
use punctual_protocol::{NewToken, Role, Token, TokenMade, Tokens};

use super::{json, number, ok};
use crate::app::Front;
use crate::body;
use crate::convert::fields::{Faults, Spot};
use crate::problem::Problem;
use crate::table::{Answer, Call, Operation, Permission};
use crate::token::{digest, mint};

/// How many apps a token may name.
const APPS_MAX: usize = 100;

pub(super) fn operations() -> Vec<Operation> {
    let admin = Permission::Whole(Role::Admin);
    vec![
        Operation::post("/api/v1/tokens", "createToken", |front, call| Box::pin(create(front, call)))
            .about(
                "tokens",
                "Makes a token. It is shown this once and kept only as a sum. A repetition with the same Idempotency-Key makes \
                 no second token and is refused with 409, because the token was not kept.",
            )
            .needs(admin)
            .shown_once()
            .takes::<NewToken>()
            .answers::<TokenMade>(201, "The token."),
        Operation::get("/api/v1/tokens", "listTokens", |front, call| Box::pin(list(front, call)))
            .about("tokens", "Lists the tokens, expired ones too.")
            .needs(admin)
            .answers::<Tokens>(200, "All tokens."),
        Operation::delete("/api/v1/tokens/{id}", "revokeToken", |front, call| Box::pin(revoke(front, call)))
            .about("tokens", "Revokes a token. Other nodes follow within seconds.")
            .needs(admin)
            .answers_nothing(204, "It opens nothing any more.")
            .refuses(&[409]),
    ]
}

async fn create(front: Arc<Front>, call: Call) -> Answer {
    let value = body::json(&call.body)?;
    let now = front.now()?;
    let faults = Faults::default();
    let row = Spot::whole(&value, &faults).object().and_then(|object| {
        let name = object.must("name").and_then(|spot| spot.name());
        let role = object.must("role").and_then(|spot| role(&spot));
        let apps = object.may("apps").map_or(Some(vec!["*".into()]), |spot| apps(&spot));
        let expires_at = object.may_null("expires_at").map(|spot| expiry(&spot, now));
        object.end();
        Some(TokenRow {
            id: 0,
            name: name?.into(),
            digest: Digest::default(),
            role: role?.name().into(),
            apps: apps?,
            created_at: now,
            expires_at: expires_at.map_or(Some(None), |at| at.map(Some))?,
        })
    });
    let row = faults.unless(row)?;
    let token = mint(&*front.entropy);
    let id = front.door.add_token(TokenRow { digest: digest(&token), ..row }).await?;
    front.tokens.forget();
    Ok(json(StatusCode::CREATED, &TokenMade { id, token }))
}

fn role(spot: &Spot<'_>) -> Option<Role> {
    let text = spot.text()?;
    Role::named(text).or_else(|| spot.refuse("unknown role; expected viewer, operator, editor or admin"))
}

fn apps(spot: &Spot<'_>) -> Option<Vec<String>> {
    let items = spot.list(APPS_MAX)?;
    if items.is_empty() {
        return spot.refuse("is empty, so the token would open nothing; * stands for all apps");
    }
    let read: Vec<Option<String>> = items.iter().map(Spot::app).collect();
    read.into_iter().collect()
}

fn expiry(spot: &Spot<'_>, now: Timestamp) -> Option<Timestamp> {
    let at = spot.time()?;
    if at <= now { spot.refuse("is past, so the token would open nothing") } else { Some(at) }
}

async fn list(front: Arc<Front>, _: Call) -> Answer {
    let rows = front.door.tokens().await?;
    let items = rows.iter().filter_map(|row| {
        Some(Token {
            id: row.id,
            name: row.name.to_string(),
            role: Role::named(&row.role)?,
            apps: row.apps.clone(),
            created_at: row.created_at.to_string(),
            expires_at: row.expires_at.map(|at| at.to_string()),
        })
    });
    Ok(ok(&Tokens { items: items.collect() }))
}

async fn revoke(front: Arc<Front>, call: Call) -> Answer {
    let number = number(&call)?;
    let gone = || Problem::not_found(format!("token {number}"));
    let id = u32::try_from(number).map_err(|_| gone())?;
    let remain = Remain { role: Role::Admin.name().into(), at: front.now()? };
    let was_there = match front.door.revoke_token(id, Some(&remain)).await {
        Err(StoreError::Conflict(_)) => {
            let said =
                "this is the last token of an admin; without one nobody could make another. Make one first";
            return Err(Problem::conflict(said));
        }
        revoked => revoked?,
    };
    front.tokens.forget();
    if was_there { Ok(StatusCode::NO_CONTENT.into_response()) } else { Err(gone()) }
}
