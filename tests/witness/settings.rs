//! `[[witness]]` in the configuration: what is refused, and why.

use crate::anchor::Anchor;

const W1: &str = "witness.example.net/w1+f2aca289+BM/PJzusVcMfhvSurOi+xPzxEzBveac6tdzHCzZ8uS+R";
/// A log's key, which signs notes and not times.
const AS_LOG: &str = "fed.example.org/crowny+181f093c+Abe68Bzc2GV2Ly3j9yWGIgA/x3U7PXfFxWS4/jT5MCZ7";

#[test]
fn bad_settings_are_refused_with_the_reason() {
    let anchor = Anchor::found();
    let one = format!("[[witness]]\nurl = \"https://w.example\"\nvkey = \"{W1}\"\n");
    for (bad, why) in [
        (format!("{one}quorum = 2\n"), "unknown field `quorum`"),
        (format!("{one}{one}"), "stands twice"),
        (one.replace("f2aca289", "f2aca288"), "the key id does not match"),
        (one.replace(W1, AS_LOG), "0x04 (cosignature), found 0x01"),
        (one.replace(W1, "w1"), "name+id+base64"),
        (one.replace("https://", "ftp://"), "expected http:// or https://"),
        (one.replace("w.example", "w.example/?a=b"), "without query or fragment"),
        (format!("{one}monitor = \"nowhere\"\n"), "expected http:// or https://"),
        (format!("{one}required = \"yes\"\n"), "expected a boolean"),
        ("[[witness]]\nurl = \"https://w.example\"\n".to_owned(), "missing field `vkey`"),
    ] {
        anchor.settings(&bad);
        anchor.tick().ends(78, &[why]);
    }
    anchor.settings(&one);
    anchor.fed(&["status"]).ends(0, &[]);
}
