alter table tranche.outcomes
    add column started_at timestamptz,
    add column attempts bigint not null default 0;
