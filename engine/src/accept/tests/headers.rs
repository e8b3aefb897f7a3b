//! Tests of the header rules.
//!
//! Each case is one header line that differs from a good one in one field.

use super::super::{Refusal, check_header, check_header_template};
use crate::ErrorKind;

const GOOD: &str = r#"{"type":"session","version":0,"id":"s-7","createdAt":17,"cwd":"/w"}"#;

fn refused(text: &str) -> String {
    let refusal = check_header(text.as_bytes()).unwrap_err();
    let field = refusal.field().to_owned();
    let err = refusal.header_error();
    let limit =
        text.len() > crate::limits::HEADER_BYTES_MAX || text.len() > 4_096 && field == "header";
    let kind = if limit { ErrorKind::Limit } else { ErrorKind::Invalid };
    let shown = text.get(..200).unwrap_or(text);
    assert_eq!((err.kind(), err.field()), (kind, Some(field.as_str())), "{shown}");
    field
}

#[test]
fn a_full_header_is_read() {
    let text = concat!(
        r#" {"x":[1],"type":"session","version":0.0,"id":"a\ud800","createdAt":1e3,"cwd":"C:\\w","parentSession":"","#,
        r#""seedLength":9007199254740991,"origin":"subagent","delegationDepth":2,"agentPreset":"p","__proto__":1} "#
    );
    let header = check_header(text.as_bytes()).unwrap();
    assert_eq!(header.id.as_bytes(), b"a\xed\xa0\x80");
    assert_eq!((header.created_at_ms, header.seed_length), (1000, Some((1 << 53) - 1)));
    assert_eq!(header.cwd.as_deref(), Some(&b"C:\\w"[..]));
    assert_eq!(header.parent_session.as_deref(), Some(&b""[..]));
    assert_eq!((header.subagent, header.delegation_depth), (true, 2));
    assert_eq!(header.agent_preset.as_deref(), Some(&b"p"[..]));
}

#[test]
fn a_short_header_has_defaults() {
    let text = r#"{"type":"session","version":0,"id":"other","id":"s","createdAt":0}"#;
    let header = check_header(text.as_bytes()).unwrap();
    assert_eq!(header.id.as_str(), Some("s"));
    assert_eq!((header.delegation_depth, header.subagent, header.seed_length), (0, false, None));
    assert_eq!((header.cwd, header.parent_session, header.agent_preset), (None, None, None));
}

#[test]
fn h1_another_version_is_unsupported_before_every_other_rule() {
    for text in [
        r#"{"type":"journal","version":7,"id":1,"x":{}}"#,
        r#"{"version":-1}"#,
        r#"{"version":0.5}"#,
        r#"{"version":0,"version":1,"sandboxMode":1}"#,
        r#"{"version":1e999}"#,
    ] {
        let refusal = check_header(text.as_bytes()).unwrap_err();
        assert!(matches!(refusal, Refusal::HeaderVersion), "{text}");
        let err = refusal.header_error();
        assert_eq!((err.kind(), err.field()), (ErrorKind::Unsupported, Some("version")));
    }
}

#[test]
fn broken_headers_name_their_field() {
    for text in ["", "garbage", "[]", "null", "{\"version\":0", "{\"version\":01}"] {
        assert_eq!(refused(text), "header");
    }
    let long = format!("{{\"x\":\"{}\"}}", "y".repeat(1 << 20));
    assert_eq!(refused(&long), "header");
    for (from, to, field) in [
        ("\"version\":0,", "", "version"),
        ("\"version\":0", "\"version\":\"0\"", "version"),
        ("\"session\"", "\"sessionx\"", "type"),
        ("\"type\":\"session\",", "", "type"),
        ("\"id\":\"s-7\",", "", "id"),
        ("\"s-7\"", "7", "id"),
        ("\"s-7\"", "\"\"", "id"),
        (",\"createdAt\":17", "", "createdAt"),
        ("17", "-1", "createdAt"),
        ("17", "1.5", "createdAt"),
        ("17", "-0", "createdAt"),
        ("17", "9007199254740992", "createdAt"),
        ("17", "\"17\"", "createdAt"),
        ("\"/w\"", "\"w\"", "cwd"),
        ("\"/w\"", "5", "cwd"),
        ("\"/w\"", "null", "cwd"),
        ("\"/w\"", "\"C:w\"", "cwd"),
        ("\"/w\"", "\"{{cwd}}/x\"", "cwd"),
        ("\"/w\"", "\"\"", "cwd"),
        ("}", ",\"parentSession\":1}", "parentSession"),
        ("}", ",\"seedLength\":-1}", "seedLength"),
        ("}", ",\"seedLength\":null}", "seedLength"),
        ("}", ",\"origin\":\"robot\"}", "origin"),
        ("}", ",\"origin\":null}", "origin"),
        ("}", ",\"delegationDepth\":-1}", "delegationDepth"),
        ("}", ",\"delegationDepth\":-0.0}", "delegationDepth"),
        ("}", ",\"agentPreset\":{}}", "agentPreset"),
        ("}", ",\"sandboxMode\":\"off\"}", "sandboxMode"),
        ("}", ",\"approvalPolicy\":null}", "approvalPolicy"),
    ] {
        let bad = GOOD.replace(from, to);
        assert_ne!(bad, GOOD);
        assert_eq!(refused(&bad), field, "{bad}");
    }
    assert!(check_header(GOOD.as_bytes()).is_ok());
}

#[test]
fn placeholders_stand_for_paths_where_they_are_allowed() {
    let text = GOOD.replace("/w", "{{cwd}}/w");
    assert!(check_header(text.as_bytes()).is_err());
    assert_eq!(
        check_header_template(text.as_bytes()).unwrap().cwd.as_deref(),
        Some(&b"{{cwd}}/w"[..])
    );
    assert!(check_header_template(GOOD.replace("/w", "{{home}}").as_bytes()).is_err());
}
