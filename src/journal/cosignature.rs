//! Cosignatures (c2sp.org/tlog-cosignature) and how a witness is asked for one
//! (c2sp.org/tlog-witness, "add-checkpoint").
//!
//! A witness says: at that time this was the largest tree I had seen of this log, and it continues
//! all I saw before. So two readers who both hold a cosigned checkpoint cannot have been shown two
//! histories unless log and witness lie together. Only Ed25519 cosignatures are read; lines of
//! other types are other keys' and pass for nothing.

use ed25519_dalek::Signature;

use crate::auth::vkey::{CosignerKey, KeyId};
use crate::journal::checkpoint::parse_size;
use crate::journal::merkle::Hash;
use crate::journal::note::{NoteError, NoteSignature, SIGNATURES_MAX, SignedNote};

/// Latest time a cosignature may name, in seconds since 1970 (tlog-cosignature, "Format").
const TIME_S_MAX: u64 = i64::MAX as u64;

/// Checks that the witness with `key` made `line` over `body`, and returns when, in seconds since
/// 1970.
///
/// # Errors
/// [`CosignatureError`] when the line is another key's, malformed, or does not hold.
pub fn verify_cosignature(
    body: &str,
    line: &NoteSignature,
    key: &CosignerKey,
) -> Result<u64, CosignatureError> {
    if !line.is_by(key) {
        return Err(CosignatureError::Unknown { name: line.name.clone(), id: line.id });
    }
    let time_s = stamped_at(line).ok_or(CosignatureError::Form)?;
    let signature = Signature::from_slice(&line.bytes[8..]).map_err(|_| CosignatureError::Form)?;
    // Strict, as for notes: the lenient rule has points that fit any message.
    key.key()
        .verify_strict(cosigned_message(body, time_s).as_bytes(), &signature)
        .map_err(|_| CosignatureError::Broken)?;
    Ok(time_s)
}

/// What a witness signs (tlog-cosignature, "Ed25519 signed message").
pub fn cosigned_message(body: &str, time_s: u64) -> String {
    format!("cosignature/v1\ntime {time_s}\n{body}")
}

/// The time a cosignature line names, in seconds since 1970, whether or not it holds: eight bytes,
/// most significant first, before a signature of 64.
pub fn stamped_at(line: &NoteSignature) -> Option<u64> {
    let (time, signature) = line.bytes.split_first_chunk::<8>()?;
    let time_s = u64::from_be_bytes(*time);
    (signature.len() == Signature::BYTE_SIZE && time_s <= TIME_S_MAX).then_some(time_s)
}

/// The newest cosignature by `key` on a note, and its time.
pub fn cosignature_of<'n>(
    note: &'n SignedNote,
    key: &CosignerKey,
) -> Option<(&'n NoteSignature, u64)> {
    let lines = note.signatures.iter();
    lines
        .filter_map(|line| Some((line, verify_cosignature(&note.body, line, key).ok()?)))
        .max_by_key(|(_, time_s)| *time_s)
}

/// Puts a verified cosignature on a note, in place of all that its name and id have there: an older
/// one says less, and one that does not hold would make readers refuse the whole note.
pub fn put_cosignature(note: &mut SignedNote, line: NoteSignature) {
    note.signatures.retain(|held| held.name != line.name || held.id != line.id);
    note.signatures.push(line);
}

/// `note` with what others signed of `held`, where that has the same body; the log's own lines are
/// those of `note`.
pub fn with_cosignatures_of(note: &SignedNote, held: &SignedNote) -> SignedNote {
    let mut whole = note.clone();
    if note.body != held.body {
        return whole;
    }
    let log = note.body.split('\n').next();
    for line in &held.signatures {
        let same = |ours: &NoteSignature| ours.name == line.name && ours.id == line.id;
        let ours = Some(line.name.as_str()) == log || whole.signatures.iter().any(same);
        if !ours && whole.signatures.len() < SIGNATURES_MAX {
            whole.signatures.push(line.clone());
        }
    }
    whole
}

