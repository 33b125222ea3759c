-- A delivery's row is written five times, and no index says anything else of it until it ends. An update stays in its
-- page, and leaves the indexes alone, only when it changes no column that any index names: so the failures are found by
-- a moment of their own, which what goes well never sets.
alter table afterturn.ledger_t add column failed_at timestamptz generated always as (
    case when status in ('dead', 'unknown', 'add_failed', 'add_unknown', 'flush_failed') then updated_at end) stored;
drop index afterturn.ledger_failed;
-- WHY: operators look at what failed; there should be next to nothing.
create index ledger_failed on afterturn.ledger_t (stage, failed_at) where failed_at is not null;
