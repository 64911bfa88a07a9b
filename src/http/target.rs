//! Path and query of a request target, decoded once and in one spelling only. Pure.
//!
//! Decoding twice, or after splitting on the wrong bytes, is how `..%2f` walks out of a folder; so
//! everything ambiguous is refused here and a router compares plain text. Raw UTF-8 is accepted
//! beside its percent-encoded form, because people type `/nodes/서울` as it is.

use thiserror::Error;

/// A decoded request target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Starts with `/`; no `.` or `..` segment, no control character.
    pub path: String,
    /// Pairs in order; a part without `=` has an empty value, empty parts are skipped.
    pub query: Vec<(String, String)>,
}

/// Why a target is refused; nothing of it is echoed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TargetError {
    /// `OPTIONS *` and authority-form belong to proxies (RFC 9112 3.2).
    #[error("the request target must be a path that starts with a slash")]
    NotAPath,
    /// A `%` without two hex digits after it (RFC 3986 2.1).
    #[error("a percent sign must be followed by two hex digits")]
    Escape,
    /// Decoded bytes are not UTF-8.
    #[error("the request target must be UTF-8 once decoded")]
    NotUtf8,
    /// A control character, raw or encoded.
    #[error("the request target must not contain control characters")]
    Control,
    /// `%2F`: would turn one segment into two.
    #[error("a slash must not be percent-encoded in a path")]
    EncodedSlash,
    /// A `.` or `..` segment, raw or encoded (RFC 3986 5.2.4 leaves removal to the client).
    #[error("the path must not contain dot segments")]
    DotSegment,
}

impl Target {
    /// Decodes `path` and `query` as they stood in the request line, without the `?`.
    pub fn parse(path: &str, query: Option<&str>) -> Result<Target, TargetError> {
        Ok(Target { path: parse_path(path)?, query: parse_query(query.unwrap_or(""))? })
    }
}

fn parse_path(raw: &str) -> Result<String, TargetError> {
    if !raw.starts_with('/') {
        return Err(TargetError::NotAPath);
    }
    if raw.contains("%2F") || raw.contains("%2f") {
        return Err(TargetError::EncodedSlash);
    }
    let path = decode(raw)?;
    if path.split('/').any(|segment| segment == "." || segment == "..") {
        return Err(TargetError::DotSegment);
    }
    Ok(path)
}

fn parse_query(raw: &str) -> Result<Vec<(String, String)>, TargetError> {
    raw.split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            Ok((decode(key)?, decode(value)?))
        })
        .collect()
}

fn decode(raw: &str) -> Result<String, TargetError> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = tail;
            continue;
        }
        let Some((&[high, low], tail)) = tail.split_first_chunk() else {
            return Err(TargetError::Escape);
        };
        bytes.push(hex(high)? << 4 | hex(low)?);
        rest = tail;
    }
    let text = String::from_utf8(bytes).map_err(|_| TargetError::NotUtf8)?;
    if text.chars().any(char::is_control) {
        return Err(TargetError::Control);
    }
    Ok(text)
}

fn hex(digit: u8) -> Result<u8, TargetError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(TargetError::Escape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(raw: &str) -> Result<String, TargetError> {
        Target::parse(raw, None).map(|target| target.path)
    }

    #[test]
    fn decodes_exactly_once() {
        assert_eq!(path("/nodes/%EC%84%9C%ec%9a%b8-1").unwrap(), "/nodes/서울-1");
        assert_eq!(path("/nodes/서울-1").unwrap(), "/nodes/서울-1");
        assert_eq!(path("/a%252e").unwrap(), "/a%2e");
        assert_eq!(path("//a/...").unwrap(), "//a/...");
    }

    #[test]
    fn refuses_every_ambiguous_spelling() {
        use TargetError::*;
        for (raw, error) in [
            ("", NotAPath),
            ("*", NotAPath),
            ("host:80", NotAPath),
            ("/%", Escape),
            ("/%2", Escape),
            ("/%+1", Escape),
            ("/%zz", Escape),
            ("/%\u{c11c}", Escape),
            ("/%FF", NotUtf8),
            ("/%EC%84", NotUtf8),
            ("/a%00", Control),
            ("/a%0d%0aSet-Cookie:x", Control),
            ("/%C2%85", Control),
            ("/a%2Fb", EncodedSlash),
            ("/%2e%2e%2fetc", EncodedSlash),
            ("/..", DotSegment),
            ("/tile/%2e%2e/key", DotSegment),
            ("/tile/.%2E/key", DotSegment),
            ("/./x", DotSegment),
        ] {
            assert_eq!(path(raw), Err(error), "{raw:?}");
        }
    }

    #[test]
    fn a_plus_in_a_query_stays_a_plus() {
        let query = Target::parse("/", Some("vkey=a+b%2Bc=&&x&%EA%B0%80=%26")).unwrap().query;
        let pairs: Vec<_> = query.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("vkey", "a+b+c="), ("x", ""), ("가", "&")]);
        assert_eq!(Target::parse("/", Some("a=%0a")), Err(TargetError::Control));
    }
}
