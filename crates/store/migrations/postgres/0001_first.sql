-- additive
-- What there is one of, or little of, and the parents of what lies in one table for each day of birth. Instants are
-- milliseconds since 1970. Texts are kept with NUL characters escaped (src/postgres/text.rs), since this server has none.

-- Decided once, when the database is made, and `pruned_to`: of days before it, something was dropped.
create table meta (
    name text primary key,
    value bigint not null
);

-- The last number given of each kind whose order must be that of the commits: whoever takes one holds the row until it
-- has committed.
create table counters (
    name text primary key,
    value bigint not null
);

insert into meta (name, value) values ('pruned_to', 0);
insert into counters (name, value) values ('change', 0), ('job', 0), ('token', 0);

-- Numbers that only have to be different.
create sequence epochs;
create sequence send_logs;
create sequence arrival_numbers;

-- Never forgotten: a row that has expired is the tombstone that fences its incarnation for ever.
create table nodes (
    node bytea primary key,
    expires_at bigint not null,
    term bigint not null,
    mark bigint not null,
    seen bigint not null,
    name text not null,
    address text not null
);

-- `inherited` is what all holders before the owner promised together.
create table shards (
    shard integer primary key,
    owner bytea,
    epoch bigint not null,
    inherited bigint,
    checkpoint_due bigint not null,
    checkpoint_run bigint not null
) with (fillfactor = 50);

-- The least due time of each batch of runs, by shard, until a checkpoint has taken it into account. Rows of their own, so
-- that nodes that write runs for the same shard do not wait for each other.
create table births (
    shard integer not null,
    due bigint not null
);

create index births_by_shard on births (shard, due);

create table jobs (
    id bigint primary key,
    version bigint not null,
    changed_at bigint not null,
    state smallint not null,
    reason text not null,
    app text not null,
    name text not null,
    definition text not null
);

-- A deleted job (state 2) leaves its name to others. By sums, since an index takes no long texts.
create unique index jobs_by_name on jobs (md5(app), md5(name)) where state <> 2;

create index jobs_by_app on jobs (md5(app), id);

create table clocks (
    job bigint primary key,
    shard integer not null,
    next_fire bigint,
    version bigint not null,
    enabled boolean not null,
    decided bigint not null,
    reserved bigint not null
) with (fillfactor = 80);

create index clocks_due on clocks (shard, next_fire, job) where enabled and next_fire is not null;

-- Which jobs start which, from the parent's side.
create table bonds (
    parent bigint not null,
    child bigint not null,
    ends smallint not null,
    primary key (parent, child, ends)
);

create index bonds_by_child on bonds (child);

create table revisions (
    job bigint not null,
    version bigint not null,
    at bigint not null,
    by text not null,
    definition text not null,
    primary key (job, version)
);

create table changes (
    id bigint primary key,
    job bigint not null
);

create table counts (
    job bigint primary key,
    succeeded bigint not null,
    failed bigint not null,
    not_run bigint not null,
    consecutive_failures bigint not null,
    last_outcome smallint,
    last_success bigint
) with (fillfactor = 80);

create table sequences (
    day integer primary key,
    last bigint not null
);

-- What a day holds, in as many rows as there are connections that write, so that they do not wait for each other. The first
-- and last due time say which days a load looks into, those of fire times which days a list by time looks into.
create table buckets (
    day integer not null,
    slot integer not null,
    runs bigint not null,
    closed bigint not null,
    first_due bigint not null,
    last_due bigint not null,
    first_fire bigint not null,
    last_fire bigint not null,
    primary key (day, slot)
) with (fillfactor = 50);

-- Without an expiry while the run is open.
create table keys (
    job bigint not null,
    key text not null,
    run bigint not null,
    expires_at bigint,
    primary key (job, key)
);

create index keys_by_expiry on keys (expires_at) where expires_at is not null;

create table holds (
    resource text not null,
    slot bigint not null,
    run bigint not null,
    primary key (resource, slot)
);

create index holds_by_run on holds (run);

-- Open runs that wait for anything but their birth time. Parked ones have no instant, and are called back in the order
-- in which they were due.
create table waiting (
    run bigint primary key,
    shard integer not null,
    job bigint not null,
    due bigint not null,
    ready_at bigint,
    attempt bigint not null,
    is_called_back boolean not null
);

create index waiting_ready on waiting (shard, ready_at, run) where ready_at is not null;

create index waiting_parked on waiting (shard, job, due, run) where ready_at is null;

-- Open runs that have a gate: a takeover costs what is open, not what is stored.
create table flights (
    run bigint primary key,
    shard integer not null
);

create index flights_by_shard on flights (shard, run);

-- `at` is 0 where there is no instant, so that the index sees two of the same as equal.
create table arrivals (
    id bigint primary key,
    shard integer not null,
    kind smallint not null,
    run bigint not null,
    at bigint not null
);

create index arrivals_by_shard on arrivals (shard, id);

