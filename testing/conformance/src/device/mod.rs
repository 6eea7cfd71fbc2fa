//! The suite for devices and streams.
//!
//! | file | says that |
//! |---|---|
//! | `upload` | what was sent lands byte for byte, in order, wherever it should |
//! | `download` | ranges come back byte for byte, after what was submitted before them |
//! | `refused` | what cannot be done is refused, handed back, and changes nothing |
//! | `ownership` | no slot is written again before its copy has ended |
//! | `failure` | a copy that fails hands its batch back, and can be tried again |
//! | `memory` | memory of any address is registered, or refused in words; one slab feeds several devices |
//! | `growth` | work that goes on for long takes no more memory (Linux) |
//! | `scatter` | messages in buffers that processes share land like others (Linux) |
//! | `lifetime` | devices, streams and slabs may go in any order and on any thread |
//!
//! Each case is a function over [`Run`]; [`device_suite!`](crate::device_suite) makes a test of each for a [`Subject`].

mod alone;
pub mod download;
pub mod failure;
#[cfg(target_os = "linux")]
pub mod growth;
pub mod lifetime;
pub mod memory;
pub mod ownership;
pub mod refused;
mod rig;
#[cfg(target_os = "linux")]
pub mod scatter;
mod subject;
pub mod upload;

pub use rig::{Random, Rig, all_of, bring, finish, next};
pub use subject::{Gate, Gated, Run, Subject, run};

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
            memory::one_slab_feeds_two_devices,
            memory::a_region_of_another_device_is_refused,
            lifetime::the_device_goes_first,
            lifetime::any_order_of_drops,
            lifetime::exit_with_everything_alive,
            lifetime::everything_moves_between_threads,
            lifetime::a_slab_of_the_device_feeds_a_ring,
            lifetime::a_slab_is_registered_more_than_once,
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
