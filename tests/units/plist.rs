//! A property list as launchd will read it, strictly: Apple's own linter lets duplicate keys,
//! unknown keys and `15s` as an integer pass, and the last two of these start nothing.

use serde_json::{Map, Value};

/// The dictionary of a plist; the error says what is not plain.
pub fn parse(text: &str) -> Result<Value, String> {
    let mut reader = Reader { rest: without_comments(text)? };
    let prolog = reader.rest.find("<plist version=\"1.0\">").ok_or("no plist element")?;
    reader.rest.drain(..prolog);
    reader.expect("<plist version=\"1.0\">")?;
    let value = reader.value()?;
    reader.expect("</plist>")?;
    match reader.rest.trim() {
        "" => Ok(value),
        more => Err(format!("more after the plist: {more}")),
    }
}

fn without_comments(text: &str) -> Result<String, String> {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<!--") {
        kept.push_str(before);
        let (inside, behind) = after.split_once("-->").ok_or("a comment without end")?;
        if inside.contains("--") {
            return Err("-- inside a comment".to_owned());
        }
        rest = behind;
    }
    Ok(kept + rest)
}

struct Reader {
    rest: String,
}

impl Reader {
    fn takes(&mut self, tag: &str) -> bool {
        let trimmed = self.rest.trim_start();
        let Some(after) = trimmed.strip_prefix(tag) else {
            return false;
        };
        self.rest = after.to_owned();
        true
    }

    fn expect(&mut self, tag: &str) -> Result<(), String> {
        if self.takes(tag) {
            return Ok(());
        }
        let found: String = self.rest.trim_start().chars().take(30).collect();
        Err(format!("'{found}', expected {tag}"))
    }

    fn value(&mut self) -> Result<Value, String> {
        if self.takes("<dict>") {
            return self.dict();
        }
        if self.takes("<array>") {
            return self.array();
        }
        if self.takes("<string>") {
            return Ok(Value::String(self.text("</string>")?));
        }
        if self.takes("<integer>") {
            let digits = self.text("</integer>")?;
            let number: i64 = digits.parse().map_err(|_| format!("'{digits}' is no integer"))?;
            return Ok(number.into());
        }
        if self.takes("<true/>") {
            return Ok(true.into());
        }
        self.expect("<false/>").map(|()| false.into())
    }

    fn dict(&mut self) -> Result<Value, String> {
        let mut found = Map::new();
        while !self.takes("</dict>") {
            self.expect("<key>")?;
            let key = self.text("</key>")?;
            let value = self.value()?;
            if found.insert(key.clone(), value).is_some() {
                return Err(format!("key {key} stands twice"));
            }
        }
        Ok(Value::Object(found))
    }

    fn array(&mut self) -> Result<Value, String> {
        let mut found = Vec::new();
        while !self.takes("</array>") {
            found.push(self.value()?);
        }
        Ok(Value::Array(found))
    }

    fn text(&mut self, end: &str) -> Result<String, String> {
        let (inside, after) = self.rest.split_once(end).ok_or_else(|| format!("no {end}"))?;
        if inside.contains('<') {
            return Err(format!("'{inside}' holds an element"));
        }
        let text = unescape(inside)?;
        self.rest = after.to_owned();
        Ok(text)
    }
}

fn unescape(text: &str) -> Result<String, String> {
    let mut parts = text.split('&');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, after) = part.split_once(';').ok_or_else(|| format!("bare & in '{text}'"))?;
        plain.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            _ => return Err(format!("unknown &{name};")),
        });
        plain.push_str(after);
    }
    Ok(plain)
}
