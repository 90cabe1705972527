-- What there is one of, or little of. What grows with runs lies in tables of their own for each day of birth, which are made
-- when the day is first needed (src/mysql/day.rs).
--
-- Times are milliseconds since 1970. Texts may be longer than a key of MySQL can be, so whatever is unique by a text is
-- unique by the SHA-256 sum of it. Every statement can be repeated: MySQL has no transactions around them.

-- Numbers that there is one of: how many shards, the first day that lies in the tables `far`, the first day of which nothing was
-- dropped, how often the list of days has changed.
create table if not exists meta (
    name varchar(40) character set ascii collate ascii_bin not null primary key,
    value bigint not null
) engine=InnoDB;

-- The last number given of each kind: epoch, job, log, change, token.
create table if not exists counters (
    name varchar(40) character set ascii collate ascii_bin not null primary key,
    value bigint not null
) engine=InnoDB;

insert into counters (name, value)
values ('change', 0), ('epoch', 0), ('job', 0), ('log', 0), ('token', 0)
on duplicate key update value = value;

insert into meta (name, value)
values ('days_version', 0), ('pruned_to', 0)
on duplicate key update value = value;

-- `renewals` makes every renewal a change, so that the server says whether there was a row to renew.
create table if not exists nodes (
    node binary(16) not null primary key,
    expires_at bigint not null,
    term bigint not null,
    mark bigint not null,
    seen bigint unsigned not null,
    renewals bigint unsigned not null,
    name longtext character set utf8mb4 collate utf8mb4_bin not null,
    address longtext character set utf8mb4 collate utf8mb4_bin not null
) engine=InnoDB;

-- What nodes show each other: drawn once, by the first of them.
create table if not exists peer_secret (
    id tinyint unsigned not null primary key,
    secret binary(32) not null
) engine=InnoDB;

-- `inherited` is what all holders before the owner promised together.
create table if not exists shards (
    shard smallint unsigned not null primary key,
    owner binary(16),
    epoch bigint unsigned not null,
    inherited bigint,
    checkpoint_due bigint not null,
    checkpoint_run bigint unsigned not null
) engine=InnoDB;

-- The earliest due time of each batch of births on a shard, until a checkpoint has taken note of it.
create table if not exists births (
    id bigint unsigned not null auto_increment primary key,
    shard smallint unsigned not null,
    due bigint not null,
    key births_by_shard (shard, due)
) engine=InnoDB;

-- `name_key` is null for a deleted job (state 2), which leaves its name to others.
create table if not exists jobs (
    id int unsigned not null primary key,
    version bigint unsigned not null,
    changed_at bigint not null,
    state tinyint unsigned not null,
    reason longtext character set utf8mb4 collate utf8mb4_bin not null,
    app longtext character set utf8mb4 collate utf8mb4_bin not null,
    name longtext character set utf8mb4 collate utf8mb4_bin not null,
    definition longtext character set utf8mb4 collate utf8mb4_bin not null,
    app_key binary(32) not null,
    name_key binary(32),
    unique key jobs_by_name (name_key),
    key jobs_by_app (app_key, id)
) engine=InnoDB;

-- `due_at` is the next fire time of an enabled clock and null for every other, so that the index holds what can be due and
-- nothing else.
create table if not exists clocks (
    job int unsigned not null primary key,
    shard smallint unsigned not null,
    next_fire bigint,
    version bigint unsigned not null,
    enabled tinyint unsigned not null,
    decided_to bigint not null,
    reserved_to bigint not null,
    due_at bigint,
    key clocks_by_due (due_at, job, shard)
) engine=InnoDB;

-- Which jobs start which: the field `after` of definitions, from the parent's side.
create table if not exists bonds (
    parent int unsigned not null,
    child int unsigned not null,
    ends tinyint unsigned not null,
    primary key (parent, child, ends),
    key bonds_by_child (child)
) engine=InnoDB;

create table if not exists revisions (
    job int unsigned not null,
    version bigint unsigned not null,
    at bigint not null,
    `by` longtext character set utf8mb4 collate utf8mb4_bin not null,
    definition longtext character set utf8mb4 collate utf8mb4_bin not null,
    primary key (job, version)
) engine=InnoDB;

create table if not exists changes (
    id bigint unsigned not null primary key,
    job int unsigned not null
) engine=InnoDB;

-- `prior` is what `consecutive_failures` was before the last batch, for whoever wrote that batch.
create table if not exists counts (
    job int unsigned not null primary key,
    prior int unsigned not null,
    succeeded bigint unsigned not null,
    failed bigint unsigned not null,
    not_run bigint unsigned not null,
    consecutive_failures int unsigned not null,
    last_outcome tinyint unsigned,
    last_success bigint
) engine=InnoDB;

