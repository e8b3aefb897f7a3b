//! `check`, and reading what is damaged.

use crate::support::{Place, log};

/// Flips a bit in the data of the event that holds `needle`.
fn damage(place: &Place, needle: &str) {
    let needle = needle.as_bytes();
    for path in place.store_files() {
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(needle.len()).position(|w| w == needle) {
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            return;
        }
    }
    panic!("no file of the store holds {needle:?}");
}

#[test]
fn a_whole_store_is_ok() {
    let place = Place::new();
    place.write("in.jsonl", log("s-777", 100));
    place.ever(&["import", "in.jsonl"]).exits(0);
    for args in
        [vec!["check", "-o", "json"], vec!["check", "--part", "1/1", "--jobs", "2", "-o", "json"]]
    {
        let report = place.ever(&args).exits(0).json();
        assert_eq!((report["v"].as_u64(), report["ok"].as_bool()), (Some(1), Some(true)));
        assert_eq!((report["sessions"].as_u64(), report["events"].as_u64()), (Some(1), Some(100)));
        assert_eq!(report["damage"], serde_json::json!([]));
        assert!(report["segments"].as_u64().unwrap() > 0 && report["frames"].as_u64().unwrap() > 0);
        assert!(report["bytes"].as_u64().unwrap() > 0);
    }
    assert!(place.ever(&["check"]).exits(0).text().starts_with("ok: 100 events"));
    place.ever(&["check", "--quick"]).exits(0);
    place.ever(&["check", "--part", "0/7"]).exits(2);
}

#[test]
fn the_report_is_the_same_for_any_number_of_jobs() {
    let place = Place::new();
    for n in 0..6 {
        let name = format!("in-{n}.jsonl");
        place.write(&name, log(&format!("s-77{n}"), 300));
        place.ever(&["import", &name]).exits(0);
    }
    for n in 0..8 {
        let data = format!("{{\"todos\":[\"canary-{n}-end\"]}}");
        let id = format!("t-88{n}");
        place.ever(&["append", &id, "--create", "-q", "-t", "todo/write", "-d", &data]).exits(0);
    }
    for n in [1, 4, 6] {
        damage(&place, &format!("canary-{n}-end"));
    }
    let of = |args: &[&str]| place.ever(args).exits(12).text();
    let one = of(&["check", "-o", "json", "--jobs", "1"]);
    for n in [1, 4, 6] {
        let named = format!("\"kind\":\"frame\",\"sessions\":[\"t-88{n}\"],\"seqs\":[0],");
        assert!(one.contains(&named), "{one}");
    }
    for jobs in ["2", "3", "16", "1024"] {
        assert_eq!(of(&["check", "-o", "json", "--jobs", jobs]), one, "{jobs} jobs");
    }
    assert_eq!(of(&["check", "-o", "json"]), one);
    place.ever(&["check", "--jobs", "0"]).exits(2);
}

#[test]
fn damage_is_found_and_named() {
    let place = Place::new();
    for i in 0..30 {
        let data = format!("{{\"todos\":[\"canary-{i}-end\"]}}");
        place
            .ever(&["append", "s-777", "--create", "-q", "-t", "todo/write", "-d", &data])
            .exits(0);
    }
    damage(&place, "canary-17-end");
    let report = place.ever(&["check", "-o", "json"]).exits(12).json();
    assert_eq!(report["ok"], false);
    let places = report["damage"].as_array().unwrap();
    for place in places {
        assert!(place["path"].as_str().unwrap().contains(".seg"), "{place}");
        assert!(place["offset"].as_u64().is_some() && place["kind"].as_str().is_some());
        assert!(!place["message"].as_str().unwrap().is_empty());
    }
    let named = |p: &&serde_json::Value| p["sessions"] == serde_json::json!(["s-777"]);
    let lost: Vec<_> = places.iter().filter(named).map(|p| p["seqs"].clone()).collect();
    assert!(lost.contains(&serde_json::json!([17])), "{places:?}");
}

#[test]
fn what_is_whole_is_read_and_the_rest_is_named() {
    let place = Place::new();
    for i in 0..30 {
        let data = format!("{{\"todos\":[\"canary-{i}-end\"]}}");
        let args = ["append", "s-777", "--create", "-q", "-t", "todo/write", "-d", &data];
        place.ever(&args).exits(0);
    }
    damage(&place, "canary-17-end");
    let read = place.ever(&["cat", "s-777", "-o", "json"]).exits(12);
    assert_eq!(read.text().lines().count(), 29);
    assert!(!read.text().contains("canary-17-end") && read.text().contains("canary-18-end"));
    assert!(read.error()["message"].as_str().unwrap().contains("seqs 17"), "{}", read.err);
    place.ever(&["cat", "s-777@18.."]).exits(0);
    place.ever(&["export", "s-777", "--out", "out.jsonl"]).exits(12);
    assert!(!place.path("out.jsonl").exists());
}

#[test]
fn a_damaged_frame_of_an_import_costs_its_own_events_only() {
    let place = Place::new();
    place.write("in.jsonl", log("s-777", 20_000));
    place.ever(&["import", "in.jsonl"]).exits(0);
    damage(&place, "canary-5000\"");
    let read = place.ever(&["cat", "s-777", "-o", "json"]).exits(12);
    let lines = read.text().lines().count();
    assert!((19_000..20_000).contains(&lines), "{lines}");
    assert!(read.text().contains("canary-19999") && !read.text().contains("canary-5000\""));
    let message = read.error()["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with(&format!("{} events", 20_000 - lines)), "{message}");
    assert_eq!(place.ever(&["cat", "s-777@0..100"]).exits(0).text().lines().count(), 101);
}

#[test]
fn a_segment_of_another_place_is_damage_and_stays_as_it_is() {
    let place = Place::new();
    place.grow("s-1", 3);
    let lanes = place.path("store/lanes");
    std::fs::rename(lanes.join("0000"), lanes.join("0003")).unwrap();
    let strange = lanes.join("0003/0000000000000000.seg");
    let before = std::fs::read(&strange).unwrap();
    for args in [vec!["check", "-o", "json"], vec!["check", "--quick", "-o", "json"]] {
        let report = place.ever(&args).exits(12).json();
        assert_eq!(report["damage"][0]["kind"], "segment-foreign");
        assert!(
            report["damage"][0]["path"].as_str().unwrap().ends_with("0003/0000000000000000.seg")
        );
    }
    place.grow("s-2", 1);
    assert_eq!(std::fs::read(&strange).unwrap(), before);
    // Back in its place it is read again.
    std::fs::rename(lanes.join("0000"), lanes.join("0004")).ok();
    std::fs::rename(lanes.join("0003"), lanes.join("0000")).unwrap();
    assert_eq!(place.ever(&["cat", "--id", "s-1"]).exits(0).text().lines().count(), 3);
}
