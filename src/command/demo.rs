//! `demo`.
use super::Ending;
use crate::cli::Common;
pub(super) fn run(_common: &Common, _keep: bool) -> Ending {
    Ok(None)
}
