-- additive
-- How long an app keeps its finished runs, in milliseconds; none for as long as the node keeps others.
alter table apps add column retention bigint;

-- Of days before `day`, runs of this app were removed: no instant of them may run again.
create table thinned (
    app text not null,
    day bigint not null
);

create unique index thinned_once on thinned (md5(app));
