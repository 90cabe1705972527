-- That an app is paused: since when, by whom and why, as JSON; none while it is not.
alter table apps add column paused text;
