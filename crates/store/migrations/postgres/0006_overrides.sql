-- breaking
-- What a run has in place of its job's: timeout, retry policy, the one executor that it is meant for. Earlier programs kept
-- them in lines of their own in front of the payload: `!` and the first two, `@` and the executor.
alter table runs add column overrides text;

alter table runs_far add column overrides text;

create or replace view all_runs as
select id, job, shard, fire_time, due, origin, decided, priority, key, of, payload, overrides from runs
union all
select id, job, shard, fire_time, due, origin, decided, priority, key, of, payload, overrides from runs_far;

update runs
set overrides = substr(payload, 2, strpos(payload, chr(10)) - 2),
    payload = nullif(substr(payload, strpos(payload, chr(10)) + 1), '')
where left(payload, 1) = '!' and strpos(payload, chr(10)) > 0;

update runs
set overrides = concat_ws(' ', overrides, 'executor=' || substr(payload, 2, strpos(payload, chr(10)) - 2)),
    payload = nullif(substr(payload, strpos(payload, chr(10)) + 1), '')
where left(payload, 1) = '@' and strpos(payload, chr(10)) > 0;

update runs_far
set overrides = substr(payload, 2, strpos(payload, chr(10)) - 2),
    payload = nullif(substr(payload, strpos(payload, chr(10)) + 1), '')
where left(payload, 1) = '!' and strpos(payload, chr(10)) > 0;

update runs_far
set overrides = concat_ws(' ', overrides, 'executor=' || substr(payload, 2, strpos(payload, chr(10)) - 2)),
    payload = nullif(substr(payload, strpos(payload, chr(10)) + 1), '')
where left(payload, 1) = '@' and strpos(payload, chr(10)) > 0;

-- A part has what its whole has.
update runs r
set overrides = w.overrides
from parts p
join all_runs w on w.id = p.whole
where p.run = r.id and w.overrides is not null;
