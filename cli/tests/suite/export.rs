//! `export`: bytes that equal the input, files that appear whole, names that stay in their folder.

use crate::support::{Place, log, mode, os};

#[test]
fn what_went_in_comes_out() {
    let place = Place::new();
    place.write("in.jsonl", log("s-777", 50));
    place.ever(&["import", "in.jsonl"]).exits(0);
    for args in
        [vec!["export", "s-777"], vec!["export", "--id", "s-777", "--format", "dsh", "--out", "-"]]
    {
        assert_eq!(place.ever(&args).exits(0).text(), log("s-777", 50));
    }
    place.ever(&["export", "s-777", "--out", "out.jsonl"]).exits(0);
    assert_eq!(std::fs::read_to_string(place.path("out.jsonl")).unwrap(), log("s-777", 50));
    assert_eq!(mode(&place.path("out.jsonl")), 0o600);
    place.ever(&["export"]).exits(2);
    place.ever(&["export", "nothing"]).exits(1);
}

#[test]
fn runs_of_chunks_can_be_packed() {
    let place = Place::new();
    let mut text = log("s-777", 0);
    for seq in 0..5 {
        text.push_str(&format!(
            "{{\"type\":\"assistant/chunk\",\"seq\":{seq},\"time\":{},\"data\":{{\"turn\":1,\"step\":1,\"chunk\":{{\"type\":\"text-delta\",\"index\":0,\"text\":\"t{seq}\"}}}}}}\n",
            100 + seq
        ));
    }
    place.write("in.jsonl", &text);
    place.ever(&["import", "in.jsonl"]).exits(0);
    assert_eq!(place.ever(&["export", "s-777"]).exits(0).text(), text);
    let packed = place.ever(&["export", "s-777", "--format", "dsh-packed"]).exits(0).text();
    assert!(packed.contains("\"type\":\"text-chunks\"") && packed.lines().count() == 2, "{packed}");
    let again =
        place.feed(&["import", "-", "--id-prefix", "x", "-o", "jsonl"], packed).exits(0).jsonl();
    assert_eq!(again[0]["stored"], 5);
}

#[test]
fn nothing_is_overwritten_without_force() {
    let place = Place::new();
    place.grow("s-777", 2);
    let there = place.write("out.jsonl", "mine");
    let refused = place.ever(&["export", "s-777", "--out", "out.jsonl", "-o", "json"]).exits(1);
    assert_eq!(refused.error()["kind"], "exists");
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "mine");
    place.ever(&["export", "s-777", "--out", "out.jsonl", "--force"]).exits(0);
    assert_ne!(std::fs::read_to_string(&there).unwrap(), "mine");
    let link = place.path("link.jsonl");
    std::os::unix::fs::symlink(place.write("target", "far"), &link).unwrap();
    place.ever(&["export", "s-777", "--out", "link.jsonl", "--force"]).exits(1);
    place.ever(&["export", "s-777", "--out", "/dev/full", "--force"]).exits(1);
    assert_eq!(std::fs::read_to_string(place.path("target")).unwrap(), "far");
    let left: Vec<_> =
        std::fs::read_dir(place.path(".")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|n| n.to_string_lossy().starts_with(".tmp")), "{left:?}");
}

#[test]
fn a_folder_gets_one_harmless_name_a_session() {
    let place = Place::new();
    let ids: [&[u8]; 7] = [b"../../x", b"/etc/x", b"con", b"CON", b"\xed\xa0\x80", b".", b"plain"];
    for id in ids {
        place.grow(os(id), 1);
    }
    place.ever(&["export", "--all"]).exits(2);
    place.ever(&["export", "--all", "--out", "logs", "--jobs", "3"]).exits(0);
    let names: Vec<String> = std::fs::read_dir(place.path("logs"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), ids.len(), "{names:?}");
    for name in &names {
        let stem = name.strip_suffix(".jsonl").unwrap();
        assert!(stem.bytes().all(|b| b.is_ascii_alphanumeric() || b"_%-".contains(&b)), "{name}");
        assert_eq!(mode(&place.path("logs").join(name)), 0o600);
    }
    assert_eq!(mode(&place.path("logs")), 0o700);
    place.ever(&["export", "--all", "--out", "logs"]).exits(1);
    place.ever(&["export", "--all", "--out", "logs", "--force"]).exits(0);
    // The ids are inside the files: they come back from there.
    place.run(&["init", "second"]).exits(0);
    place.run(&["-s", "second", "import", "logs"]).exits(0);
    let listed =
        |store: &str| place.run(&["-s", store, "ls", "-q", "--sort", "id"]).exits(0).text();
    assert_eq!(listed("second"), listed("store"));
}

#[test]
fn all_of_a_store_whose_damage_may_hide_sessions_is_not_all() {
    let place = Place::new();
    place.grow("s-1", 3);
    place.ever(&["export", "--all", "--out", "whole"]).exits(0);
    assert_eq!(place.ever(&["ls", "-o", "json"]).exits(0).err, "");
    let segment = place.path("store/lanes/0000/0000000000000000.seg");
    let bytes = std::fs::read(&segment).unwrap();
    std::fs::write(&segment, bytes.get(..5000).unwrap()).unwrap();
    place.ever(&["export", "--all", "--out", "cut"]).exits(12);
    std::fs::rename(&segment, place.path("aside")).unwrap();
    for args in [vec!["export", "--all", "--out", "part"], vec!["export", "--all"]] {
        assert!(place.ever(&args).exits(12).err.contains("sessions may be missing"));
    }
    assert!(place.ever(&["ls"]).exits(0).err.starts_with("warning: "));
    let listed = place.ever(&["ls", "-o", "json"]).exits(0);
    assert_eq!(
        (listed.json().as_array().unwrap().len(), &listed.error()["kind"]),
        (0, &"corrupt".into())
    );
}

#[test]
fn sessions_that_are_not_exported_are_objects_where_objects_are_asked_for() {
    let place = Place::new();
    place.grow("s-1", 1);
    place.grow("s-2", 1);
    place.ever(&["export", "s-1", "s-2", "--out", "out"]).exits(0);
    let again = place.ever(&["export", "s-1", "s-2", "--out", "out", "-o", "json"]).exits(1);
    let kinds: Vec<String> = (again.err.lines())
        .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap())
        .map(|v| v["error"]["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["exists", "exists", "failed"]);
}
