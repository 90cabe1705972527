-- breaking
-- What a run has in place of its job's: timeout, retry policy, the one executor that it is meant for. Earlier programs kept
-- them in lines of their own in front of the payload. The tables of days get the column, and old rows are split, in
-- `migrate/overrides.rs`.

-- A column cannot be added by a statement that can be repeated, so it is looked for first.
set @adds = if(
    exists (
        select 1 from information_schema.columns
        where table_schema = database() and table_name = 'waiting' and column_name = 'overrides'
    ),
    'do 0',
    'alter table waiting add column overrides longtext character set utf8mb4 collate utf8mb4_bin'
);

prepare adds from @adds;

execute adds;

deallocate prepare adds;
