-- additive
-- The runs of a job, for lists and for what a deleted job left. Days that are made later get it with their tables.
create index runs_job on runs (job, id);

create index runs_far_job on runs_far (job, id);

-- Answers with tokens in clear, which earlier versions kept.
delete from requests
where strpos(body, '"token":"pct_') > 0;
