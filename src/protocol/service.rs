//! What is routed: a service name and where one member offers it.

use super::member::in_name_alphabet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest service name in characters (design section 1).
pub const SERVICE_NAME_CHARS_MAX: usize = 63;
/// Most services of one node (design section 16).
pub const SERVICES_PER_NODE_MAX: usize = 32;
/// Largest weight (HAProxy's own limit).
pub const WEIGHT_MAX: u64 = 256;

/// A service name: 1-63 of `A-Z a-z 0-9 _ . -` and Hangul syllables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ServiceName(String);

impl ServiceName {
    /// Reads a name; the error says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let chars = text.chars().count();
        if chars == 0 || chars > SERVICE_NAME_CHARS_MAX {
            return Err(format!(
                "service name has {chars} characters, expected 1 to {SERVICE_NAME_CHARS_MAX}"
            ));
        }
        match text.chars().find(|c| !in_name_alphabet(*c)) {
            Some(bad) => Err(format!(
                "service name holds '{}', expected A-Z a-z 0-9 _ . - or Hangul syllables",
                bad.escape_default()
            )),
            None => Ok(ServiceName(text.to_owned())),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ServiceName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        ServiceName::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// One service as one member offers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// The name shared by all who offer it.
    pub name: ServiceName,
    /// Where this member offers it, `http://` or `https://`.
    pub url: String,
    /// Share of traffic, 1 to [`WEIGHT_MAX`].
    pub weight: u64,
    /// Path that shows whether the service answers; `/` where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// The HTTP status that counts as well; anything below 500 where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<u64>,
}

impl Service {
    /// Reads `name=url` or `name=url@weight`, as typed after `--service`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, rest) =
            text.split_once('=').ok_or_else(|| format!("'{text}', expected name=url[@weight]"))?;
        let (url, weight) = match rest.rsplit_once('@') {
            Some((url, weight)) => (url, parse_weight(weight)?),
            None => (rest, 1),
        };
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            return Err(format!("service url '{url}', expected http:// or https://"));
        }
        if url.contains(['|', ' ']) || url.chars().any(char::is_control) {
            return Err(format!(
                "service url '{}' holds a blank, '|' or control character",
                url.escape_debug()
            ));
        }
        Ok(Service {
            name: ServiceName::parse(name)?,
            url: url.to_owned(),
            weight,
            check: None,
            expect: None,
        })
    }
}

fn parse_weight(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(weight) if (1..=WEIGHT_MAX).contains(&weight) => Ok(weight),
        _ => Err(format!("weight '{text}', expected 1 to {WEIGHT_MAX}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_flag_is_name_url_and_optional_weight() {
        let plain = Service::parse("shop=http://192.0.2.1:8081").unwrap();
        assert_eq!((plain.name.as_str(), plain.weight), ("shop", 1));
        assert_eq!(Service::parse("shop=https://a.example@7").unwrap().weight, 7);
        for bad in [
            "shop",
            "shop=ftp://x",
            "s|p=http://x",
            "shop=http://x@0",
            "shop=http://x@257",
            "=http://x",
            "shop=http://a|b",
        ] {
            assert!(Service::parse(bad).is_err(), "{bad}");
        }
    }
}
