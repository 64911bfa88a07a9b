//! Strict JSON: one value, no key twice, integers up to 2^53 - 1 only, no null.
//!
//! Readers disagree about duplicate keys (the first, the last, both) and about large numbers; a
//! signed text that two readers understand differently is a forged one waiting to happen
//! (cases O-17, O-25).

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt;

/// Largest integer that every reader keeps exact.
const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Checks that `text` is one strict JSON value; the error says what was met instead.
pub fn check(text: &str) -> Result<(), String> {
    serde_json::from_str::<Strict>(text).map(|_| ()).map_err(|error| error.to_string())
}

/// The same, and it must be an object: a list in the order of the fields reads as one, too.
pub fn check_object(text: &str) -> Result<(), String> {
    check(text)?;
    let begins = text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{');
    if begins { Ok(()) } else { Err("expected an object".to_owned()) }
}

struct Strict;

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Strict)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Strict;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, list, string, boolean or an integer from 0 to 2^53-1")
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Strict, E> {
        if number > INTEGER_MAX {
            return Err(E::custom(format!("{number} is beyond 2^53-1")));
        }
        Ok(Strict)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Strict, A::Error> {
        while items.next_element::<Strict>()?.is_some() {}
        Ok(Strict)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Strict, A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = fields.next_key::<String>()? {
            if seen.contains(&key) {
                return Err(de::Error::custom(format!(
                    "key '{}' stands twice",
                    key.escape_debug()
                )));
            }
            seen.insert(key);
            fields.next_value::<Strict>()?;
        }
        Ok(Strict)
    }
}

#[cfg(test)]
mod tests {
    use super::{check, check_object};

    #[test]
    fn what_readers_may_understand_differently_is_refused() {
        for bad in [
            r#"{"host":"a","host":"b"}"#,
            r#"{"host":"a","ho\u0073t":"b"}"#,
            r#"{"a":{"b":1,"b":1}}"#,
            r#"{"a":1.0}"#,
            r#"{"a":1e2}"#,
            r#"{"a":-1}"#,
            r#"{"a":9007199254740992}"#,
            r#"{"a":18446744073709551616}"#,
            r#"{"a":null}"#,
            r#"{"a":1}{"b":2}"#,
            r#"{"a":"\ud800"}"#,
            "",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
        for good in [r#"{"host":1,"Host":9007199254740991}"#, "[true,\"서울\"]", " {} "] {
            assert!(check(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn a_list_is_no_object() {
        assert!(check_object(" {} ").is_ok());
        assert!(check_object("[1]").is_err() && check_object("\"{}\"").is_err());
    }

    #[test]
    fn depth_is_bounded() {
        assert!(check(&"[".repeat(100_000)).is_err());
    }
}
