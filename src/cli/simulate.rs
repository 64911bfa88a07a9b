//! Flags of `simulate`.

use clap::Args;

/// What a fixed set of runs brings with it.
const SCENE: [&str; 8] =
    ["pause", "deaf", "partition", "crash", "join", "loss", "ticks", "plain_swim"];

/// `simulate`.
#[derive(Args, Debug)]
pub struct Simulate {
    /// Nodes, the anchor (node 0) included: 2 to 2,000.
    #[arg(long, default_value_t = 16, value_name = "N")]
    pub nodes: usize,
    /// Share of packets, of ours of requests, that get lost, 0 to below 1.
    #[arg(long, default_value_t = 0.0, value_name = "P", allow_negative_numbers = true)]
    pub loss: f64,
    /// D ticks of silence, I ticks apart (0: once), of C nodes at once: always the same ones.
    #[arg(long, value_name = "D:I:C")]
    pub pause: Option<String>,
    /// The same for nodes that go on executing while nothing reaches them or leaves them.
    #[arg(long, value_name = "D:I:C")]
    pub deaf: Option<String>,
    /// Nothing passes between two sides from tick T1 to T2; a side is a count or a range: 3:2 or
    /// 0-2:3-4. The second is the one in trouble.
    #[arg(long, value_name = "A:B@T1-T2")]
    pub partition: Option<String>,
    /// C nodes die for good at tick T.
    #[arg(long, value_name = "C@T")]
    pub crash: Option<String>,
    /// Nodes join one after another, so many ticks apart; plain SWIM only.
    #[arg(long, value_name = "TICKS", requires = "plain_swim")]
    pub join: Option<u64>,
    /// Ticks to run; a period of SWIM is one tick.
    #[arg(long, default_value_t = 200, value_name = "T")]
    pub ticks: u64,
    /// The same seed makes the same run.
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub seed: u64,
    /// Run plain SWIM instead of our protocol: the baseline of Lifeguard's paper.
    #[arg(long)]
    pub plain_swim: bool,
    /// Of our suspicion: Min is alpha x max(1, log10 N) ticks [default: as at a 30 s interval].
    #[arg(long, value_name = "A", conflicts_with = "plain_swim")]
    pub alpha: Option<f64>,
    /// Max is beta x Min.
    #[arg(long, value_name = "B", conflicts_with = "plain_swim")]
    pub beta: Option<f64>,
    /// Accusers beyond the first that bring Max down to Min.
    #[arg(long, value_name = "K", conflicts_with = "plain_swim")]
    pub accusers: Option<u64>,
    /// Run Lifeguard's grid: plain SWIM, and our rules under its numbers and under ours. Minutes.
    #[arg(long, conflicts_with_all = SCENE)]
    pub grid: bool,
    /// Seeds 1 to S of the grid.
    #[arg(long, default_value_t = 1, value_name = "S", requires = "grid")]
    pub seeds: u64,
    /// Hold plain SWIM against the figures of its paper; exit 3 if they differ.
    #[arg(long, conflicts_with_all = SCENE, conflicts_with = "grid")]
    pub check: bool,
    /// JSON.
    #[arg(long)]
    pub json: bool,
}
