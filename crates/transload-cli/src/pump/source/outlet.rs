//! What every source has.

use std::sync::Arc;

use transload::pump::Intake;

use crate::pump::stop::Stop;

/// What every source has.
#[derive(Clone, Debug)]
pub(in crate::pump) struct Outlet {
    pub(in crate::pump) intake: Intake,
    /// Raised when sources are to stop.
    pub(in crate::pump) stop: Arc<Stop>,
}

impl Outlet {
    /// Offers a message that `fill` writes; says whether the source goes on.
    pub(in crate::pump) fn offer(&self, fill: impl FnOnce(&mut [u8])) -> bool {
        !self.stop.is_raised() && self.intake.offer_with(fill).is_ok()
    }
}
