//! `ls` and `info`: lists and figures.

use crate::support::{Place, log};

fn filled() -> Place {
    let place = Place::new();
    for (id, n) in [("small", 1), ("large", 40), ("middle", 9)] {
        place.write("in.jsonl", log(id, n));
        place.ever(&["import", "in.jsonl"]).exits(0);
    }
    place
}

#[test]
fn objects_have_the_fields_of_the_contract() {
    let place = filled();
    let child =
        log("child", 2).replace("\"cwd\":\"/w\"", "\"parentSession\":\"large\",\"seedLength\":1");
    place.write("in.jsonl", child);
    place.ever(&["import", "in.jsonl"]).exits(0);
    let all = place.ever(&["ls", "-o", "jsonl", "--sort", "id"]).exits(0).jsonl();
    let ids: Vec<_> = all.iter().map(|s| s["session"].as_str().unwrap()).collect();
    assert_eq!(ids, ["child", "large", "middle", "small"]);
    let large = &all[1];
    assert_eq!((large["v"].as_u64(), large["events"].as_u64()), (Some(1), Some(40)));
    assert_eq!((large["cwd"].as_str(), large.get("parentSession")), (Some("/w"), None));
    assert_eq!(large["createdAt"], "2023-11-14T22:13:20.000Z");
    assert_eq!(large["updatedAt"], "2023-11-14T22:13:20.039Z");
    assert!(large["bytes"].as_u64().unwrap() > 40 * 20);
    let child = &all[0];
    assert_eq!(
        (child["parentSession"].as_str(), child["seedLength"].as_u64()),
        (Some("large"), Some(1))
    );
    assert_eq!(child.get("cwd"), None);
    let children = place.ever(&["ls", "-q", "--parent", "large"]).exits(0).text();
    assert_eq!(children, "child\n");
    assert_eq!(place.ever(&["ls", "-o", "json"]).exits(0).json().as_array().unwrap().len(), 4);
}

#[test]
fn order_and_choice() {
    let place = filled();
    let ids = |args: &[&str]| -> Vec<String> {
        let args = [&["ls", "-q"], args].concat();
        place.ever(&args).exits(0).text().lines().map(str::to_owned).collect()
    };
    assert_eq!(ids(&[]), ["large", "middle", "small"], "newest first");
    assert_eq!(ids(&["--sort", "events", "-n", "2"]), ["large", "middle"]);
    assert_eq!(ids(&["--sort", "bytes", "-n", "1"]), ["large"]);
    assert_eq!(ids(&["--sort", "created"]), ["large", "middle", "small"], "equal times: by id");
    assert_eq!(ids(&["--since", "2023-11-14T22:13:20.008Z"]), ["large", "middle"]);
    assert_eq!(ids(&["--until", "2023-11-14T22:13:20.008Z"]), ["middle", "small"]);
    assert_eq!(ids(&["--since", "30d"]), Vec::<String>::new());
    place.ever(&["ls", "--since", "soon"]).exits(2);
    let text = place.ever(&["ls", "-n", "1"]).exits(0).text();
    let cells: Vec<_> = text.trim_end().split('\t').collect();
    assert_eq!((cells[0], cells[1], cells[4]), ("large", "40", "/w"));
    let table = place.ever(&["ls", "-o", "table"]).exits(0).text();
    assert!(table.starts_with("SESSION") && table.lines().count() == 4, "{table}");
}

#[test]
fn info_counts() {
    let place = filled();
    let info = place.ever(&["info", "-o", "json", "--recoveries"]).exits(0).json();
    assert_eq!((info["v"].as_u64(), info["store"].as_str()), (Some(1), Some("store")));
    assert_eq!((info["format"].as_u64(), info["sessions"].as_u64()), (Some(1), Some(3)));
    assert_eq!(info["events"], 50);
    for field in ["bytes", "reserved_bytes", "segments", "lanes"] {
        assert!(info[field].as_u64().unwrap() > 0, "{field}");
    }
    assert!(info["recoveries"].is_array());
    assert!(place.ever(&["info"]).exits(0).text().contains("sessions\t3\n"));
}
