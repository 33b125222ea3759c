"""The contract of agent memory by events, 3.5 to 3.8: each clause and trap, and its tests (file of `tests`, name).

Deliberately otherwise, so without a test: enrichment rules of an import (`generateUUID` and its like: every id is
derived), rows of notification (readers of the log need none), optimistic removal in a page (the console waits for the
answer), recalls as bare SQL (they go through the API).
"""

from collections.abc import Mapping

import pytest

from tests.named_tests import find_missing

_COMMAND = "producers/http/test_commands.py::test_"
_STORE = "client/memory_store/test_stores.py::test_"
_SETTING = "client/memory_store/test_store_settings.py::test_"
_GRAPH = "producers/http/test_graph.py::test_"
_ISSUER = "producers/test_issuers.py::test_"
_SCOPE = "producers/service/test_scopes.py::test_"
_POLICY = "store/snapshot/test_policy.py::test_"
_FORM = "store/snapshot/test_portal_form.py::test_"
_SNAPSHOT = "workers/test_snapshots.py::test_"
_FOREIGN = "workers/test_foreign_snapshots.py::test_"
_FILE = "deploy/cli/test_snapshot.py::test_"
_BACKFILL = "workers/test_backfill.py::test_"
_CATALOG = "store/log/test_catalog.py::test_"
_APPEND = "store/log/test_append.py::test_"
_ENVELOPE = "store/log/test_envelope.py::test_"

Tests = Mapping[str, tuple[str, ...]]

COMMANDS: Tests = {
    "create, update and delete of bank, doc, entity, link, directive; link and unlink; delete of a unit": (
        f"{_COMMAND}units_entities_and_links_are_joined_counted_and_parted",
        f"{_COMMAND}versions_are_those_that_were_expected_or_a_conflict",
        f"{_COMMAND}a_bank_is_changed_and_ended_when_it_is_empty",
    ),
    "agent-only actions: retain, and a session's create, append, compact, delete": (
        f"{_COMMAND}an_agent_retains_a_unit_and_recalls_it_at_once",
        f"{_COMMAND}a_session_is_begun_appended_to_and_ended",
    ),
    "updateUnit, createReflection, updateReflection stay unpublished": (
        f"{_COMMAND}what_is_no_command_is_refused_before_anything_is_written",
    ),
    "queries as lists and single reads": (
        f"{_GRAPH}entities_mentions_pairs_and_links_are_read_to_their_end_and_one_by_one",
        f"{_GRAPH}a_bank_and_a_directive_are_read_with_the_version_that_a_command_expects",
    ),
    "the tenant is the token's host; hostId, bankId and agentDefId are validated": (
        f"{_COMMAND}a_command_reaches_no_bank_of_another_agent_user_or_tenant",
    ),
    "a service token matches host, sid and env, on every interface": (
        f"{_ISSUER}a_token_of_a_service_is_its_agents_on_every_interface",
        f"{_ISSUER}a_token_that_is_not_for_this_deployment_opens_no_interface",
        f"{_ISSUER}a_service_opens_nothing_where_the_settings_do_not_name_the_deployment",
    ),
    "a bank with living children or sessions is not deactivated": (
        f"{_COMMAND}a_bank_is_changed_and_ended_when_it_is_empty",
    ),
    "embeddings are never returned": (f"{_GRAPH}nothing_of_the_graph_is_of_another_bank_or_holds_a_vector",),
    "details are bounded and hide what looks like a credential": (
        f"{_GRAPH}a_history_is_bounded_and_masked_when_it_is_read",
        f"{_GRAPH}a_history_is_cut_where_its_messages_have_four_megabytes",
    ),
    "banks of a runtime are left out before count and page": (
        f"{_GRAPH}banks_of_a_runtime_are_left_out_before_the_page_is_counted",
    ),
    "a command applies its projection before it answers": (
        f"{_COMMAND}an_agent_retains_a_unit_and_recalls_it_at_once",
        f"{_STORE}a_portal_that_promises_a_bank_and_has_none_is_found_out",
    ),
    "tiers: the host's banks, shared banks of an agent, private banks of a user": (
        f"{_SCOPE}an_agent_without_a_user_reaches_its_own_and_shared_banks_and_no_users",
    ),
    "the portal's wire form; its URL follows from the origin": (
        f"{_STORE}a_command_is_sent_in_the_portals_wire_form_with_a_key_of_its_own",
        f"{_SETTING}the_url_of_commands_follows_from_the_portals",
    ),
    "trap: the body of an error stands in the error's text": (
        f"{_STORE}the_body_of_an_error_is_not_in_what_is_raised",
    ),
    "trap: statusCode or code under 200 is an error": (f"{_STORE}an_error_under_the_status_200_is_an_error",),
    "trap: a retain that is sent again is stored twice": (
        f"{_COMMAND}a_command_with_one_key_is_done_once",
        f"{_STORE}the_same_text_retained_twice_is_two_units",
    ),
    "a history is begun where there is none, appended to, and never saved by compacting": (
        f"{_STORE}a_history_is_begun_once_appended_to_and_never_compacted",
    ),
    "modes: portal-command or direct-pg, which needs a permission; another value is an error": (
        f"{_SETTING}any_other_value_is_an_error_at_the_start",
        f"{_STORE}a_store_is_opened_as_the_settings_say",
    ),
    "trap: document and code disagree on the default mode": (
        f"{_SETTING}commands_are_the_default_and_the_environment_goes_before_the_configuration",
    ),
}

