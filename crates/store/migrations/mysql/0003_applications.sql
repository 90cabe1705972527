-- Applications hand over one-shots in their own transactions: they insert `app`, `job`, `at`, `payload`, `key_text` and
-- `priority`, and nothing else. Such rows have no run yet, and lie where programs from before this do not look: shard 65535,
-- or 65534 if they were refused.
alter table arrivals
    modify column shard smallint unsigned not null default 65535,
    modify column kind tinyint unsigned not null default 3,
    modify column run bigint unsigned,
    modify column at bigint not null default 0;

-- A column cannot be added by a statement that can be repeated, so it is looked for first.
set @adds = if(
    exists (
        select 1 from information_schema.columns
        where table_schema = database() and table_name = 'arrivals' and column_name = 'refused'
    ),
    'do 0',
    'alter table arrivals
        add column app longtext character set utf8mb4 collate utf8mb4_bin,
        add column job longtext character set utf8mb4 collate utf8mb4_bin,
        add column payload json,
        add column key_text longtext character set utf8mb4 collate utf8mb4_bin,
        add column priority tinyint unsigned,
        add column refused longtext character set utf8mb4 collate utf8mb4_bin'
);

prepare adds from @adds;

execute adds;

deallocate prepare adds;
