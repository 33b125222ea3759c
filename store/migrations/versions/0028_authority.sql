-- WHY: a key of a user or an agent lays down directives in shared banks only with this scope.
alter table afterturn.api_key_t add column can_curate boolean not null default false;
-- WHY: everybody who recalls from a bank is shown its directives, and by whom each was laid down.
alter table afterturn.agent_memory_directive_t add column laid_down_by text;