AGENT: Tests = {
    "retain and recall": (f"{_STORE}what_is_retained_is_recalled_at_once_and_an_ended_unit_is_not",),
    "ensure bank: the owner's, and active": (f"{_STORE}an_inactive_bank_and_another_agents_are_refused",),
    "a turn: recalled text before the user's message, never in the system prompt": (
        "client/hybrid/test_run.py::test_recalled_text_is_outside_the_system_prompt_and_before_the_current_prompt",
    ),
    "a failed write changes no answer": (
        "client/hybrid/test_through_afterturn.py::test_failures_of_afterturn_are_events_and_change_no_answer",
    ),
    "the newest 40 messages of a history": (f"{_STORE}a_history_keeps_its_order_and_its_newest_forty_messages",),
    "trap: redaction by key hides counters, and by line a whole memory": (
        f"{_COMMAND}a_secret_in_a_text_is_stored_by_no_command_and_what_only_sounds_like_one_stays",
    ),
    "trap: what retain stores is not redacted": (
        f"{_COMMAND}a_secret_in_a_text_is_stored_by_no_command_and_what_only_sounds_like_one_stays",
        f"{_COMMAND}a_session_is_begun_appended_to_and_ended",
    ),
    "trap 1: ended units are recalled": (
        f"{_STORE}what_is_retained_is_recalled_at_once_and_an_ended_unit_is_not",
        "producers/test_ended_everywhere.py::test_what_has_ended_is_in_no_answer_of_any_read_whether_or_not_an_event_has_ended_it",
    ),
    "trap 2: units without a vector fill up the answer": (
        f"{_STORE}vectors_rank_what_is_recalled_and_one_of_zeros_is_refused",
        f"{_STORE}what_nothing_is_near_to_is_not_recalled",
    ),
    "trap 3: a question of zeros has an arbitrary answer": (
        f"{_STORE}vectors_rank_what_is_recalled_and_one_of_zeros_is_refused",
    ),
    "trap 4: what was retained never gets a vector": (
        f"{_COMMAND}a_retained_unit_opens_the_stages_of_a_single_memory_and_never_the_gateway",
        f"{_BACKFILL}what_was_brought_over_is_found_read_and_continued",
    ),
    "trap 5: nothing is too distant": (f"{_STORE}what_nothing_is_near_to_is_not_recalled",),
    "trap 6: the fact type of the example is refused by the table": (
        f"{_STORE}a_wrong_fact_type_is_refused_and_the_error_holds_no_text",
    ),
    "trap 7: the index of a bank lacks its host": (
        "store/test_distribution.py::test_every_index_that_names_a_bank_begins_with_its_tenant",
    ),
    "trap 8: recalled text imitates a speaker": (
        "producers/service/test_framing.py::test_no_stored_text_can_close_its_frame",
        "client/hybrid/test_reference.py::test_no_recalled_text_can_close_its_frame",
    ),
    "trap 9: a bank for each session remembers nothing across sessions": (
        f"{_STORE}what_one_session_retained_in_the_agents_own_bank_is_recalled_in_the_next",
    ),
}

