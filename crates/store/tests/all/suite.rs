//! What every store has to do, as cases: the same ones for memory, SQLite and whatever comes later.
//!
//! A case is a sentence about the ports. It opens an empty store, steers its clock, may close and reopen it, and asks
//! through the ports alone, so it holds for a store of which it knows nothing. [`conformance_cases!`] hands the list
//! of all of them to a macro, which makes tests of them.

mod accept;
mod apps;
mod browse;
mod change;
mod door;
mod gate;
mod leases;
mod load;
mod logs;
mod plan;
mod prune;
mod settle;
mod split;
mod subject;

use std::pin::Pin;

pub(crate) use subject::{KEY_TTL, Open, Opening, SHARDS, Subject, Whole, definition};

/// A sentence that holds for every store.
pub(crate) struct Case {
    /// The step and the sentence.
    pub(crate) name: &'static str,
    run: Run,
}

type Run = for<'a> fn(&'a mut Subject) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Tries one case on a store; panics if it does not hold.
pub(crate) async fn check(name: &str, open: Open) {
    let case = CASES.iter().find(|case| case.name == name).expect("the case is in the list");
    (case.run)(&mut Subject::new(open).await).await;
}

/// Hands every case, grouped by step, to a macro.
macro_rules! conformance_cases {
    ($then:ident) => {
        $then! {
            leases {
                a_node_that_renews_is_listed_with_its_address_and_the_time_of_the_store
                nobody_lives_longer_than_a_term_when_the_clock_is_set_back
                every_shard_is_listed_with_its_living_holder_and_its_last_epoch
                a_node_lives_until_its_term_ends_and_no_longer
                an_expired_node_is_fenced_for_ever
                a_fenced_renewal_leaves_no_trace
                a_node_without_a_row_takes_nothing
                the_first_holder_of_a_shard_inherits_nothing
                epochs_of_all_shards_come_from_one_counter_that_only_grows
                a_shard_of_a_living_node_is_left_out
                a_shard_that_does_not_exist_is_left_out
                a_shard_of_an_expired_node_comes_with_the_mark_of_its_last_renewal
                a_node_may_take_its_own_shard_again_and_the_old_epoch_is_stale
                a_released_shard_is_free_at_once_with_the_exact_mark
                releasing_again_or_with_a_stale_lease_changes_nothing
                what_an_earlier_holder_promised_outlives_a_later_one_who_promised_less
                a_promise_is_not_taken_back_by_a_lower_mark
                a_checkpoint_comes_back_to_the_next_holder
                a_checkpoint_in_a_renewal_that_comes_late_is_left_out
                a_checkpoint_of_a_lease_that_is_not_current_is_left_out
                loading_from_the_checkpoint_finds_what_waits_for_an_earlier_instant
                a_checkpoint_goes_back_to_a_birth_below_it
                a_checkpoint_does_not_pass_a_birth_since_it_last_moved
                a_renewal_tells_what_changed_after_what_was_seen_a_thousand_at_a_time
                arrivals_are_told_to_the_holder_of_their_shard
                a_node_that_comes_back_after_a_reopen_still_holds_its_shards
            }
            plan {
                enabled_clocks_that_are_due_are_listed_earliest_first
                when_more_is_due_than_asked_for_the_earliest_of_all_shards_come
                only_the_shards_that_are_asked_for_are_listed
                a_plan_moves_the_clock_and_writes_its_runs
                a_plan_asked_again_is_overtaken_by_itself
                a_plan_of_a_job_that_was_changed_or_stopped_is_overtaken
                a_plan_of_an_unknown_job_is_overtaken
                a_plan_under_a_stale_epoch_is_overtaken
                plans_of_a_batch_stand_alone_and_are_answered_in_order
                a_reservation_that_is_there_stays_as_it_is
                an_instant_that_was_backfilled_is_not_planned_again
                the_same_instant_of_another_job_is_another_run
                instants_that_are_not_run_are_one_closed_record_and_counted
                a_record_of_instants_passed_over_stands_beside_runs_of_those_instants
                what_planning_has_decided_and_reserved_never_falls
                a_job_that_stops_in_planning_keeps_its_version_and_every_node_hears_of_it
                a_clock_without_a_next_fire_time_is_not_due
                clocks_of_absurd_instants_are_due_in_order_and_can_be_planned
                rows_of_deleted_jobs_are_read_and_unknown_ids_left_out
                the_children_of_a_job_are_those_that_name_it_and_are_not_deleted
            }
            load {
                open_runs_come_in_the_order_of_time_and_then_id
                the_open_runs_of_a_job_are_found_stretch_by_stretch
                what_is_loaded_says_all_that_the_wheel_needs
                reading_begins_at_the_place_it_is_told_and_ends_before_until
                cut_short_the_rest_begins_exactly_where_reading_ended
                only_the_runs_of_the_shards_that_are_asked_for_come
                nothing_is_loaded_or_adopted_under_a_lease_that_is_not_current
                what_is_closed_is_not_loaded
                what_a_gate_has_is_adopted_and_not_loaded
                a_closed_run_is_not_adopted_though_its_gate_outlives_it
                a_run_that_waits_is_found_by_the_instant_it_waits_for
                between_two_attempts_without_a_gate_a_run_is_loaded_with_the_next
                between_two_attempts_with_a_gate_a_run_is_adopted_with_the_next
                a_parked_run_is_not_loaded_and_its_job_is_told_to_who_adopts
                parking_is_refused_if_the_job_was_changed_meanwhile
                the_earliest_parked_runs_are_called_back_first
                parked_runs_of_many_jobs_are_called_back_by_due_time_in_one_call
                nothing_is_called_back_under_a_lease_that_is_not_current
                a_parked_run_that_has_a_gate_is_adopted_once_it_is_called_back
                whole_runs_are_fetched_with_what_they_bring_and_what_they_wait_for
                a_run_keeps_what_it_has_in_place_of_its_jobs_wherever_it_waits
                an_outline_says_all_but_what_a_run_brings
                runs_of_absurd_instants_are_loaded_in_order
            }
            gate {
                a_gate_asked_again_with_its_token_gives_the_same_number
                of_two_tokens_for_one_key_the_first_has_it
                the_epoch_of_a_gate_is_not_asked_because_the_key_is_the_fence
                every_gate_has_a_number_of_its_own_that_outlives_the_process
                no_gate_is_written_for_a_closed_run
                a_gate_that_comes_after_a_skip_finds_the_key_taken
                a_gate_asked_again_after_the_close_of_its_run_is_closed
                no_gate_is_written_below_a_later_attempt
                what_is_put_off_keeps_its_key_and_ends_its_wait_with_the_gate
                gates_of_a_batch_stand_alone_and_are_answered_in_order
                a_resource_has_so_many_places_and_no_more
                places_are_taken_all_or_none
                a_resource_that_takes_turns_goes_to_the_run_that_asked_first
                a_run_that_needs_several_resources_is_not_overtaken_at_any
                a_run_that_is_put_off_before_its_first_send_gives_up_its_turn
                a_run_keeps_its_place_until_it_is_closed_and_needs_no_second
                a_run_that_is_parked_gives_its_place_back_and_asks_again
                a_resource_without_places_holds_everybody_back
                a_gate_is_found_by_its_number_until_its_day_is_dropped
                the_gates_of_a_run_are_listed_by_attempt
            }
            split {
                the_parts_are_written_with_the_gate_of_the_whole
                a_split_asked_again_adds_nothing
                what_cannot_be_gated_is_not_split
                splits_of_a_batch_stand_alone
                the_last_part_that_ends_tells_of_the_whole
                the_end_of_a_part_counts_once
                a_part_that_waits_or_is_refused_has_not_ended
                the_end_of_a_part_counts_with_its_whole_alone
                the_clock_of_a_delay_waits_for_the_whole
                parts_are_seen_with_their_whole_and_in_no_list
                parts_live_where_their_ids_say
                a_part_outlives_its_whole
                what_is_dropped_of_parts_is_gone
                a_second_split_counts_anew_with_what_is_open_of_the_first
                the_end_of_a_part_of_a_run_that_was_not_split_tells_nothing
            }
            settle {
                the_first_end_stands_and_nothing_settled_moves_again
                the_end_of_a_run_that_is_not_there_is_stale
                what_a_gate_has_cannot_be_settled_as_unsent
                what_is_put_off_can_still_be_skipped
                what_is_below_a_later_attempt_cannot_be_settled_as_unsent
                a_report_of_an_attempt_is_stale_once_a_later_one_was_begun_or_waits
                a_report_of_a_run_that_no_gate_has_is_taken_from_anybody
                a_report_with_another_token_than_the_gate_is_stale
                a_report_of_an_attempt_that_the_run_does_not_wait_for_yet_is_stale
                a_settlement_from_elsewhere_tells_the_holder
                attempts_are_kept_as_they_ended_and_the_open_one_comes_last
                every_outcome_is_kept
                every_outcome_of_an_attempt_is_kept
                odd_texts_and_instants_of_an_end_are_kept
                a_run_can_wait_for_any_instant
                failures_in_a_row_are_counted_in_the_order_of_closing
                runs_of_another_job_do_not_count
                children_are_written_with_the_end_and_left_for_their_holders
                the_next_fire_time_of_a_delay_is_set_with_the_end
                the_last_end_of_a_delay_stops_it
                the_delay_is_the_one_that_is_stored_whatever_the_writer_knew
                a_clock_that_was_stopped_or_set_or_waits_for_another_run_is_left_alone
                a_stale_settlement_leaves_nothing_behind
                settlements_of_a_batch_stand_alone_and_the_first_wins
                an_end_can_follow_in_the_batch_that_began_it
                a_child_can_end_in_the_batch_that_began_it
            }
            accept {
                a_run_is_kept_as_it_was_written
                a_run_handed_over_again_is_a_duplicate_of_itself
                a_key_lives_while_its_run_is_open
                an_open_run_is_found_by_the_key_of_its_job
                a_key_outlives_its_run_for_a_time_and_is_then_free
                a_run_that_was_skipped_frees_its_key_like_any_other
                an_instant_that_a_schedule_names_is_there_once
                a_planned_instant_is_not_backfilled_again
                duplicates_within_a_batch_are_found_and_answered_in_order
                a_duplicate_keeps_nobody_else_out
                a_duplicate_leaves_no_day_behind
                an_empty_payload_is_not_the_same_as_none
                what_a_run_has_in_place_of_its_jobs_is_kept_beside_its_payload
                odd_texts_of_a_run_are_kept
                the_longest_payload_is_kept
                named_instants_of_any_time_are_there_once
                a_run_can_be_born_on_the_first_and_on_the_last_day
                numbers_are_given_away_once_ever
                a_day_has_so_many_numbers_and_no_more
                what_is_left_is_listed_oldest_first_until_it_is_consumed
                a_large_batch_is_written_whole
            }
            change {
                jobs_are_numbered_from_1_and_live_where_their_number_says
                a_change_raises_the_version_and_says_when
                a_change_of_an_older_version_or_of_another_clock_is_a_conflict
                a_clock_that_has_moved_and_is_where_it_was_is_a_conflict
                a_job_that_is_not_there_or_deleted_cannot_be_changed
                a_deleted_job_leaves_word_for_the_holder_of_its_shard
                a_job_cannot_be_created_without_a_definition
                a_conflict_leaves_nothing_behind
                a_name_belongs_to_one_job_of_an_app
                a_name_is_free_once_its_job_is_renamed_or_deleted
                a_job_cannot_come_after_itself_in_however_many_steps
                of_two_changes_at_once_that_would_close_a_circle_one_is_refused
                a_revision_is_kept_for_every_definition
                the_last_thousand_revisions_of_a_job_are_kept
                instants_that_passed_unplanned_are_recorded_with_the_change
                the_parents_that_a_job_has_or_had_count_as_changed_just_before_it
                every_state_of_a_job_is_kept
                every_definition_is_kept_as_it_was_written
                odd_texts_of_a_definition_are_kept
                a_change_is_in_force_when_every_living_holder_has_it
                a_change_is_in_force_once_who_lacks_it_has_expired_or_let_go
                a_clock_can_be_set_to_any_instant
            }
            browse {
                a_job_is_found_by_its_id_and_by_its_name
                a_deleted_job_is_not_found
                jobs_are_listed_by_id_page_by_page
                jobs_are_filtered_by_app_tag_text_and_whether_they_are_enabled
                jobs_of_several_apps_are_one_list
                jobs_that_fail_or_gave_up_are_listed_by_that
                enabled_jobs_are_listed_by_their_next_fire_time_page_by_page
                jobs_are_called_by_their_names_also_deleted_ones
                a_filtered_list_has_pages_too
                runs_are_listed_highest_id_first_page_by_page
                runs_are_filtered_by_job_state_time_and_key
                runs_are_filtered_by_the_apps_of_their_jobs
                runs_of_deleted_jobs_are_listed_with_their_app
                runs_go_with_their_job_to_another_app
                runs_of_apps_have_pages_across_days_too
                runs_named_for_another_day_than_they_are_born_on_are_found_by_time
                every_state_of_a_run_is_seen_and_filtered_by
                what_has_become_of_runs_is_counted_per_job_and_for_all
                a_run_that_went_with_a_stop_of_its_job_is_not_its_last_status
                the_days_that_are_stored_are_listed_with_their_runs
                what_is_not_there_is_not_found
            }
            door {
                what_nodes_show_each_other_is_drawn_once
                tokens_are_listed_by_number_as_they_were_made
                odd_texts_and_instants_of_a_token_are_kept
                the_number_that_a_token_comes_with_is_not_looked_at
                a_revoked_token_is_gone_and_the_others_stay
                the_number_of_a_revoked_token_is_not_given_again
                the_last_token_that_has_to_remain_is_not_revoked
                of_two_tokens_revoked_at_once_the_last_that_has_to_remain_stays
                a_first_token_is_kept_only_where_there_is_none
                an_expired_token_is_a_token_for_who_wants_to_be_first
                of_several_first_tokens_that_come_together_one_wins
                tokens_that_come_together_have_numbers_of_their_own
                a_request_is_new_once_and_then_open_until_it_is_answered
                of_requests_that_come_together_one_is_new
                a_key_that_came_with_another_request_is_told
                a_key_belongs_to_who_asked
                a_request_without_an_answer_may_be_begun_again
                the_first_answer_stands
                an_answer_to_a_request_that_was_not_begun_is_not_kept
                odd_texts_of_a_request_and_its_answer_are_kept
                requests_begun_before_a_time_are_forgotten_and_later_ones_stay
                a_request_is_as_old_as_its_beginning
                many_requests_are_forgotten_at_once
                no_token_and_no_request_is_pruned
            }
            apps {
                an_executor_that_beats_is_registered_with_its_app
                a_beat_moves_the_time_and_the_dialect_but_not_the_joining
                an_executor_that_leaves_is_forgotten_and_its_app_stays
                who_was_not_heard_of_for_longer_is_buried
                a_beat_from_before_the_clock_was_set_back_ends_in_its_time
                an_app_is_put_if_it_has_the_version
                an_app_is_kept_as_it_was_put
                an_app_is_paused_until_it_is_resumed_whoever_puts_it_meanwhile
                odd_texts_of_a_pause_are_kept
                odd_texts_of_an_executor_are_kept
                who_beats_or_has_a_job_leaves_an_app_as_people_set_it
                a_job_brings_its_app
                an_app_that_has_jobs_is_not_removed
                no_app_and_no_executor_is_pruned
            }
            logs {
                a_log_is_kept_in_place_of_what_was_kept_before
                every_attempt_of_every_run_has_a_log_of_its_own
                odd_texts_of_logs_and_notes_are_kept
                the_last_note_about_an_attempt_stands
                nothing_is_kept_beside_a_run_that_is_not_there
                what_is_kept_goes_with_the_day_of_the_run
            }
            prune {
                closed_days_before_the_time_are_dropped_and_later_ones_stay
                a_day_in_which_something_is_open_stays_whole
                what_is_pruned_is_gone_for_every_verb
                no_instant_of_a_dropped_day_runs_again_when_the_clock_was_set_back
                what_was_counted_stays_counted
                no_instant_of_a_dropped_day_fires_again
                a_number_of_a_dropped_day_is_not_given_again
                a_key_outlives_the_day_of_its_run_but_not_its_own_time
                an_empty_store_has_nothing_to_drop
                a_day_is_kept_for_the_app_that_keeps_it_longest
                an_app_that_keeps_shorter_loses_its_runs_and_no_other_does
                what_is_open_is_not_removed
                what_is_removed_is_gone_for_every_verb
                a_key_outlives_its_run_that_was_removed
                runs_are_removed_in_portions_in_the_order_of_their_ids
                the_parts_of_a_broadcast_go_with_their_whole
                no_instant_whose_run_was_removed_runs_again
                a_day_in_which_nobody_keeps_anything_is_dropped_whole
                a_node_that_expired_a_day_ago_is_forgotten_unless_it_owns_a_shard
                changes_that_every_living_node_has_seen_are_forgotten_but_the_last_are_kept
            }
        }
    };
}

pub(crate) use conformance_cases;

macro_rules! table {
    ($($group:ident { $($case:ident)+ })+) => {
        /// All of them.
        pub(crate) const CASES: &[Case] = &[$($(
            Case {
                name: concat!(stringify!($group), "::", stringify!($case)),
                run: |subject| Box::pin($group::$case(subject)),
            },
        )+)+];
    };
}

conformance_cases!(table);
