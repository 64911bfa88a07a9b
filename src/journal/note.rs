//! Signed notes (c2sp.org/signed-note): a text, a blank line, one line for each signature.
//!
//! Anybody may append a signature line, so lines by unknown keys say nothing and are passed over.
//! A line that names a key we do trust must hold: a bad one condemns the whole note, or a forger
//! could hide behind one good signature among several. Without any signature by a trusted key
//! the text is just text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer, SigningKey};

use crate::auth::vkey::{KeyId, NamedKey, VerifierKey, VerifierKeyError, is_key_name};

/// Largest note read, in bytes; ample for 16 signatures, post-quantum ones included.
pub const NOTE_BYTES_MAX: usize = 64 * 1024;
/// Most signatures read; the specification asks for at least 16, Go's reader stops at 100 too.
pub const SIGNATURES_MAX: usize = 100;

/// What opens a signature line: em dash, space.
const SIGNATURE_PREFIX: &str = "\u{2014} ";

/// One signature line, taken apart but not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteSignature {
    /// Name of the key that is said to have signed.
    pub name: String,
    /// Id of that key.
    pub id: KeyId,
    /// What the key made, in the form of its type: 64 bytes for Ed25519.
    pub bytes: Vec<u8>,
}

impl NoteSignature {
    /// Reads one line without its line feed, as witnesses also return it.
    ///
    /// # Errors
    /// [`NoteError::SignatureLine`] unless it is dash, name and base64 of id and signature.
    pub fn parse(line: &str) -> Result<Self, NoteError> {
        let parts = line.strip_prefix(SIGNATURE_PREFIX).and_then(|rest| rest.split_once(' '));
        let (name, base64) = parts.ok_or(NoteError::SignatureLine)?;
        let decoded = STANDARD.decode(base64).map_err(|_| NoteError::SignatureLine)?;
        match decoded.split_first_chunk::<4>() {
            Some((id, bytes)) if is_key_name(name) && !bytes.is_empty() => {
                Ok(Self { name: name.to_string(), id: KeyId(*id), bytes: bytes.to_vec() })
            }
            _ => Err(NoteError::SignatureLine),
        }
    }

    /// Prints the line, line feed included.
    pub fn render(&self) -> String {
        let bytes = [&self.id.0, self.bytes.as_slice()].concat();
        format!("{SIGNATURE_PREFIX}{} {}\n", self.name, STANDARD.encode(bytes))
    }

    /// Whether the line says that `key` made it; whether it did is for verification to tell.
    pub fn is_by<const KIND: u8>(&self, key: &NamedKey<KIND>) -> bool {
        self.id == key.id() && self.name == key.name()
    }
}

/// A text and its signature lines. Reading one verifies nothing; [`SignedNote::verify`] does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedNote {
    /// The signed text, its last line feed included.
    pub body: String,
    /// The signature lines in order.
    pub signatures: Vec<NoteSignature>,
}

impl SignedNote {
    /// Signs `body`, which ends with a line feed, as `name`.
    ///
    /// # Errors
    /// [`NoteError`] when name or body do not fit a note, so nothing unreadable is ever signed.
    pub fn sign(body: String, name: &str, key: &SigningKey) -> Result<Self, NoteError> {
        check_body(&body)?;
        let id = VerifierKey::of(name, key)?.id();
        let bytes = key.sign(body.as_bytes()).to_vec();
        let signature = NoteSignature { name: name.to_string(), id, bytes };
        Ok(Self { body, signatures: vec![signature] })
    }

    /// Reads a note; [`SignedNote::render`] gives back the same bytes.
    ///
    /// # Errors
    /// [`NoteError`] for anything but a well-formed note of at most [`NOTE_BYTES_MAX`] bytes and
    /// 1 to [`SIGNATURES_MAX`] signatures.
    pub fn parse(note: impl AsRef<[u8]>) -> Result<Self, NoteError> {
        let bytes = note.as_ref();
        if bytes.len() > NOTE_BYTES_MAX {
            return Err(NoteError::TooLong);
        }
        let text = str::from_utf8(bytes).map_err(|_| NoteError::NotUtf8)?;
        // The last blank line separates: the body may have blank lines of its own.
        let blank = text.rfind("\n\n").ok_or(NoteError::NoSignature)?;
        let (body, lines) = (&text[..=blank], &text[blank + 2..]);
        check_body(body)?;
        let lines = lines.strip_suffix('\n').ok_or(NoteError::NoSignature)?;
        if lines.split('\n').count() > SIGNATURES_MAX {
            return Err(NoteError::TooManySignatures);
        }
        let signatures = lines.split('\n').map(NoteSignature::parse).collect::<Result<_, _>>()?;
        Ok(Self { body: body.to_string(), signatures })
    }

    /// Prints the note.
    pub fn render(&self) -> String {
        let lines: String = self.signatures.iter().map(NoteSignature::render).collect();
        format!("{}\n{lines}", self.body)
    }

    /// Checks every signature by one of `keys` and tells which keys signed, each once.
    ///
    /// # Errors
    /// [`NoteError::BadSignature`] when a signature by a known key does not hold, whatever the
    /// others do; [`NoteError::Unverified`] when no known key signed.
    pub fn verify<'k>(&self, keys: &'k [VerifierKey]) -> Result<Vec<&'k VerifierKey>, NoteError> {
        let mut verified: Vec<&VerifierKey> = Vec::new();
        for signature in &self.signatures {
            // Two different keys can share name and id; then neither may vouch for the other.
            for key in keys.iter().filter(|key| signature.is_by(key)) {
                self.verify_one(signature, key)?;
                if !verified.contains(&key) {
                    verified.push(key);
                }
            }
        }
        if verified.is_empty() { Err(NoteError::Unverified) } else { Ok(verified) }
    }

    fn verify_one(&self, signature: &NoteSignature, key: &VerifierKey) -> Result<(), NoteError> {
        // The strict rule, since the lenient one accepts small-order points that fit any message.
        Signature::from_slice(&signature.bytes)
            .and_then(|bytes| key.key().verify_strict(self.body.as_bytes(), &bytes))
            .map_err(|_| NoteError::BadSignature { name: key.name().to_string(), id: key.id() })
    }
}

