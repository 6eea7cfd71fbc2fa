//! The suite for devices and streams.
//!
//! | file | says that |
//! |---|---|
//! | `upload` | what was sent lands byte for byte, in order, wherever it should |
//! | `download` | ranges come back byte for byte, after what was submitted before them |
//! | `refused` | what cannot be done is refused, handed back, and changes nothing |
//! | `fills` | fills change the words that they name, in their turn |
//! | `kernels` | outputs are those of the messages that went through a kernel |
//! | `dispatches` | a kernel over queues brings each message across once, and changes nothing else |
//! | `ownership` | no slot is written again before its copy has ended |
//! | `failure` | a copy that fails hands its batch back, and can be tried again |
//! | `memory` | memory of any address is registered, or refused in words |
//! | `together` | one slab feeds two devices at once |
//! | `growth` | work that goes on for long takes no more memory (Linux) |
//! | `scatter` | messages in buffers that processes share land like others (Linux) |
//! | `slots` | downloads land in the slots of a ring; a queue is made in device memory |
//! | `lifetime` | devices, streams and slabs may go in any order and on any thread |
//!
//! `example` has the kernels of the folder `examples`, and what they must answer; `two_queues` what is wrong with queues that
//! one has run over.
//!
//! Each case is a function over [`Run`]; [`device_suite!`](crate::device_suite) makes a test of each for a [`Subject`].

mod alone;
pub mod dispatches;
pub mod download;
pub mod example;
pub mod failure;
pub mod fills;
#[cfg(target_os = "linux")]
pub mod growth;
pub mod kernels;
pub mod lifetime;
pub mod memory;
pub mod ownership;
pub mod refused;
mod rig;
#[cfg(target_os = "linux")]
pub mod scatter;
pub mod slots;
mod subject;
pub mod together;
pub mod two_queues;
pub mod upload;

pub use rig::{Random, Rig, all_of, bring, finish, next};
pub use subject::{Gate, Gated, Hold, Run, Subject, run};

/// Makes a test of each case of the suite, for the subject that an expression gives.
#[macro_export]
macro_rules! device_suite {
    ($subject:expr) => {
        $crate::device_suite!(@ $subject;
            upload::every_size_lands_byte_for_byte,
            upload::messages_of_a_mebibyte_land_whole,
            upload::a_batch_that_wraps_lands_whole,
            upload::several_are_in_flight_and_end_in_order,
            upload::random_batches_match_a_model,
            download::ranges_come_back_byte_for_byte,
            download::a_download_comes_after_the_uploads_before_it,
            refused::what_does_not_fit_the_queue,
            refused::one_more_than_can_be_in_flight,
            refused::memory_that_is_not_registered,
            refused::landings_that_do_not_fit,
            refused::options_that_no_stream_can_have,
            refused::slabs_that_cannot_be,
            ownership::no_slot_is_reused_before_its_copy,
            ownership::dropped_before_the_device_is_done,
            ownership::dropped_and_the_device_never_is_done,
            failure::a_failed_copy_hands_its_batch_back,
            failure::failures_around_one_that_succeeds,
            memory::any_address_and_length_will_do,
            memory::slabs_that_overlap,
            memory::a_region_of_another_device_is_refused,
            together::one_slab_feeds_two_devices,
            fills::words_are_filled_and_nothing_beside_them,
            fills::fills_that_cannot_be,
            fills::fills_take_their_turn,
            kernels::outputs_are_those_of_the_messages,
            kernels::outputs_that_have_no_room_are_told,
            kernels::payloads_behind_their_lengths,
            kernels::several_launches_are_in_flight,
            kernels::a_message_of_zeros_is_a_message,
            kernels::launches_that_cannot_be,
            kernels::a_kernel_stays_until_its_launches_have_ended,
            kernels::no_slot_is_reused_before_its_kernel,
            kernels::a_failed_launch_hands_its_batch_back,
            kernels::dropped_before_the_kernel_is_done,
            kernels::both_routes_give_the_same,
            kernels::code_that_is_no_kernel,
            dispatches::messages_go_from_queue_to_queue,
            dispatches::few_work_items,
            dispatches::an_empty_queue_gives_nothing,
            dispatches::a_full_queue_loses_nothing,
            dispatches::dispatches_that_cannot_be,
            dispatches::a_dispatch_takes_its_turn,
            dispatches::dropped_before_the_dispatch_is_done,
            lifetime::the_device_goes_first,
            lifetime::any_order_of_drops,
            lifetime::exit_with_everything_alive,
            lifetime::everything_moves_between_threads,
            lifetime::a_slab_of_the_device_feeds_a_ring,
            lifetime::a_slab_is_registered_more_than_once,
            slots::ranges_land_in_slots_byte_for_byte,
            slots::slots_of_a_device_that_never_is_done,
            slots::slots_that_are_not_registered,
            slots::a_queue_is_made_within_its_bounds,
        );
        #[cfg(target_os = "linux")]
        $crate::device_suite!(@ $subject;
            growth::a_hundred_thousand_submits_take_no_memory,
            scatter::buffers_in_any_order_land_whole,
            scatter::random_buffers_match_a_model,
            scatter::no_buffer_is_reused_before_its_copy,
            scatter::a_failed_copy_hands_its_buffers_back,
            scatter::buffers_of_a_device_that_never_is_done,
            scatter::buffers_that_are_not_registered,
        );
    };
    (@ $subject:expr; $($module:ident::$case:ident,)*) => {$(
        #[test]
        fn $case() {
            let name = concat!(module_path!(), "::", stringify!($case));
            $crate::device::run($subject, name, $crate::device::$module::$case);
        }
    )*};
}
