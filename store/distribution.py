"""How Citus distributes the schema: distributed tables, reference tables and functions.

Nothing here runs on Citus: these are statements for its operator, and the rules that a test holds the schema
to (`tests/store/test_distribution.py`).
"""

from collections.abc import Iterable, Iterator, Mapping

from sqlalchemy import Table, text

from store.schema import METADATA

KEY = "host_id"
#: Tables that are replicated to every node, each with the reason.
REFERENCE_TABLES: Mapping[str, str] = {
    "afterturn.host_t": "the names of all tenants are unique together",
    "afterturn.api_key_t": "a key is found by its hash before its tenant is known",
    "afterturn.gateway_target_t": "a gateway's user belongs to one tenant of all",
    "public.afterturn_cluster": "tells of the cluster, of no tenant",
    "public.afterturn_console_session": "a session is found by its hash before its tenant is known",
    "public.afterturn_gate": "is shared by all tenants that call one service",
    "public.afterturn_generation": "tells of the service, of no tenant",
    "public.afterturn_maintenance": "tells of the service, of no tenant",
    "public.afterturn_operator_key": "has no tenant",
    "public.afterturn_worker": "tells of the service, of no tenant",
    "public.afterturn_outside_model": "tells of the service, of no tenant",
}
#: Functions that name a tenant and are not sent to its node, each with the reason.
FUNCTIONS_KEPT: Mapping[str, str] = {
    "free_heads": "is asked by ready_streams, which looks over all tenants of a node",
    "erased_since": "is of a replay, which the owner runs on each node",
    "replay_step": "is of a replay, which the owner runs on each node",
    "apply_shadow": "is of a replay, which the owner runs on each node",
}
#: Distributed tables with triggers, which read and write only rows of the same tenant.
TRIGGERED = (
    "afterturn.open_turn_t",
    "afterturn.plugin_namespace_t",
    "afterturn.plugin_vector_t",
    "afterturn.recall_job_t",
)
#: The functions of the schema that take a tenant, as PostgreSQL writes them in a call of create_distributed_function.
FUNCTIONS = text("""
    select p.proname as name, p.oid::regprocedure::text as signature, p.proargnames[1] as first
      from pg_proc p
     where p.pronamespace = 'afterturn'::regnamespace and 'p_host' = any(p.proargnames[1:p.pronargs])
     order by p.oid::regprocedure::text""")


def list_distributed_tables() -> list[Table]:
    """Return the tables that are distributed by tenant, each after those it refers to."""
    return [table for table in METADATA.sorted_tables if table.fullname not in REFERENCE_TABLES]


def plan_statements(functions: Iterable[str]) -> Iterator[str]:
    """Yield the statements that distribute an empty schema, in order; `functions`: signatures with a tenant first."""
    yield "create extension if not exists citus;"
    yield f"set citus.enable_unsafe_triggers = on; -- for {', '.join(TRIGGERED)}, whose triggers stay within the tenant"
    for name in REFERENCE_TABLES:
        yield f"select create_reference_table('{name}');"
    first, *others = list_distributed_tables()
    yield f"select create_distributed_table('{first.fullname}', '{KEY}');"
    for table in others:
        yield f"select create_distributed_table('{table.fullname}', '{KEY}', colocate_with => '{first.fullname}');"
    for signature in functions:
        yield (f"select create_distributed_function('{signature}', 'p_host', colocate_with => '{first.fullname}');")
