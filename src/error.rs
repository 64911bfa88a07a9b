//! Kinds of failure and their exit codes: the only place that knows the numbers.

use std::fmt;

/// What kind of ending a command had, as scripts see it (design section 13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something failed; our durable state is as it was.
    Failed,
    /// The command line makes no sense.
    Usage,
    /// The question was answered, and the answer is no.
    No,
    /// Some input rows were refused; the rest was done.
    Partial,
    /// What is on disk contradicts what was signed.
    Integrity,
    /// Another process held a lock for longer than we wait.
    Busy,
    /// Configuration, ownership or permissions forbid to go on.
    Config,
}

impl Kind {
    /// The process exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Failed => 1,
            Kind::Usage => 2,
            Kind::No => 3,
            Kind::Partial => 4,
            Kind::Integrity => 5,
            Kind::Busy => 75,
            Kind::Config => 78,
        }
    }
}

/// One failure, told once: a lower-case line and, where we know one, the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Decides the exit code.
    pub kind: Kind,
    /// What happened, naming the file, line, peer or number.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure of `kind` without a hint.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Failure { kind, message: message.into(), hint: None }
    }

    /// The same failure with a way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A plain failure (exit 1).
    pub fn failed(message: impl Into<String>) -> Self {
        Failure::new(Kind::Failed, message)
    }

    /// An integrity failure (exit 5).
    pub fn integrity(message: impl Into<String>) -> Self {
        Failure::new(Kind::Integrity, message)
    }

    /// A configuration failure (exit 78).
    pub fn config(message: impl Into<String>) -> Self {
        Failure::new(Kind::Config, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}
