-- additive
-- Applications hand over one-shots in their own transactions: they insert `app`, `job`, `at`, `payload`, `key` and `priority`, and
-- nothing else. Such rows have no run yet, and lie where programs from before this do not look: shard -1, or -2 if they
-- were refused.
alter table arrivals
    alter column id set default nextval('arrival_numbers'),
    alter column shard set default -1,
    alter column kind set default 3,
    alter column run drop not null,
    alter column at set default 0,
    add column app text,
    add column job text,
    add column payload json,
    add column key text,
    add column priority smallint,
    add column refused text;
