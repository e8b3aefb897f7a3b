//! Measures the engine beside the bare operations of the same run: a Markdown table, then a line of JSON a row.
#![allow(clippy::unwrap_used, reason = "a measurement that fails has no result")]

use everlog_benches::LOAD_MAX;
use everlog_benches::config::{Config, USAGE};
use everlog_benches::measure::load;
use everlog_benches::rows::{
    Run, append, columns, data, new_store, open, open_large, procs, read, sync, transfer,
};
use everlog_benches::table::HEAD;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some(procs::CHILD) => return procs::child(&args[1..]),
        Some(open::CHILD) => return open::child(&args[1..]),
        Some(open_large::CHILD) => return open_large::child(&args[1..]),
        Some("--help" | "-h") => return println!("{USAGE}"),
        _ => {}
    }
    let config = match Config::parse(&args) {
        Ok(config) => config,
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(2);
        }
    };
    let c = &config;
    println!(
        "{} sessions, {} events, seed {}, {} rounds; load {:.2} at the start; above 3 nothing is claimed\n",
        c.sessions,
        c.events,
        c.seed,
        c.rounds,
        load()
    );
    let rows = measure(config);
    println!("{HEAD}");
    rows.iter().for_each(|r| println!("{}", r.markdown()));
    println!("\nload {:.2} at the end\n", load());
    rows.iter().for_each(|r| println!("{}", r.json()));
}

fn measure(config: Config) -> Vec<everlog_benches::table::Row> {
    let calm = load() <= LOAD_MAX;
    let mut run = Run::begin(config);
    if run.config.wants("append") {
        append::run(&mut run);
    }
    if run.config.wants("columns") {
        let logs = run.config.logs.as_deref().map(data::logs_of);
        let logs = logs.unwrap_or_else(|| data::logs(&run.config));
        columns::run(&mut run, &logs);
    }
    let fleet_parts = ["read", "transfer", "disk", "open"];
    if fleet_parts.iter().any(|p| run.config.wants(p)) {
        let logs = data::logs(&run.config);
        let path = run.path();
        let store = new_store(&path);
        transfer::import_all(&store, &logs, false);
        store.close().unwrap();
        if run.config.wants("read") {
            read::run(&mut run, &path);
        }
        if run.config.wants("transfer") {
            transfer::run(&mut run, &path, &logs);
        }
        if run.config.wants("disk") {
            transfer::disk(&mut run, &path, &logs);
        }
        drop(logs);
        if run.config.wants("open") {
            open::run(&mut run, &path);
        }
    }
    if run.config.wants("open-large") {
        open_large::run(&mut run);
    }
    // Last: threads and processes that wait for the disk count as load.
    if run.config.wants("sync") {
        sync::run(&mut run);
    }
    if run.config.wants("procs") {
        if calm {
            settle();
        }
        procs::run(&mut run);
    }
    run.end()
}

/// Waits until what this program did to the load has gone by.
fn settle() {
    for _ in 0..90 {
        if load() <= LOAD_MAX {
            return;
        }
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}
