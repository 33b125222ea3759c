"""Tests that start processes or pages of a browser, one after another: `make live` runs them, and so does `.ci/run`.

`make test` leaves them out, but for the tests of each file that are named here. They wait more than they compute, so a
file of them takes as long as a thousand others. A single test of another file bears the mark itself.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Each file, and its tests that stay in `make test`.
LIVE: Mapping[str, tuple[str, ...]] = {
    "tests/deploy/api/test_connections.py": (
        "test_few_connections_are_looked_at_where_an_address_may_have_fewer_still",
    ),
    "tests/deploy/api/test_http_limits.py": (),
    "tests/deploy/api/test_process.py": ("test_what_was_acknowledged_outlives_the_process_that_said_so",),
    "tests/deploy/cli/test_live.py": (),
    "tests/deploy/lab/chaos/test_counting.py": ("test_without_faults_every_turn_is_done_and_nothing_is_twice_or_late",),
    "tests/deploy/lab/chaos/test_gateway.py": ("test_the_file_keeps_no_secret",),
    "tests/deploy/lab/chaos/test_run.py": (),
    "tests/deploy/local/test_embedded_postgres.py": (
        "test_what_was_written_is_there_after_a_stop_and_a_start",
        "test_it_runs_as_an_ordinary_account_and_shows_its_files_to_no_other",
        "test_it_listens_on_loopback_alone",
        "test_a_wrong_password_is_refused",
        "test_the_endpoint_shows_no_password_when_printed",
    ),
    "tests/deploy/cli/test_perimeter.py": (
        "test_an_address_that_is_none_ends_with_status_2",
        "test_a_tree_that_is_none_or_a_plugin_url_that_names_none_ends_with_status_2",
        "test_the_older_tool_without_mcp_and_a_model_that_is_none_end_with_status_2",
        "test_a_plugin_that_is_away_at_the_start_is_logged_and_asked_later",
    ),
    "tests/deploy/test_deployment.py": (
        "test_a_setting_that_is_missing_is_named",
        "test_a_verifier_is_what_the_server_makes_of_a_password",
        "test_every_command_of_the_page_is_there",
    ),
    "tests/deploy/test_full_disk.py": (
        "test_a_process_goes_on_counting_on_a_full_disk",
        "test_a_process_that_starts_on_a_full_disk_keeps_its_samples",
        "test_what_the_dead_counted_waits_for_space",
        "test_a_log_line_that_cannot_be_written_fails_no_call",
        "test_a_server_is_started_again_however_often_it_ends",
        "test_both_servers_are_started_again_for_ever",
        "test_a_child_that_finds_no_space_at_its_start_is_started_later",
    ),
    "tests/deploy/test_hybrid_live.py": (),
    "tests/deploy/test_light_portal_page.py": (),
    "tests/deploy/test_managed_postgres.py": (),
    "tests/deploy/test_outside_services.py": ("test_a_worker_does_not_start_with_a_domain_for_an_address",),
    "tests/deploy/test_plugin_cut_over.py": ("test_the_page_names_the_commands_that_are_tried",),
    "tests/deploy/test_plugin_services.py": (),
    "tests/deploy/test_point_in_time.py": (),
    "tests/deploy/test_up.py": ("test_it_says_ready_describes_itself_and_a_clean_stop_leaves_nothing",),
    "tests/deploy/worker/test_maintenance.py": (),
    "tests/deploy/worker/test_process.py": ("test_a_worker_takes_turns_through_every_stage_and_stops_when_told",),
    "tests/faults/test_chaos.py": ("test_an_unknown_sabotage_is_wrong_usage",),
    "tests/faults/test_kills.py": (),
    "tests/faults/test_turn_queue.py": (),
    "tests/producers/console/test_around.py": (),
    "tests/producers/console/test_bank.py": (),
    "tests/producers/console/test_console.py": (
        "test_a_person_walks_from_the_sign_in_to_why_an_answer_came_first",
        "test_a_unit_is_corrected_pinned_and_forgotten",
        "test_a_dead_row_is_retried_by_a_click_and_another_dropped",
        "test_a_poisoned_memory_is_shown_as_text",
        "test_the_console_is_worked_by_keyboard_alone_and_speaks_german",
    ),
    "tests/producers/console/test_letters.py": (),
    "tests/producers/console/test_now.py": (),
    "tests/producers/console/test_operate.py": ("test_a_key_is_made_shown_once_rotated_and_revoked",),
    "tests/producers/console/test_processes.py": (),
    "tests/producers/console/test_two_processes.py": (),
    "tests/producers/console/test_vectors.py": (),
    "tests/producers/console/test_worked.py": (),
    "tests/producers/service/test_read_replica.py": (),
}


def mark_live(items: Iterable[pytest.Item]) -> None:
    """Mark the tests of these files `live`, but for those that stay."""
    for item in items:
        file = item.path.relative_to(ROOT).as_posix() if item.path.is_relative_to(ROOT) else ""
        if file in LIVE and getattr(item, "originalname", item.name) not in LIVE[file]:
            item.add_marker(pytest.mark.live)