/// The body of an add-checkpoint request: the size that the witness saw last, the proof from there,
/// and the whole signed checkpoint.
pub fn render_add_checkpoint(old: u64, path: &[Hash], note: &str) -> String {
    let hashes: String = path.iter().map(|hash| hash.to_base64() + "\n").collect();
    format!("old {old}\n{hashes}\n{note}")
}

/// What a witness made of an add-checkpoint request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Witnessed {
    /// 200: lines that claim to be cosignatures; none is checked yet.
    Cosigned(Vec<NoteSignature>),
    /// 409: it saw so many lines, not as many as we thought. The same answer meets another root at
    /// the size it saw.
    At(u64),
    /// 422: the proof does not lead from what it saw to what we show.
    Unproven,
    /// 400, 403 or 404: it does not know this log or its key, or cannot read us.
    Refused(u16),
}

/// Reads a witness's answer. The content type of a 409 is not asked for: its body has one spelling
/// already, and a bare number convicts nobody.
///
/// # Errors
/// [`CosignatureError`] for an answer that the protocol does not know.
pub fn parse_answer(status: u16, body: &[u8]) -> Result<Witnessed, CosignatureError> {
    match status {
        200 => parse_lines(body).map(Witnessed::Cosigned),
        409 => {
            let text = str::from_utf8(body).ok().and_then(|text| text.strip_suffix('\n'));
            text.and_then(parse_size).map(Witnessed::At).ok_or(CosignatureError::Size)
        }
        422 => Ok(Witnessed::Unproven),
        400 | 403 | 404 => Ok(Witnessed::Refused(status)),
        _ => Err(CosignatureError::Status(status)),
    }
}

fn parse_lines(body: &[u8]) -> Result<Vec<NoteSignature>, CosignatureError> {
    let text = str::from_utf8(body).map_err(|_| NoteError::NotUtf8)?;
    let lines = text.strip_suffix('\n').ok_or(NoteError::SignatureLine)?;
    if lines.split('\n').count() > SIGNATURES_MAX {
        return Err(NoteError::TooManySignatures.into());
    }
    Ok(lines.split('\n').map(NoteSignature::parse).collect::<Result<_, _>>()?)
}

