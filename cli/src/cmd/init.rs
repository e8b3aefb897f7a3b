//! `init`: makes a store.

use std::path::{Path, PathBuf};

use everlog::vfs::Access;
use everlog::{ErrorKind, Level, Store, StoreOptions};

use crate::args::{DurableLevel, Globals, Init, Shape};
use crate::exit::Failure;
use crate::json_out::Object;
use crate::out::Out;
use crate::{find, text};

pub(crate) fn run(globals: &Globals, args: &Init) -> Result<(), Failure> {
    if globals.store.is_some() && args.path.is_some() {
        return Err(Failure::usage(
            "the place of the store is named twice: by --store and by PATH",
        ));
    }
    let here = || find::named(globals).unwrap_or_else(|| PathBuf::from(".everlog"));
    let path = args.path.clone().unwrap_or_else(here);
    let level = match args.level {
        DurableLevel::Os => Level::Os,
        DurableLevel::Sync => Level::Sync,
    };
    let access = if args.shared.is_some() { Access::Group } else { Access::Private };
    let options =
        StoreOptions::default().with_label("everlog init").with_level(level).with_access(access);
    let (store, created) = match Store::create(&path, options) {
        Ok(store) => (store, true),
        Err(e) if e.kind() == ErrorKind::Exists && args.if_missing => {
            (Store::open(&path, StoreOptions::default().with_read_only())?, false)
        }
        Err(e) => return Err(with_advice(e)),
    };
    let id = store.id();
    store.close()?;
    report(globals, args, &path, &id, created)
}

fn with_advice(error: everlog::Error) -> Failure {
    let exists = error.kind() == ErrorKind::Exists;
    let failure = Failure::from(error);
    if exists {
        failure.with_hint("use the store that is there, or pass --if-missing")
    } else {
        failure
    }
}

fn report(
    globals: &Globals,
    args: &Init,
    path: &Path,
    id: &[u8],
    created: bool,
) -> Result<(), Failure> {
    let shown = path.as_os_str().as_encoded_bytes();
    let mut out = Out::new();
    if matches!(args.output, Some(Shape::Json | Shape::Jsonl)) {
        let object = Object::new().text("store", shown).text("storeId", super::hex(id));
        out.line(object.number("format", 1).flag("created", created).end())?;
    } else if !globals.quiet {
        let what = if created { "created store" } else { "there is a store already:" };
        out.line(format!("{what} {}", text::line(shown)))?;
    }
    out.finish()
}
