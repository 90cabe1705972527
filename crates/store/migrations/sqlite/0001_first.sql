-- What there is one of, or little of. The rows of runs, closes, attempts and gates lie in tables of their own for each
-- day of birth, which are made when the day is first needed (src/sqlite/day.rs).

-- Decided once, when the database is made.
create table meta (
    name text primary key,
    value integer not null
) strict, without rowid;

-- The last number given of each kind: epoch, job, log, change, arrival.
create table counters (
    name text primary key,
    value integer not null
) strict, without rowid;

create table nodes (
    node text primary key,
    expires_at integer not null,
    term integer not null,
    mark integer not null,
    seen integer not null,
    address text not null
) strict, without rowid;

-- `inherited` is what all holders before the owner promised together.
create table shards (
    shard integer primary key,
    owner text,
    epoch integer not null,
    inherited integer,
    checkpoint_due integer not null,
    checkpoint_run integer not null,
    -- The earliest birth since the checkpoint was last moved up.
    floor integer not null
) strict;

create table jobs (
    id integer primary key,
    version integer not null,
    changed_at integer not null,
    state integer not null,
    reason text not null,
    app text not null,
    name text not null,
    definition text not null
) strict;

-- A deleted job (state 2) leaves its name to others.
create unique index jobs_by_name on jobs (app, name) where state <> 2;

create table clocks (
    job integer primary key,
    shard integer not null,
    next_fire integer,
    version integer not null,
    enabled integer not null,
    decided_to integer not null,
    reserved_to integer not null
) strict;

-- By time and not by shard: the one node of an embedded store owns nearly every shard, so one ordered scan with a filter
-- reads hardly more than what is due, where 64 scans would have to be merged.
create index clocks_by_next_fire on clocks (next_fire)
    where enabled = 1 and next_fire is not null;

-- Which jobs start which: the column `after` of definitions, from the parent's side.
create table bonds (
    parent integer not null,
    child integer not null,
    ends integer not null,
    primary key (parent, child, ends)
) strict, without rowid;

create index bonds_by_child on bonds (child);

create table revisions (
    job integer not null,
    version integer not null,
    at integer not null,
    by text not null,
    definition text not null,
    primary key (job, version)
) strict;

create table changes (
    id integer primary key,
    job integer not null
) strict;

-- Open runs that wait for anything but their birth time. Parked ones have no instant, and are called back in the order
-- in which they were due.
create table waiting (
    run integer primary key,
    job integer not null,
    shard integer not null,
    due integer not null,
    ready_at integer,
    attempt integer not null,
    is_called_back integer not null
) strict;

-- With the shard, so that the first wait of each is found without the rows.
create index waiting_by_ready_at on waiting (ready_at, run, shard) where ready_at is not null;

create index waiting_parked on waiting (shard, job, due, run) where ready_at is null;

create table holds (
    resource text not null,
    slot integer not null,
    run integer not null,
    primary key (resource, slot)
) strict, without rowid;

create index holds_by_run on holds (run);

-- Without an expiry while the run is open.
create table keys (
    job integer not null,
    key text not null,
    run integer not null,
    expires_at integer,
    primary key (job, key)
) strict, without rowid;

create index keys_by_run on keys (run);

create index keys_by_expiry on keys (expires_at) where expires_at is not null;

-- `at` is 0 where there is no instant, so that the index sees two of the same as equal.
create table arrivals (
    id integer primary key,
    shard integer not null,
    kind integer not null,
    run integer not null,
    at integer not null
) strict;

create index arrivals_by_shard on arrivals (shard);

-- What lies there already is not left twice.
create unique index arrivals_once on arrivals (run, kind, shard, at);

create table tallies (
    job integer primary key,
    succeeded integer not null,
    failed integer not null,
    not_run integer not null,
    consecutive_failures integer not null,
    last_outcome integer,
    last_success integer
) strict;

create table sequences (
    day integer primary key,
    next integer not null
) strict;

-- One row a day of birth. Every run below `due_mark` is in the day's due index, closed, waiting or gated; every close up to
-- `close_mark` is in its index of closes.
create table buckets (
    day integer primary key,
    runs integer not null,
    closed integer not null,
    bytes integer not null,
    due_mark integer not null,
    close_mark integer not null
) strict;

-- The layers of the late indexes that are whole: what they hold lies between `low` and `high`. Those of the due index
-- (kind 0) are enclosed by due times, those of the index of closes (kind 1) by runs.
create table layers (
    day integer not null,
    kind integer not null,
    layer integer not null,
    low integer not null,
    high integer not null,
    primary key (day, kind, layer)
) strict, without rowid;
