create table tranche_grids (
    pipeline text not null,
    ordinal integer not null,
    since text,
    cron text not null,
    every_seconds integer not null,
    timezone text not null,
    start_at text not null,
    end_at text,
    applied_at text not null,
    primary key (pipeline, ordinal)
) strict;

create table tranche_notices (
    pipeline text not null,
    interval_start text not null,
    interval_end text not null,
    what text not null,
    noticed_at text not null,
    primary key (pipeline, interval_start, interval_end, what)
) strict;
