-- What keeps a page of a list short however much is stored.

-- Jobs of an app in the order of their ids, deleted ones apart.
create index jobs_by_app on jobs (app, state);

-- The first and the last instant that a run of the day was named for, so that a list by time passes over whole days. Not
-- known of days that were begun before there were these columns.
alter table buckets add column first_fire integer;
alter table buckets add column last_fire integer;
