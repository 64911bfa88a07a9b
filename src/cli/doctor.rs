//! Flags of `doctor`: each repair is one, and none is made without it.

use clap::Args;

/// `doctor`.
#[derive(Args, Debug)]
pub struct Doctor {
    /// Take what is here, and what members hold of our own later lines, as the base of what is signed
    /// on. With URL the copy there is the right one, also on a member, and where it differs ours gives
    /// way and is kept. On the anchor signed writes then wait ten minutes.
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "", conflicts_with = "accept_clock")]
    pub adopt: Option<String>,
    /// On the anchor: the clock is right and the journal ahead of it; signed writes go on by the
    /// clock in ten minutes.
    #[arg(long)]
    pub accept_clock: bool,
    /// JSON.
    #[arg(long)]
    pub json: bool,
}