/// Why an answer or a line in it is worth nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CosignatureError {
    /// The line names another key.
    #[error("a cosignature by {name}+{id}, which is not the key expected")]
    Unknown {
        /// Name in the line.
        name: String,
        /// Id in the line.
        id: KeyId,
    },
    /// Not 72 bytes, or a time beyond 2^63-1.
    #[error("expected a time of 8 bytes, at most 2^63-1, and a signature of 64")]
    Form,
    /// The signature is not by the key over this body at this time.
    #[error("the cosignature does not hold")]
    Broken,
    /// The body of a 409 is no size.
    #[error("expected a size without leading zeros and a line feed")]
    Size,
    /// A status without a meaning here.
    #[error("status {0}, expected 200, 400, 403, 404, 409 or 422")]
    Status(u16),
    /// A signature line is malformed.
    #[error(transparent)]
    Note(#[from] NoteError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_dalek::{Signer, SigningKey};

    const BODY: &str = "log.example/a\n1\nx\n";

    fn witness(seed: u8, name: &str) -> (SigningKey, CosignerKey) {
        let key = SigningKey::from_bytes(&[seed; 32]);
        let named = CosignerKey::of(name, &key).expect("a good name");
        (key, named)
    }

    /// A line with the time as `stamp` and a signature over `body` at `time_s`.
    fn line(
        (key, named): &(SigningKey, CosignerKey),
        body: &str,
        (stamp, time_s): ([u8; 8], u64),
    ) -> NoteSignature {
        let signature = key.sign(cosigned_message(body, time_s).as_bytes()).to_bytes();
        let bytes = [&stamp[..], &signature].concat();
        NoteSignature { name: named.name().to_owned(), id: named.id(), bytes }
    }

    #[test]
    fn a_cosignature_holds_for_one_key_one_body_and_one_time() {
        let w1 = witness(1, "w1");
        let good = line(&w1, BODY, (7_u64.to_be_bytes(), 7));
        assert_eq!(verify_cosignature(BODY, &good, &w1.1), Ok(7));
        let broken = Err(CosignatureError::Broken);
        assert_eq!(verify_cosignature("log.example/a\n2\nx\n", &good, &w1.1), broken);
        let moved = line(&w1, BODY, (8_u64.to_be_bytes(), 7));
        assert_eq!(verify_cosignature(BODY, &moved, &w1.1), broken);
        let little = line(&w1, BODY, (7_u64.to_le_bytes(), 7));
        assert_eq!(verify_cosignature(BODY, &little, &w1.1), broken);
        let mut other = line(&witness(2, "w1"), BODY, (7_u64.to_be_bytes(), 7));
        let unknown = verify_cosignature(BODY, &other, &w1.1);
        assert!(matches!(unknown, Err(CosignatureError::Unknown { .. })));
        other.id = w1.1.id();
        assert_eq!(verify_cosignature(BODY, &other, &w1.1), broken);
    }

    #[test]
    fn times_beyond_the_limit_and_other_lengths_are_refused() {
        let w1 = witness(1, "w1");
        let at = |time_s: u64| line(&w1, BODY, (time_s.to_be_bytes(), time_s));
        assert_eq!(verify_cosignature(BODY, &at(TIME_S_MAX), &w1.1), Ok(TIME_S_MAX));
        let form = Err(CosignatureError::Form);
        assert_eq!(verify_cosignature(BODY, &at(TIME_S_MAX + 1), &w1.1), form);
        let mut short = at(7);
        short.bytes.pop();
        assert_eq!(verify_cosignature(BODY, &short, &w1.1), form);
        short.bytes.truncate(7);
        assert_eq!(verify_cosignature(BODY, &short, &w1.1), form);
    }

    #[test]
    fn a_note_keeps_one_line_of_each_witness_and_loses_none() {
        let (w1, w2, log) = (witness(1, "w1"), witness(2, "w2"), SigningKey::from_bytes(&[3; 32]));
        let at = |witness, time_s: u64| line(witness, BODY, (time_s.to_be_bytes(), time_s));
        let plain = SignedNote::sign(BODY.to_owned(), "log.example/a", &log).expect("a good body");
        let mut note = plain.clone();
        for (witness, time_s) in [(&w1, 5), (&w2, 6), (&w1, 9)] {
            put_cosignature(&mut note, at(witness, time_s));
        }
        assert_eq!(note.signatures.len(), 3);
        assert_eq!(cosignature_of(&note, &w1.1).map(|(_, time_s)| time_s), Some(9));
        assert_eq!(with_cosignatures_of(&plain, &note), note);
        let mut grown = plain.clone();
        grown.body = "log.example/a\n2\nx\n".into();
        assert_eq!(with_cosignatures_of(&grown, &note), grown, "of another body nothing is kept");
        note.signatures[0].bytes[0] ^= 1;
        let whole = with_cosignatures_of(&plain, &note);
        assert_eq!(whole.signatures[0], plain.signatures[0], "a spoilt line of our own is not");
        assert_eq!(whole.signatures.len(), 3);
    }

    #[test]
    fn answers_have_one_spelling() {
        assert_eq!(parse_answer(409, b"3\n"), Ok(Witnessed::At(3)));
        for bad in [
            &b"3"[..],
            b"03\n",
            b"+3\n",
            b"3\n\n",
            b" 3\n",
            b"",
            b"\n",
            b"\xff\n",
            b"18446744073709551616\n",
        ] {
            assert_eq!(parse_answer(409, bad), Err(CosignatureError::Size), "{bad:?}");
        }
        let good = line(&witness(1, "w1"), BODY, ([0; 8], 0));
        let text = good.render();
        assert_eq!(parse_answer(200, text.as_bytes()), Ok(Witnessed::Cosigned(vec![good.clone()])));
        for bad in [
            "",
            "\n",
            text.trim_end(),
            &format!("{text}\n"),
            &format!("x\n{text}"),
            &text.repeat(SIGNATURES_MAX + 1),
        ] {
            assert!(parse_answer(200, bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(parse_answer(422, b"anything"), Ok(Witnessed::Unproven));
        assert_eq!(parse_answer(404, b""), Ok(Witnessed::Refused(404)));
        assert_eq!(parse_answer(500, b""), Err(CosignatureError::Status(500)));
    }
}
