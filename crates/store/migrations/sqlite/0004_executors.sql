-- Who executes: apps, and the executors that registered for them. The tables of days get an index of gates by their numbers
-- with this migration too (src/sqlite/file.rs); what is kept of parts, logs and kills lies in tables of days.

-- `addresses` is a JSON list of texts; none where executors register themselves.
create table apps (
    name text primary key,
    title text not null,
    addresses text,
    access_token text,
    version integer not null
) strict, without rowid;

-- Every app that has a job has a row.
insert into apps (name, title, version)
select distinct app, '', 1
from jobs
where state <> 2;

create table executors (
    app text not null,
    address text not null,
    dialect text not null,
    beat_at integer not null,
    joined_at integer not null,
    primary key (app, address)
) strict, without rowid;
