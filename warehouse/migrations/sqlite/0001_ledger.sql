create table tranche_receipts (
    table_name text not null,
    scope text not null,
    interval_start text not null,
    interval_end text not null,
    pipeline text not null,
    step text not null,
    disposition text not null,
    workflow_id text not null,
    run_id text not null,
    attempt integer not null,
    fence integer not null,
    digest text not null,
    rows_read integer not null,
    rows_deleted integer not null,
    rows_inserted integer not null,
    rows_dropped integer not null,
    rows_duplicate integer not null,
    rows_stale integer not null,
    rows_unchanged integer not null,
    checksum text not null,
    loaded_at text not null,
    primary key (table_name, scope, interval_start, interval_end)
) strict;
create index tranche_receipts_by_interval on tranche_receipts (pipeline, interval_start);

create table tranche_outcomes (
    pipeline text not null,
    interval_start text not null,
    interval_end text not null,
    status text not null,
    kind text not null,
    workflow_id text not null,
    run_id text not null,
    fence integer not null,
    digest text not null,
    note text not null,
    recorded_at text not null,
    primary key (pipeline, interval_start, interval_end)
) strict;

create table tranche_owners (
    table_name text not null,
    scope text not null,
    pipeline text not null,
    step text not null,
    since text not null,
    primary key (table_name, scope)
) strict;

create table tranche_stages (
    stage text primary key,
    pipeline text not null,
    run_id text not null,
    step text not null,
    workflow_id text not null,
    interval_start text not null,
    interval_end text not null,
    shape text not null,
    fence integer not null,
    position text not null,
    pages integer not null,
    rows integer not null,
    checksum integer not null,
    restarts integer not null,
    done integer not null,
    created_at text not null,
    updated_at text not null
) strict;

create table tranche_rejects (
    pipeline text not null,
    step text not null,
    interval_start text not null,
    interval_end text not null,
    run_id text not null,
    source_row integer not null,
    column_name text not null,
    declared_type text not null,
    reason text not null,
    value text not null,
    rejected_at text not null
) strict;
create index tranche_rejects_by_interval on tranche_rejects (pipeline, interval_start);
