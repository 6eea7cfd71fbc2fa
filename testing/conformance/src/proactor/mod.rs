//! The suite for proactors.
//!
//! | file | says that |
//! |---|---|
//! | `registration` | regions and pools are what was asked for, in any number, and end anywhere |
//! | `receive`, `starvation`, `cancel` | no byte that comes is lost, doubled or out of order |
//! | `send`, `zero_copy`, `gone` | nor is one that goes; and memory is not used again before it may be |
//! | `files`, `connections` | the rest of the operations, with their errors |
//! | `crowd` | many connections do not need a large queue |
//! | `lifetime`, `threads` | everything may go in any order and on any thread |
//!
//! Each case is a function over [`Run`]; [`proactor_suite!`](crate::proactor_suite) makes a test of each for a
//! [`Subject`]. Bytes are told apart by [`Pattern`], and [`Checker`] and [`foreign_bytes`] find those that are wrong.

pub mod cancel;
pub mod connections;
pub mod crowd;
pub mod files;
pub mod gone;
pub mod lifetime;
mod pattern;
pub mod receive;
pub mod registration;
pub mod rig;
pub mod send;
pub mod starvation;
mod subject;
pub mod threads;
pub mod zero_copy;

pub use pattern::{Checker, Pattern, foreign_bytes};
pub use subject::{AUTO, MASKED, READINESS, Run, Subject, TINY, URING, run};

/// Makes a test of each case of the suite, for the subject that an expression gives, and the constant `CASES` that says
/// how many there are.
#[macro_export]
macro_rules! proactor_suite {
    ($subject:expr) => {
        $crate::proactor_suite!(@ $subject;
            registration::a_region_is_the_slab_that_was_registered,
            registration::pinned_or_an_error,
            registration::the_buffers_of_a_pool,
            registration::seven_buffers_receive,
            registration::a_hundred_thousand_buffers_receive,
            registration::a_hundred_thousand_buffers_send,
            registration::the_slab_goes_first,
            registration::a_region_ends_on_another_thread,
            registration::a_region_goes_during_io,
            registration::remote_access_is_refused,
            registration::what_fails_leaks_nothing,
            registration::foreign_memory_is_one_buffer,
            registration::two_slabs_send_in_turn,
            registration::many_regions,
            registration::more_than_a_gibibyte,
            registration::numbers_of_receive_pools_are_used_again,
            registration::a_pool_of_another_proactor_is_refused,
            receive::every_byte_arrives_in_order,
            receive::the_end_is_an_event_of_its_own,
            receive::a_reset_is_an_error,
            receive::once_into_own_memory,
            receive::an_idle_peer_beside_a_busy_one,
            starvation::a_buffer_given_back_elsewhere_feeds_the_stream,
            starvation::a_pool_of_one,
            starvation::fewer_buffers_than_connections,
            starvation::who_takes_nothing_starves_nobody,
            starvation::buffers_come_back_from_everywhere,
            starvation::leases_outlive_everything,
            starvation::a_stream_goes_with_deliveries_inside,
            starvation::others_go_on_while_one_starves,
            cancel::a_cancelled_receive_loses_nothing,
            cancel::a_dropped_receive_leaves_the_socket,
            cancel::a_cancelled_receive_into_gives_its_memory_back,
            cancel::a_cancelled_send_says_how_far_it_was,
            cancel::everything_can_be_cancelled,
            send::every_size_arrives,
            send::many_parts_arrive_as_one,
            send::a_frozen_lease_goes_to_three_sockets,
            send::a_thousand_sends_keep_their_order,
            send::short_sends_go_on_before_the_next,
            send::both_directions_at_once,
            send::what_was_received_is_sent_on,
            send::small_behind_large,
            zero_copy::the_choice_changes_no_byte,
            zero_copy::no_buffer_comes_back_before_its_notification,
            zero_copy::copies_are_counted_and_end_the_attempts,
            zero_copy::unix_sockets_get_copies,
            zero_copy::many_messages_without_a_copy,
            gone::a_peer_that_has_gone_is_an_error_and_no_signal,
            gone::a_reset_under_fifty_sends,
            gone::an_error_says_how_much_was_sent,
            gone::a_close_ends_what_is_under_way,
            files::what_is_written_is_read,
            files::a_read_is_short_at_the_end_only,
            files::many_writes_and_reads_at_once,
            files::direct_files_want_alignment,
            files::a_sequence_runs_in_order,
            files::a_sequence_ends_where_one_fails,
            files::a_sequence_that_is_given_up,
            connections::many_are_accepted,
            connections::accepting_is_cancelled,
            connections::accepted_and_never_taken,
            connections::a_closed_listener_accepts_nothing,
            connections::connecting,
            connections::halves_are_shut_down,
            connections::readable_takes_nothing,
            connections::nothing_is_done_a_thousand_times,
            connections::time_outs_end_in_order,
            connections::a_wait_ends_when_asked_to,
            crowd::two_hundred_connections_on_eight_entries,
            crowd::two_hundred_connections_after_a_pause,
            crowd::two_hundred_sockets_are_sent_to,
            lifetime::given_up_receives_write_into_no_lease,
            lifetime::given_up_streams_write_into_no_lease,
            lifetime::everything_goes_in_any_order,
            lifetime::after_the_end_memory_comes_back,
            lifetime::a_shut_down_ends_what_waits,
            lifetime::what_is_stuck_is_quarantined,
            lifetime::a_send_outlives_its_proactor,
            threads::a_thread_of_its_own,
            threads::eight_threads_submit,
            threads::no_wake_is_lost,
            threads::futures_travel,
            threads::a_waker_that_calls_back_gets_errors,
        );
    };
    (@ $subject:expr; $($module:ident::$case:ident,)*) => {
        /// How many cases there are.
        #[allow(dead_code, reason = "only those who count need it")]
        pub(crate) const CASES: usize = [$(stringify!($case)),*].len();

        $(
            #[test]
            fn $case() {
                let name = concat!(module_path!(), "::", stringify!($case));
                $crate::proactor::run($subject, name, $crate::proactor::$module::$case);
            }
        )*
    };
}
