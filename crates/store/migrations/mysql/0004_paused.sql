-- That an app is paused: since when, by whom and why, as JSON. A table of its own, since a column cannot be added by a statement
-- that can be repeated.
create table if not exists pauses (
    app_key binary(32) not null primary key,
    paused longtext character set utf8mb4 collate utf8mb4_bin not null
) engine=InnoDB;