/// Why a note, or the checkpoint in it, is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// Larger than [`NOTE_BYTES_MAX`].
    #[error("expected a note of at most {NOTE_BYTES_MAX} bytes")]
    TooLong,
    /// Not UTF-8.
    #[error("expected a note in utf-8")]
    NotUtf8,
    /// A control character other than the line feed, or no line feed at the end of the body.
    #[error("expected lines of text that end with a line feed and hold no control character")]
    Text,
    /// No blank line with signature lines after it, or the last of them is not ended.
    #[error("expected a blank line and at least one signature line after the text")]
    NoSignature,
    /// More than [`SIGNATURES_MAX`] signature lines.
    #[error("expected at most {SIGNATURES_MAX} signatures")]
    TooManySignatures,
    /// A signature line is not well-formed.
    #[error("expected a signature line of em dash, key name and base64")]
    SignatureLine,
    /// The signer's name or key cannot be used.
    #[error(transparent)]
    Key(#[from] VerifierKeyError),
    /// A signature names a trusted key and does not hold.
    #[error("the signature by {name}+{id} does not hold")]
    BadSignature {
        /// Name of the trusted key.
        name: String,
        /// Id of the trusted key.
        id: KeyId,
    },
    /// No trusted key signed.
    #[error("expected a signature by a trusted key")]
    Unverified,
    /// The body is not a checkpoint.
    #[error("malformed checkpoint, expected {expected}")]
    Checkpoint {
        /// What the offending line should have been.
        expected: &'static str,
    },
    /// A trusted key signed the checkpoint of another log.
    #[error("the checkpoint is of {found}, expected {expected}")]
    Origin {
        /// Name of the trusted key.
        expected: String,
        /// Origin in the checkpoint.
        found: String,
    },
}

fn check_body(body: &str) -> Result<(), NoteError> {
    // Only below U+0020, as the specification counts control characters.
    let has_control = body.bytes().any(|byte| byte < b' ' && byte != b'\n');
    if has_control || !body.ends_with('\n') { Err(NoteError::Text) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(names: &[&str]) -> (SignedNote, Vec<VerifierKey>) {
        let mut note = SignedNote { body: "one\n\ntwo\n".into(), signatures: vec![] };
        let mut keys = vec![];
        for (seed, name) in (1..).zip(names) {
            let key = SigningKey::from_bytes(&[seed; 32]);
            let signed = SignedNote::sign(note.body.clone(), name, &key).expect("a good name");
            note.signatures.extend(signed.signatures);
            keys.push(VerifierKey::of(name, &key).expect("a good name"));
        }
        (note, keys)
    }

    #[test]
    fn a_note_round_trips_with_blank_lines_in_its_body() {
        let (note, _) = signed(&["a", "b"]);
        assert_eq!(SignedNote::parse(note.render()), Ok(note));
    }

    #[test]
    fn a_bad_signature_by_a_known_key_condemns_the_note() {
        let (mut note, keys) = signed(&["a", "b"]);
        assert_eq!(note.verify(&keys), Ok(keys.iter().collect()));
        note.signatures[1].bytes[0] ^= 1;
        assert!(matches!(note.verify(&keys), Err(NoteError::BadSignature { .. })));
        assert_eq!(note.verify(&keys[..1]), Ok(vec![&keys[0]]), "an unknown key says nothing");
        assert_eq!(note.verify(&[]), Err(NoteError::Unverified));
        note.signatures.push(note.signatures[0].clone());
        assert_eq!(note.verify(&keys[..1]), Ok(vec![&keys[0]]), "each key is named once");
        note.signatures[0].bytes.pop();
        assert!(matches!(note.verify(&keys[..1]), Err(NoteError::BadSignature { .. })));
    }

    #[test]
    fn limits_hold() {
        let (mut note, _) = signed(&["a"]);
        note.signatures = vec![note.signatures[0].clone(); SIGNATURES_MAX];
        assert_eq!(SignedNote::parse(note.render()).as_ref(), Ok(&note));
        note.signatures.push(note.signatures[0].clone());
        assert_eq!(SignedNote::parse(note.render()), Err(NoteError::TooManySignatures));
        assert_eq!(SignedNote::parse(vec![b'x'; NOTE_BYTES_MAX + 1]), Err(NoteError::TooLong));
    }

    #[test]
    fn other_spellings_are_refused() {
        let good = signed(&["a"]).0.render();
        for bad in [
            good.replace('\n', "\r\n"),
            good.replace("one", "o\tne"),
            good.replace("\u{2014} a ", "\u{2014} a  "),
            good.replace("\u{2014} a ", "\u{2014}  "),
            good.replace("\u{2014} a ", "- a "),
            good.replace("\u{2014} a ", "\u{2014} a\u{2003}b "),
            good.replace("=\n", "\n"),
            format!("{good}\n"),
            good.trim_end().to_string(),
        ] {
            assert!(SignedNote::parse(&bad).is_err(), "{bad}");
        }
        let key = SigningKey::from_bytes(&[1; 32]);
        assert_eq!(SignedNote::sign("no end".into(), "a", &key), Err(NoteError::Text));
        let error = NoteError::Key(VerifierKeyError::Name);
        assert_eq!(SignedNote::sign("text\n".into(), "a b", &key), Err(error));
    }
}