SNAPSHOTS: Tests = {
    "no content without a named part; agent_memory and its alias; history only when named": (
        f"{_FILE}without_a_named_part_no_content_is_in_the_file",
        f"{_POLICY}parts_have_the_names_of_the_seed",
        f"{_SNAPSHOT}memory_without_history_holds_no_message_and_lacks_no_parent",
    ),
    "production exports history masked and overridden alone": (
        f"{_POLICY}production_exports_no_history_but_masked_and_overridden",
        f"{_SNAPSHOT}a_masked_export_holds_no_stored_sentence_name_or_number",
    ),
    "one list of what is left out, with snapshot_ and co-occurrence": (
        f"{_POLICY}every_table_of_ours_and_the_seeds_is_named",
        f"{_POLICY}a_table_that_the_policy_does_not_name_is_an_error_and_snapshot_tables_are_left_out",
        f"{_POLICY}the_tables_of_every_aggregate_are_exported_as_events_and_derived_ones_are_not",
    ),
    "convert: without tables an error, empty is empty, parents first, an event for each table": (
        f"{_FORM}another_document_is_refused",
        f"{_FORM}an_empty_export_is_an_empty_snapshot",
        f"{_FORM}rows_become_events_of_this_tenant_parents_first_with_their_versions",
    ),
    "import: file or standard input, batch size, dry run": (
        f"{_FILE}a_snapshot_goes_through_standard_output_and_input",
        f"{_FILE}a_snapshot_is_written_checked_and_taken_in_and_again_changes_nothing",
    ),
    "fail-fast": (f"{_SNAPSHOT}with_fail_fast_nothing_of_a_batch_with_a_failed_event_is_written",),
    "replacement rules, in each spelling": (
        "store/snapshot/test_replacements.py::test_the_seeds_spellings_and_its_pairs_of_uuids_are_read",
    ),
    "spellings of the version; subject and kind are derived": (
        f"{_FORM}an_events_version_is_read_in_each_spelling_and_its_subject_and_kind_are_derived",
    ),
    "counters; one broken event costs no other": (
        f"{_SNAPSHOT}a_file_with_one_broken_event_of_each_kind_is_counted",
        f"{_FOREIGN}every_parked_event_of_a_batch_is_told_and_the_first_hundred_that_failed",
    ),
    "resumed where it was killed": (
        f"{_FILE}killed_in_each_phase_it_goes_on_where_it_ended",
        f"{_SNAPSHOT}an_import_goes_on_where_it_ended",
    ),
    "trap 1: versions are lost": (
        f"{_FORM}rows_become_events_of_this_tenant_parents_first_with_their_versions",
        f"{_BACKFILL}a_row_is_an_event_with_its_version_its_mark_and_no_vector",
    ),
    "trap 2: a replacement changes content": (f"{_FOREIGN}rules_replace_names_and_ids_and_never_content",),
    "trap 3: embeddings stand in events": (
        f"{_ENVELOPE}no_event_has_a_place_for_a_vector",
        f"{_FORM}rows_become_events_of_this_tenant_parents_first_with_their_versions",
    ),
    "trap 4: ids of events are random": (f"{_FORM}converting_twice_gives_the_same_whatever_the_order_of_the_rows",),
    "trap 5: the same event is no exact duplicate": (
        f"{_FILE}a_snapshot_is_written_checked_and_taken_in_and_again_changes_nothing",
    ),
    "trap 6: ended rows are revived": (
        f"{_FORM}ended_rows_and_their_children_stay_behind_and_broken_ones_are_named",
        f"{_SNAPSHOT}ended_things_stay_ended_and_another_body_is_a_conflict_that_says_why",
    ),
    "trap 7: a bank's user and agent are unknown in the target": (
        f"{_SNAPSHOT}rows_of_a_user_and_an_agent_that_are_unknown_here_are_taken_in",
    ),
    "backfill is marked, keeps versions, and is resumed": (
        f"{_BACKFILL}a_row_is_an_event_with_its_version_its_mark_and_no_vector",
        f"{_BACKFILL}a_backfill_that_is_killed_half_way_and_run_again_writes_each_row_once",
    ),
}

