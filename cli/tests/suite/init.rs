//! `init`, and finding the store.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Place, mode};

#[test]
fn a_store_is_made_once() {
    let place = Place::bare();
    let made = place.run(&["init", "s", "-o", "json"]).exits(0).json();
    assert_eq!((made["v"].as_u64(), made["format"].as_u64()), (Some(1), Some(1)));
    assert_eq!(made["created"], true);
    assert_eq!(mode(&place.path("s")), 0o700);
    assert_eq!(place.run(&["init", "s", "-o", "json"]).exits(1).error()["kind"], "exists");
    assert_eq!(
        place.run(&["init", "s", "--if-missing", "-o", "json"]).exits(0).json()["created"],
        false
    );
    place.run(&["init", "s", "-s", "t"]).exits(2);
    // The umask narrows the modes, so it is set to nothing here.
    let shell = "umask 0; exec \"$0\" init s2 --level sync --shared=group";
    let made = std::process::Command::new("sh")
        .args(["-c", shell, env!("CARGO_BIN_EXE_everlog")])
        .current_dir(place.path("."))
        .status();
    assert!(made.unwrap().success());
    assert_eq!(place.run(&["-s", "s2", "info", "-o", "json"]).exits(0).json()["level"], "sync");
    assert_eq!(mode(&place.path("s2")) & 0o777, 0o770);
}

#[test]
fn the_store_is_found_in_the_order_of_the_contract() {
    let place = Place::bare();
    let none = place.run(&["ls", "-o", "jsonl"]).exits(10);
    assert_eq!(none.error()["kind"], "no-store");
    assert!(none.error()["hint"].as_str().unwrap().contains("everlog init"));

    place.run(&["init", "home/.local/share/everlog"]).exits(0);
    let found = |command: &mut std::process::Command| -> String {
        let done = command.output().unwrap();
        let info: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        info["store"].as_str().unwrap().to_owned()
    };
    let info = ["info", "-o", "json"];
    assert!(found(&mut place.command(&info)).ends_with("home/.local/share/everlog"));

    place.run(&["init", "xdg/everlog"]).exits(0);
    let xdg = place.path("xdg");
    assert!(found(place.command(&info).env("XDG_DATA_HOME", &xdg)).ends_with("xdg/everlog"));

    place.run(&["init"]).exits(0);
    std::fs::create_dir_all(place.path("a/b")).unwrap();
    assert!(found(place.command(&info).current_dir(place.path("a/b"))).ends_with("/.everlog"));

    place.run(&["init", "named"]).exits(0);
    assert_eq!(found(place.command(&info).env("EVERLOG_STORE", "named")), "named");
    assert_eq!(
        found(
            place
                .command(&["-s", "xdg/everlog", "info", "-o", "json"])
                .env("EVERLOG_STORE", "named")
        ),
        "xdg/everlog"
    );
    // A store that is named but missing is not replaced by another one.
    let missing = place.run(&["-s", "nowhere", "info"]).exits(10);
    assert!(missing.err.contains("nowhere"), "{}", missing.err);
}

#[test]
fn a_folder_that_is_there_is_used_or_left_alone() {
    let place = Place::bare();
    for (mode, code) in [(0o700, 0), (0o755, 0), (0o777, 1), (0o770, 1)] {
        let name = format!("m{mode:o}");
        let path = place.path(&name);
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let done = place.run(&["init", &name, "-o", "json"]).exits(code);
        if code == 0 {
            place.run(&["-s", &name, "append", "s-1", "--create", "-t", "a", "-d", "1"]).exits(0);
        } else {
            assert_eq!(done.error()["kind"], "insecure-permissions");
            assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0, "{name}: something was made");
            place.run(&["init", &name, "--if-missing"]).exits(1);
        }
    }
}
