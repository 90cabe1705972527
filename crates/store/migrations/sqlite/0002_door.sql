-- What the front door keeps. Numbers of tokens come from the counter `token`, so that none is given twice.

-- `digest` is the SHA-256 sum of the token, `apps` a JSON list of texts.
create table tokens (
    id integer primary key,
    name text not null,
    digest blob not null,
    role text not null,
    apps text not null,
    created_at integer not null,
    expires_at integer
) strict;

-- Without a status until it is answered. With row ids, because a body may be long.
create table requests (
    id integer primary key,
    by text not null,
    key text not null,
    digest blob not null,
    begun_at integer not null,
    status integer,
    body text
) strict;

create unique index requests_once on requests (by, key);

create index requests_by_begun_at on requests (begun_at);
