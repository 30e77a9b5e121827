"""Which tests `make test` leaves to `make test-all`: those that take long and that a change seldom breaks.

A key is the beginning of a test's id, below `tests/`. Besides them, what is marked `vm` (boots the test machine) or
`chaos` (kills processes) is left out. Each key has a shorter test of the same subject in `make test`, named here.
"""

from __future__ import annotations

LONG: dict[str, str] = {
    "peers/test_prometheus_rules_source.py::": "peers/test_prometheus_rules_parity.py",
    "peers/test_prometheus_rules_parity.py::test_same_symptoms_under_victoria_metrics":
        "peers/test_prometheus_rules_parity.py::test_same_symptoms_on_the_same_components_within_one_interval",
    "peers/test_prometheus_rules_parity.py::test_nothing_of_look_alikes_in_either":
        "export/test_rules_under_promtool.py::test_fires_on_the_fault_and_not_on_its_look_alike",
    "release/test_distributions.py::test_it_installs_into_an_empty_environment_and_runs_from_any_folder[.gz]":
        "release/test_distributions.py::test_it_installs_into_an_empty_environment_and_runs_from_any_folder[.whl]",
    "mutation/test_mutation.py::test_a_change_is_noticed_by_the_test_of_what_it_changes_and_no_file_changes":
        "mutation/test_mutation.py::test_each_sort_of_change_and_nothing_in_texts",
    "fabric/test_swept_links_on_the_server.py::test_errors_that_step_up_at_a_switch_port[sweep alone":
        "fabric/test_swept_links_on_the_server.py::test_errors_that_step_up_at_a_switch_port[hosts and a file-True]",
    "fabric/test_swept_links_on_the_server.py::test_errors_that_step_up_at_a_switch_port[hosts too":
        "fabric/test_swept_links_on_the_server.py::test_errors_that_step_up_at_a_switch_port[hosts and a file-True]",
    "fabric/test_real_subnet.py::test_a_node_that_stops_answering":
        "fabric/test_swept_links_on_the_server.py::test_an_adapter_that_stops_answering_is_reported_with_both_ends_of_its_cable",
    "rules/test_errors_and_quality.py::test_a_degrading_optic_is_a_warning_before_1e_11_and_critical_by_1e_10":
        "rules/test_trends.py::test_a_steady_rise_is_forecast_hours_before_it_is_critical",
    "rules/test_trends.py::test_a_module_that_was_changed_ends_the_forecast":
        "rules/test_trends.py::test_a_forecast_stands_while_the_link_is_not_read_and_ends_for_a_module_that_was_changed_meanwhile",
    "rules/test_trends.py::test_errors_at_a_constant_rate_degrade_nothing":
        "rules/test_errors_and_quality.py::test_a_steady_rate_is_found_with_its_bounds_and_ends_when_it_is_over",
    "jobs/test_jobs_of_incidents.py::test_a_host_that_is_gone_is_critical_only_with_a_job[False]":
        "jobs/test_jobs_of_incidents.py::test_a_host_that_is_gone_is_critical_only_with_a_job[True]",
    "engine/test_restored_incidents.py::test_an_adapter_that_was_removed_on_purpose_is_no_fault[True]":
        "engine/test_restored_incidents.py::test_an_adapter_that_was_removed_on_purpose_is_no_fault[False]",
    "replay/test_anonymised.py::test_it_is_judged_to_the_same_end":
        "replay/test_anonymised.py::test_frames_are_the_same_to_the_byte_and_names_the_same_everywhere",
    "replay/test_same_decisions.py::test_another_hash_seed_decides_the_same[4242]":
        "replay/test_same_decisions.py::test_another_hash_seed_decides_the_same[1]",
    "mutation/test_mutation.py::test_every_change_of_the_project_compiles":
        "mutation/test_mutation.py::test_each_sort_of_change_and_nothing_in_texts",
    "netns/test_real_link.py::test_third_down_is_notified_as_flapping":
        "netns/test_real_link.py::test_link_down_is_notified_at_once",
    "demo/test_demo.py::test_the_whole_timeline_gives_exactly_its_incidents":
        "demo/test_demo.py::test_the_live_demo_serves_its_page_and_ends_cleanly",
    "hostile/test_hostile.py::": "central/test_stream_budgets.py",
    "central/test_large_fleet.py::": "central/test_pull.py",
    "central/test_several_servers.py::": "notify/test_two_servers.py",
    "agent/test_hanging_reads.py::test_the_others_keep_their_pace":
        "agent/test_hanging_reads.py::test_the_process_ends_in_time_on_sigterm",
    "agent/test_spoilt_trees.py::test_no_unreadable_file_that_decides_is_ok_in_500_trees":
        "agent/test_spoilt_trees.py::test_no_unreadable_file_that_decides_is_ok",
    "lifecycle/test_lifecycle.py::test_the_same_many_times":
        "lifecycle/test_lifecycle.py::test_whatever_happens_incidents_end_and_notifications_are_complete",
    "fabric/test_against_tools.py::test_fifteen_faults_of_a_small_fabric":
        "fabric/test_against_tools.py::test_what_is_found_and_what_is_false",
    "topology/test_odd_nodes.py::test_many_odd_nodes_change_nothing":
        "topology/test_odd_nodes.py::test_odd_nodes_change_nothing",
    "probe/test_real_probes.py::test_a_leaf_that_loses_one_percent_is_one_incident_of_that_leaf_within_a_minute":
        "probe/test_diagnosis.py::test_a_leaf_that_loses_one_percent_is_one_incident_within_a_minute",
    "scenario/test_catalogue.py::test_a_scenario_comes_out_as_its_file_says": "scenario/test_scenario_command.py",
    "adversary/test_composer.py::":
        "adversary/test_random_command.py::test_a_small_run_prints_its_figures_and_writes_its_table",
    "adversary/test_random_command.py::test_two_processes_give_what_one_gives":
        "adversary/test_random_command.py::test_a_small_run_prints_its_figures_and_writes_its_table",
    "adversary/test_random_command.py::test_thirty_composites_run_and_are_scored":
        "adversary/test_random_command.py::test_a_small_run_prints_its_figures_and_writes_its_table",
}
"""Beginning of the ids of long tests -> the test that watches over the same subject in `make test`."""


def is_long(test_id: str) -> bool:
    """Whether the test with this id (`tests/peers/test_x.py::test_y[z]`) is left to `make test-all`."""
    return test_id.removeprefix("tests/").startswith(tuple(LONG))
