//! How processes find a region by its name, and hand its descriptor on.
//!
//! ```text
//!  creator                                   others
//!  create(name, make)                        attach(name)
//!    folder locked: bind NAME.sock             connect, hello ----> answer + descriptor
//!  Steward: serves whoever comes             Steward: keeps the connection
//!     x  kill -9                               hung up: one of them binds NAME.sock, and serves
//! ```
//!
//! A region is an anonymous file: it lives as long as any process has it, and leaves nothing behind. What is in the file
//! system is the socket by which it is found. It lies in a folder that only its owner can enter: `transload` in
//! `$XDG_RUNTIME_DIR`, or `/tmp/transload-UID` where there is none; `TRANSLOAD_RUNTIME_DIR` names another.
//!
//! * [`create`], [`attach`] and [`create_or_attach`] give a region and a [`Post`]; a [`Steward`] takes the post on a
//!   thread of its own.
//! * If the process that serves is killed, one of those that have the region serves on, within milliseconds. If all are
//!   killed, the region is gone with all that was in it, and a stale name stays, which the next [`create`] replaces.
//! * Each side asks the kernel who the other is. Only processes of the same user meet, unless [`Terms`] allow others.
//! * Names are made, replaced and removed by whoever holds the lock of the folder, which ends with its process.
//! * Nobody waits for ever for a process that is stopped: errors name it. It is never taken for dead.
//! * A child that was forked without `exec` has the sockets too. While it lives, nobody serves on for its parent, and who
//!   asks is told that there is no answer.
//!
//! # Example
//!
//! ```
//! use transload::shared::handover::{Steward, Terms, attach, create};
//! use transload::shared::{SharedPool, SharedRegion};
//!
//! # let folder = std::env::temp_dir().join(format!("transload-example-{}", std::process::id()));
//! # std::fs::create_dir(&folder)?;
//! # let word = folder.join("sensors").display().to_string();
//! # let name = word.parse()?;
//! # /*
//! let name = "sensors".parse()?;
//! # */
//! let (region, post) = create(&name, &Terms::new(), || SharedRegion::builder(64, 4096).create())?;
//! let pool = SharedPool::join(&region, "receiver")?;
//! let look = pool.clone();
//! let steward = Steward::start(post, move || {
//!     look.recover(); // somebody may have died
//! })?;
//!
//! // In another process, or here:
//! let (same, post) = attach(&name, &Terms::new())?;
//! assert_eq!(same.id(), region.id());
//! # drop((post, steward));
//! # std::fs::remove_dir(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `name`, `terms`, `error` | what is asked, by whom, what went wrong |
//! | `folder`, `presence`, `place` | the folder and its lock; who has the region of a name; the socket of a name |
//! | `wire`, `socket` | what is said, and over what |
//! | `call`, `desk` | the sides of the client and of the server |
//! | `entry`, `post`, `steward`, `names` | making and getting; what one has then; the thread; what there is |

mod call;
mod desk;
mod entry;
mod error;
mod folder;
mod name;
mod names;
mod place;
mod post;
mod presence;
pub(super) mod socket;
mod steward;
mod terms;
mod wire;

pub use entry::{attach, create, create_or_attach, look};
pub use error::{FolderFault, HandoverError};
pub use name::{Name, NameError};
pub use names::{Life, Named, names, remove_stale};
pub use post::Post;
pub use steward::{Standing, Steward};
pub use terms::Terms;
