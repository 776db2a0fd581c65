alter table tranche_outcomes add column started_at text;
alter table tranche_outcomes add column attempts integer not null default 0;