create table if not exists sequences (
    day int unsigned not null primary key,
    last bigint unsigned not null
) engine=InnoDB;

-- The days that have tables of their own: which (a bit each), and between which instants its runs are due. The day 4294967295
-- stands for the tables `far`.
create table if not exists days (
    day int unsigned not null primary key,
    tables int unsigned not null,
    low bigint not null,
    high bigint not null
) engine=InnoDB;

-- How many runs of a day there are and how many are closed, in so many rows that writers do not wait for each other.
create table if not exists tallies (
    day int unsigned not null,
    slot tinyint unsigned not null,
    runs bigint not null,
    closed bigint not null,
    primary key (day, slot)
) engine=InnoDB;

-- Open runs that wait for anything but their birth time, with what the wheel needs of them. Parked ones have no instant, and
-- are called back in the order in which they were due.
create table if not exists waiting (
    run bigint unsigned not null primary key,
    job int unsigned not null,
    shard smallint unsigned not null,
    fire_time bigint not null,
    due bigint not null,
    origin tinyint unsigned not null,
    decided tinyint unsigned not null,
    priority tinyint unsigned not null,
    has_payload tinyint unsigned not null,
    ready_at bigint,
    attempt int unsigned not null,
    is_called_back tinyint unsigned not null,
    key waiting_by_ready_at (ready_at, run, shard),
    key waiting_parked (shard, ready_at, job, due, run)
) engine=InnoDB;

-- Open runs that went through a gate.
create table if not exists flights (
    run bigint unsigned not null primary key,
    shard smallint unsigned not null,
    key flights_by_shard (shard)
) engine=InnoDB;

create table if not exists holds (
    resource_key binary(32) not null,
    slot int unsigned not null,
    run bigint unsigned not null,
    resource longtext character set utf8mb4 collate utf8mb4_bin not null,
    primary key (resource_key, slot),
    key holds_by_run (run)
) engine=InnoDB;

-- Without an expiry while the run is open.
create table if not exists `keys` (
    job int unsigned not null,
    name_key binary(32) not null,
    run bigint unsigned not null,
    expires_at bigint,
    primary key (job, name_key),
    key keys_by_run (run),
    key keys_by_expiry (expires_at)
) engine=InnoDB;

-- `at` is 0 where there is no instant, so that two of the same are equal.
create table if not exists arrivals (
    id bigint unsigned not null auto_increment primary key,
    shard smallint unsigned not null,
    kind tinyint unsigned not null,
    run bigint unsigned not null,
    at bigint not null,
    key arrivals_by_shard (shard, id),
    unique key arrivals_once (run, kind, shard, at)
) engine=InnoDB;

-- `digest` is the SHA-256 sum of the token, `apps` a JSON list of texts.
create table if not exists tokens (
    id int unsigned not null primary key,
    name longtext character set utf8mb4 collate utf8mb4_bin not null,
    digest binary(32) not null,
    role longtext character set utf8mb4 collate utf8mb4_bin not null,
    apps longtext character set utf8mb4 collate utf8mb4_bin not null,
    created_at bigint not null,
    expires_at bigint
) engine=InnoDB;

-- Without a status until it is answered.
create table if not exists requests (
    request_key binary(32) not null primary key,
    digest binary(32) not null,
    begun_at bigint not null,
    status smallint unsigned,
    body longtext character set utf8mb4 collate utf8mb4_bin,
    key requests_by_begun_at (begun_at)
) engine=InnoDB;

-- `addresses` is a JSON list of texts; none where executors register themselves.
create table if not exists apps (
    name_key binary(32) not null primary key,
    name longtext character set utf8mb4 collate utf8mb4_bin not null,
    title longtext character set utf8mb4 collate utf8mb4_bin not null,
    addresses longtext character set utf8mb4 collate utf8mb4_bin,
    access_token longtext character set utf8mb4 collate utf8mb4_bin,
    version bigint unsigned not null
) engine=InnoDB;

create table if not exists executors (
    app_key binary(32) not null,
    address_key binary(32) not null,
    app longtext character set utf8mb4 collate utf8mb4_bin not null,
    address longtext character set utf8mb4 collate utf8mb4_bin not null,
    dialect varchar(40) character set ascii collate ascii_bin not null,
    beat_at bigint not null,
    joined_at bigint not null,
    primary key (app_key, address_key)
) engine=InnoDB;
