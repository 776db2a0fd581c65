create table tranche.receipts (
    table_name text not null,
    scope text not null,
    interval_start timestamptz not null,
    interval_end timestamptz not null,
    pipeline text not null,
    step text not null,
    disposition text not null,
    workflow_id text not null,
    run_id text not null,
    attempt bigint not null,
    fence bigint not null,
    digest text not null,
    rows_read bigint not null,
    rows_deleted bigint not null,
    rows_inserted bigint not null,
    rows_dropped bigint not null,
    rows_duplicate bigint not null,
    rows_stale bigint not null,
    rows_unchanged bigint not null,
    checksum text not null,
    loaded_at timestamptz not null,
    primary key (table_name, scope, interval_start, interval_end)
);
create index on tranche.receipts (pipeline, interval_start);

create table tranche.outcomes (
    pipeline text not null,
    interval_start timestamptz not null,
    interval_end timestamptz not null,
    status text not null,
    kind text not null,
    workflow_id text not null,
    run_id text not null,
    fence bigint not null,
    digest text not null,
    note text not null,
    recorded_at timestamptz not null,
    primary key (pipeline, interval_start, interval_end)
);

create table tranche.owners (
    table_name text not null,
    scope text not null,
    pipeline text not null,
    step text not null,
    since timestamptz not null,
    primary key (table_name, scope)
);

create table tranche.stages (
    stage text primary key,
    pipeline text not null,
    run_id text not null,
    step text not null,
    workflow_id text not null,
    interval_start timestamptz not null,
    interval_end timestamptz not null,
    shape text not null,
    fence bigint not null,
    position text not null,
    pages bigint not null,
    rows bigint not null,
    checksum bigint not null,
    restarts bigint not null,
    done boolean not null,
    created_at timestamptz not null,
    updated_at timestamptz not null
);

create table tranche.rejects (
    pipeline text not null,
    step text not null,
    interval_start timestamptz not null,
    interval_end timestamptz not null,
    run_id text not null,
    source_row bigint not null,
    column_name text not null,
    declared_type text not null,
    reason text not null,
    value text not null,
    rejected_at timestamptz not null
);
create index on tranche.rejects (pipeline, interval_start);
