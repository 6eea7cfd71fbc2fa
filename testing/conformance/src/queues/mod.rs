//! Queues in device memory, kept going by a pump: what each back end that runs kernels must get right.
//!
//! A back end needs a device and its own build of the kernel `echo`, which takes messages from one queue and gives them to
//! the other with each byte changed by [`TURN`]. Its file in `tests/` then says
//! `transload_conformance::queue_suite!(subject)`, with a function that makes a [`Subject`], or says why it cannot.
//!
//! | file | holds |
//! |---|---|
//! | `subject` | the device and its kernel; the host with the kernel's twin |
//! | `course` | one run: messages there and back |
//! | `returned` | what came back, and what is wrong with it |
//! | `cases` | courses in which nothing fails |
//! | `faults` | courses in which something does |

mod cases;
mod course;
mod faults;
mod returned;
mod subject;

pub use cases::{everything_comes_back, few_transfers_at_once, positions_wrap, sizes_by_chance};
pub use course::{Course, check};
pub use faults::{
    a_lost_device_ends_the_pump, faults_by_chance, faults_lose_nothing, stopped_at_any_moment,
    what_is_given_up_is_counted,
};
pub use returned::Returned;
pub use subject::{Subject, TURN, echo};

/// Makes tests of a function that makes a [`Subject`].
#[macro_export]
macro_rules! queue_suite {
    ($subject:expr) => {
        $crate::queue_suite!(@ $subject,
            everything_comes_back, sizes_by_chance, positions_wrap, faults_lose_nothing, what_is_given_up_is_counted,
            faults_by_chance, stopped_at_any_moment, few_transfers_at_once
        );

        #[test]
        fn a_lost_device_ends_the_pump() {
            $crate::watchdog::watch("queues", || match $subject() {
                Ok(_) => $crate::queues::a_lost_device_ends_the_pump(|| $subject().expect("it was there")),
                Err(error) => $crate::skip::skip(concat!(module_path!(), "::a_lost_device_ends_the_pump"), &error.to_string()),
            });
        }
    };
    (@ $subject:expr, $($test:ident),*) => {
        $(
            #[test]
            fn $test() {
                $crate::watchdog::watch("queues", || match $subject() {
                    Ok(subject) => $crate::queues::$test(&subject),
                    Err(error) => $crate::skip::skip(concat!(module_path!(), "::", stringify!($test)), &error.to_string()),
                });
            }
        )*
    };
}
