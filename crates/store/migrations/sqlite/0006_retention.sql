-- How long an app keeps its finished runs, in milliseconds; none for as long as the node keeps others.
alter table apps add column retention integer;

-- Of days before `day`, runs of this app were removed: no instant of them may run again.
create table thinned (
    app text primary key,
    day integer not null
) strict, without rowid;
