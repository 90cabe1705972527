-- How long an app keeps its finished runs, in milliseconds, where it says so. A table of its own, since a column cannot be added
-- by a statement that can be repeated.
create table if not exists retentions (
    app_key binary(32) not null primary key,
    kept bigint not null
) engine=InnoDB;

-- Of days before `day`, runs of this app were removed: no instant of them may run again.
create table if not exists thinned (
    app_key binary(32) not null primary key,
    day int unsigned not null
) engine=InnoDB;
