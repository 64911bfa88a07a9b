//! The bytes that are signed: DSSE pre-authentication encoding (DSSE v1, "protocol.md").
//!
//! Length prefixes stop a field from running into the next, the type keeps a signature for one
//! purpose from serving another, and no canonical form of JSON is in the trust path.

/// `DSSEv1 SP len(T) SP T SP len(P) SP P` with T = `application/vnd.crowny-fed.<kind>.v1+json`.
pub fn encode(kind: &str, payload: &str) -> Vec<u8> {
    let media = format!("application/vnd.crowny-fed.{kind}.v1+json");
    format!("DSSEv1 {} {media} {} {payload}", media.len(), payload.len()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::encode;

    #[test]
    fn lengths_are_bytes() {
        let expected = "DSSEv1 43 application/vnd.crowny-fed.register.v1+json 6 서울";
        assert_eq!(encode("register", "서울"), expected.as_bytes());
    }
}
