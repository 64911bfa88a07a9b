//! Checkpoints (c2sp.org/tlog-checkpoint): the log's head as a signed note of three lines.
//!
//! Origin, size and root say everything about a log at one moment: whoever holds two checkpoints
//! of one origin can ask for the proof that the older is a prefix of the newer. The origin is the
//! log's identity for good, and the name of the key that signs.

use ed25519_dalek::SigningKey;

use crate::auth::vkey::VerifierKey;
use crate::journal::merkle::{Hash, empty_root};
use crate::journal::note::{NoteError, SignedNote};

/// The head of a log, signed or about to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Identity of the log: a URL prefix without scheme, such as `fed.example.org/crowny`.
    pub origin: String,
    /// Number of lines.
    pub size: u64,
    /// Merkle root over the first `size` lines.
    pub root: Hash,
    /// Further lines, kept as read; we write none, as nobody can audit them.
    pub extensions: Vec<String>,
}

impl Checkpoint {
    /// A checkpoint without extension lines.
    pub fn new(origin: &str, size: u64, root: Hash) -> Self {
        Self { origin: origin.to_string(), size, root, extensions: Vec::new() }
    }

    /// Prints the note body: each line ended by a line feed.
    pub fn render(&self) -> String {
        let extensions: String = self.extensions.iter().map(|line| format!("{line}\n")).collect();
        format!("{}\n{}\n{}\n{extensions}", self.origin, self.size, self.root.to_base64())
    }

    /// Reads a note body; [`Checkpoint::render`] gives back the same text.
    ///
    /// # Errors
    /// [`NoteError::Checkpoint`] for an empty line, a size with leading zeros, a root in another
    /// spelling, or an empty log whose root is not the empty tree's.
    pub fn parse(body: &str) -> Result<Self, NoteError> {
        let malformed = |expected| NoteError::Checkpoint { expected };
        let text = body.strip_suffix('\n').ok_or(malformed("a line feed at the end"))?;
        let mut lines = text.split('\n');
        let origin = lines.next().filter(|line| !line.is_empty());
        let origin = origin.ok_or(malformed("an origin on line 1"))?;
        let size = lines.next().and_then(parse_size);
        let size = size.ok_or(malformed("a size without leading zeros on line 2"))?;
        let root = lines.next().and_then(|line| Hash::parse_base64(line).ok());
        let root = root.ok_or(malformed("a root of 44 base64 characters on line 3"))?;
        if size == 0 && root != empty_root() {
            return Err(malformed("the root of the empty tree for size 0"));
        }
        let extensions: Vec<String> = lines.map(str::to_string).collect();
        if extensions.iter().any(String::is_empty) {
            return Err(malformed("no empty line"));
        }
        Ok(Self { origin: origin.to_string(), size, root, extensions })
    }
}

/// Signs a checkpoint; the key's name is the origin.
///
/// # Errors
/// [`NoteError`] when the origin cannot name a key or the body would not read back as this very
/// checkpoint, so nothing unreadable is ever signed.
pub fn sign_checkpoint(checkpoint: &Checkpoint, key: &SigningKey) -> Result<SignedNote, NoteError> {
    let body = checkpoint.render();
    if Checkpoint::parse(&body)? != *checkpoint {
        return Err(NoteError::Checkpoint { expected: "no line feed within a line" });
    }
    SignedNote::sign(body, &checkpoint.origin, key)
}

/// Adds the signature of another key of the log to a note.
///
/// # Errors
/// [`NoteError`] for a name no key can have.
pub fn sign_along(note: &mut SignedNote, name: &str, key: &SigningKey) -> Result<(), NoteError> {
    let other = SignedNote::sign(note.body.clone(), name, key)?;
    note.signatures.extend(other.signatures);
    Ok(())
}