-- What lies there already is not left twice.
create unique index arrivals_once on arrivals (run, kind, shard, at);

-- What nodes show each other; one row.
create table peer_secret (
    id smallint primary key check (id = 1),
    secret bytea not null
);

create table tokens (
    id bigint primary key,
    name text not null,
    digest bytea not null,
    role text not null,
    apps text not null,
    created_at bigint not null,
    expires_at bigint
);

-- Without a status until it is answered.
create table requests (
    by text not null,
    key text not null,
    digest bytea not null,
    begun_at bigint not null,
    status integer,
    body text
);

create unique index requests_once on requests (md5(by), md5(key));

create index requests_by_begun_at on requests (begun_at);

-- `addresses` is a JSON list of texts; none where executors register themselves.
create table apps (
    name text not null,
    title text not null,
    addresses text,
    access_token text,
    version bigint not null
);

create unique index apps_once on apps (md5(name));

create table executors (
    app text not null,
    address text not null,
    dialect text not null,
    beat_at bigint not null,
    joined_at bigint not null
);

create unique index executors_once on executors (md5(app), md5(address));

-- The parents of the days. A row is written once; a run is closed by a row in `closes`.
create table runs (
    id bigint not null,
    job bigint not null,
    shard integer not null,
    fire_time bigint not null,
    due bigint not null,
    origin smallint not null,
    decided smallint not null,
    priority smallint not null,
    key text,
    of bigint,
    payload text,
    primary key (id)
) partition by range (id);

create index runs_due on runs (shard, due, id);

-- The last attempt lies inside. `unsent` is the attempt whose key the close took.
create table closes (
    run bigint not null,
    outcome smallint not null,
    reason text not null,
    closed_at bigint not null,
    range_until bigint,
    range_count bigint,
    unsent bigint,
    attempt bigint,
    token bigint,
    executor text,
    started_at bigint,
    ended_at bigint,
    attempt_outcome smallint,
    message text,
    possible_duplicate boolean,
    primary key (run)
) partition by range (run);

create table attempts (
    run bigint not null,
    attempt bigint not null,
    token bigint not null,
    executor text not null,
    started_at bigint not null,
    ended_at bigint not null,
    attempt_outcome smallint not null,
    message text not null,
    possible_duplicate boolean not null,
    primary key (run, attempt)
) partition by range (run);

create table sends (
    run bigint not null,
    attempt bigint not null,
    token bigint not null,
    log bigint not null,
    executor text not null,
    sent_at bigint not null,
    primary key (run, attempt)
) partition by range (run);

create index sends_by_log on sends (log);

create table parts (
    run bigint not null,
    whole bigint not null,
    part bigint not null,
    total bigint not null,
    address text not null,
    primary key (run)
) partition by range (run);

create index parts_by_whole on parts (whole, part);

-- `first_part` and `last_part` are the lowest and the highest of its parts' ids.
create table joins (
    run bigint not null,
    total bigint not null,
    open bigint not null,
    succeeded bigint not null,
    first_part bigint not null,
    last_part bigint not null,
    primary key (run)
) partition by range (run);

create table logs (
    run bigint not null,
    attempt bigint not null,
    next_line bigint not null,
    is_complete boolean not null,
    text text not null,
    primary key (run, attempt)
) partition by range (run);

create table kills (
    run bigint not null,
    attempt bigint not null,
    at bigint not null,
    is_confirmed boolean,
    said text not null,
    primary key (run, attempt)
) partition by range (run);

-- Runs of days too far ahead to have tables of their own, until they come near, and the ends of those that were cancelled there.
create table runs_far (
    id bigint primary key,
    job bigint not null,
    shard integer not null,
    fire_time bigint not null,
    due bigint not null,
    origin smallint not null,
    decided smallint not null,
    priority smallint not null,
    key text,
    of bigint,
    payload text
);

create index runs_far_due on runs_far (shard, due, id);

create unique index runs_far_named on runs_far (fire_time, job) where origin in (0, 3) and decided <> 4;

create table closes_far (
    run bigint primary key,
    outcome smallint not null,
    reason text not null,
    closed_at bigint not null,
    range_until bigint,
    range_count bigint,
    unsent bigint,
    attempt bigint,
    token bigint,
    executor text,
    started_at bigint,
    ended_at bigint,
    attempt_outcome smallint,
    message text,
    possible_duplicate boolean
);

create view all_runs as
select id, job, shard, fire_time, due, origin, decided, priority, key, of, payload from runs
union all
select id, job, shard, fire_time, due, origin, decided, priority, key, of, payload from runs_far;

create view all_closes as
select run, outcome, reason, closed_at, range_until, range_count, unsent, attempt, token, executor, started_at, ended_at,
       attempt_outcome, message, possible_duplicate
from closes
union all
select run, outcome, reason, closed_at, range_until, range_count, unsent, attempt, token, executor, started_at, ended_at,
       attempt_outcome, message, possible_duplicate
from closes_far;
