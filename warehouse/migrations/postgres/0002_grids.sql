create table tranche.grids (
    pipeline text not null,
    ordinal bigint not null,
    since timestamptz,
    cron text not null,
    every_seconds bigint not null,
    timezone text not null,
    start_at timestamptz not null,
    end_at timestamptz,
    applied_at timestamptz not null,
    primary key (pipeline, ordinal)
);

create table tranche.notices (
    pipeline text not null,
    interval_start timestamptz not null,
    interval_end timestamptz not null,
    what text not null,
    noticed_at timestamptz not null,
    primary key (pipeline, interval_start, interval_end, what)
);