/// Reads a signed checkpoint of the log that `vkey` names, and verifies that the log signed it.
///
/// # Errors
/// [`NoteError`] for a malformed note, a signature that is missing or does not hold, a body that
/// is no checkpoint, or the checkpoint of another origin.
pub fn open_checkpoint(
    note: impl AsRef<[u8]>,
    vkey: &VerifierKey,
) -> Result<(Checkpoint, SignedNote), NoteError> {
    let note = SignedNote::parse(note)?;
    note.verify(std::slice::from_ref(vkey))?;
    let checkpoint = Checkpoint::parse(&note.body)?;
    if checkpoint.origin != vkey.name() {
        let (expected, found) = (vkey.name().to_string(), checkpoint.origin);
        return Err(NoteError::Origin { expected, found });
    }
    Ok((checkpoint, note))
}

/// A size in its one spelling: decimal, no sign, no leading zero.
pub(super) fn parse_size(line: &str) -> Option<u64> {
    let size: u64 = line.parse().ok()?;
    (size.to_string() == line).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::merkle::leaf_hash;

    #[test]
    fn a_body_has_one_spelling_and_keeps_extension_lines() {
        let mut checkpoint = Checkpoint::new("log.example/a", 7, leaf_hash(b""));
        checkpoint.extensions = vec!["first".into(), "second".into()];
        let good = checkpoint.render();
        assert_eq!(Checkpoint::parse(&good), Ok(checkpoint));
        for bad in [
            good.replace("\n7\n", "\n07\n"),
            good.replace("\n7\n", "\n+7\n"),
            good.replace("\n7\n", "\n-7\n"),
            good.replace("\n7\n", "\n18446744073709551616\n"),
            good.replace("\n7\n", "\n0\n"),
            good.replace("log.example/a", ""),
            good.replace("first", ""),
            good.replace("=\n", "\n"),
            good.trim_end().to_string(),
            format!("{good}\n"),
            "log.example/a\n7\n".to_string(),
        ] {
            assert!(matches!(Checkpoint::parse(&bad), Err(NoteError::Checkpoint { .. })), "{bad}");
        }
        let empty = Checkpoint::new("log.example/a", 0, empty_root());
        assert_eq!(Checkpoint::parse(&empty.render()), Ok(empty));
    }

    #[test]
    fn only_the_named_log_may_sign() {
        let key = SigningKey::from_bytes(&[1; 32]);
        let vkey = VerifierKey::of("log.example/a", &key).expect("a good name");
        let own = Checkpoint::new("log.example/a", 1, leaf_hash(b""));
        let signed = sign_checkpoint(&own, &key).expect("a good origin");
        assert_eq!(open_checkpoint(signed.render(), &vkey), Ok((own, signed)));
        let other = Checkpoint::new("log.example/b", 1, leaf_hash(b""));
        let signed = SignedNote::sign(other.render(), vkey.name(), &key).expect("a good name");
        let refused = open_checkpoint(signed.render(), &vkey);
        assert!(matches!(refused, Err(NoteError::Origin { .. })));
        let signed = sign_checkpoint(&other, &key).expect("a good origin");
        assert_eq!(open_checkpoint(signed.render(), &vkey), Err(NoteError::Unverified));
    }

    #[test]
    fn what_would_not_read_back_is_not_signed() {
        let key = SigningKey::from_bytes(&[1; 32]);
        let sign = |checkpoint: &Checkpoint| sign_checkpoint(checkpoint, &key);
        assert!(sign(&Checkpoint::new("with space", 1, leaf_hash(b""))).is_err());
        assert!(sign(&Checkpoint::new("two\nlines", 1, leaf_hash(b""))).is_err());
        assert!(sign(&Checkpoint::new("log.example/a", 0, leaf_hash(b""))).is_err());
        let mut checkpoint = Checkpoint::new("log.example/a", 1, leaf_hash(b""));
        checkpoint.extensions = vec!["two\nlines".into()];
        assert!(sign(&checkpoint).is_err());
    }
}