CHECKED: Tests = {
    "one replay test for each family": ("store/replay/test_families.py::test_a_family_replays_to_what_is_live",),
    "aggregate ids, also with a missing part": (
        f"{_CATALOG}an_aggregate_id_names_host_bank_and_its_own_parts",
        f"{_CATALOG}an_aggregate_id_is_never_partial",
    ),
    "the importer's rules are those of the log": (
        f"{_FORM}every_field_of_every_event_is_kept_or_named_as_dropped_by_the_page",
    ),
    "replay twice and out of order": (
        f"{_APPEND}the_same_event_again_changes_nothing",
        f"{_APPEND}an_event_whose_predecessor_is_missing_is_refused",
    ),
    "a memory store on a portal of the test: URL, action, data, bearer, error under 200": (
        f"{_STORE}a_command_is_sent_in_the_portals_wire_form_with_a_key_of_its_own",
        f"{_STORE}an_error_under_the_status_200_is_an_error",
    ),
    "parsing of modes": (f"{_SETTING}any_other_value_is_an_error_at_the_start",),
    "retain, command, event, replay, recall": (
        f"{_STORE}what_an_agent_retains_by_command_is_an_event_and_replay_makes_the_same_row",
    ),
    "unlink without a version": (
        f"{_COMMAND}units_entities_and_links_are_joined_counted_and_parted",
        "store/log/test_projectors.py::test_a_mention_that_was_unlinked_stays_so_until_it_is_linked_again",
    ),
    "another owner's bank, and an inactive one": (f"{_STORE}an_inactive_bank_and_another_agents_are_refused",),
    "an agent writes into no bank of another host or agent": (
        f"{_COMMAND}a_command_reaches_no_bank_of_another_agent_user_or_tenant",
        f"{_STORE}nothing_of_another_agents_bank_is_seen_or_changed",
    ),
    "the system prompt is the agent's": (
        "client/hybrid/test_run.py::test_messages_stand_in_the_order_system_skills_reference_history_current",
    ),
    "limits of a request": (f"{_COMMAND}what_is_no_command_is_refused_before_anything_is_written",),
    "the page leads there and back": ("deploy/test_light_portal_page.py::test_the_page_leads_there_and_back",),
}


@pytest.mark.parametrize("section", [COMMANDS, AGENT, SNAPSHOTS, CHECKED], ids=["3.5", "3.6", "3.7", "3.8"])
def test_every_clause_and_trap_has_its_tests(section: Tests) -> None:
    assert find_missing(one for named in section.values() for one in named) == []


def test_the_traps_are_all_there() -> None:
    for section, count in ((AGENT, 9), (SNAPSHOTS, 7)):
        numbered = {clause.split(":")[0] for clause in section if clause.startswith("trap ")}
        assert numbered == {f"trap {n}" for n in range(1, count + 1)}
