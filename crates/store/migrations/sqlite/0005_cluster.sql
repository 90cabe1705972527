-- What people call a node.
alter table nodes add column name text not null default '';

-- What nodes show each other: drawn once, by the first of them.
create table peer_secret (
    id integer primary key check (id = 1),
    secret blob not null
) strict;
