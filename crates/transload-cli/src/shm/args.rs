//! The options of `transload shm`.

use clap::builder::BoolishValueParser;
use transload::shared::handover::{Name, Terms};

use crate::usage;

/// The options of `transload shm`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = usage::LOG_HELP)]
pub(crate) struct ShmArgs {
    #[command(subcommand)]
    pub(super) action: Action,
}

#[derive(Clone, Debug, clap::Subcommand)]
pub(super) enum Action {
    /// Lists the names of regions in the user's runtime folder, and the named objects in /dev/shm.
    List(ListArgs),
    /// Shows what a region is made of, who takes part in it, and what each of them holds.
    Show(NameArgs),
    /// Gives back what members held that are proven to be dead, and removes a name or an object that nobody has any more.
    /// Whoever lives, or is only stopped, keeps everything. Members do the same by themselves, every second.
    Reclaim(NameArgs),
}

#[derive(Clone, Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Print one JSON document instead of lines.
    #[arg(long, env = "TRANSLOAD_JSON", value_parser = BoolishValueParser::new())]
    pub(super) json: bool,
}

#[derive(Clone, Debug, clap::Args)]
pub(super) struct NameArgs {
    /// A name as in shm:NAME; else that of an object, as list shows it.
    pub(super) name: Name,
    /// Trust this user's processes as well; may be given several times.
    #[arg(long, env = "TRANSLOAD_SHM_ALLOW_UID", value_delimiter = ',', value_name = "UID")]
    allow_uid: Vec<u32>,
    /// Print one JSON document instead of lines.
    #[arg(long, env = "TRANSLOAD_JSON", value_parser = BoolishValueParser::new())]
    pub(super) json: bool,
}

impl NameArgs {
    pub(super) fn terms(&self) -> Terms {
        self.allow_uid.iter().fold(Terms::new(), |terms, uid| terms.allow_uid(*uid))
    }
}
