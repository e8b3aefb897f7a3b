//! `info`: facts about the store.

use std::path::Path;

use everlog::StoreInfo;

use crate::args::{Globals, Info, Shape};
use crate::exit::Failure;
use crate::json_out::{Object, array};
use crate::out::Out;
use crate::{find, text, time};

pub(crate) fn run(globals: &Globals, args: &Info) -> Result<(), Failure> {
    let (store, path) = find::open_read(globals)?;
    let info = store.info()?;
    let recoveries = if args.recoveries { Some(store.recoveries()?) } else { None };
    let mut out = Out::new();
    match args.output {
        Some(Shape::Json | Shape::Jsonl) => {
            out.line(object(&path, &info, recoveries.as_deref()))?
        }
        _ => print(&mut out, &path, &info, recoveries.as_deref())?,
    }
    out.finish()
}

fn object(path: &Path, info: &StoreInfo, recoveries: Option<&[String]>) -> Vec<u8> {
    let object = Object::new()
        .text("store", path.as_os_str().as_encoded_bytes())
        .text("storeId", super::hex(&info.store_id))
        .number("format", u64::from(info.format))
        .time("createdAt", info.created_ms)
        .text("level", info.default_level.name())
        .number("sessions", info.sessions)
        .number("events", info.events)
        .number("bytes", info.bytes)
        .number("reserved_bytes", info.reserved_bytes)
        .number("segments", info.segments)
        .number("lanes", info.lanes);
    match recoveries {
        Some(lines) => {
            object.raw("recoveries", &array(lines.iter().map(|l| l.trim().into()))).end()
        }
        None => object.end(),
    }
}

fn print(
    out: &mut Out,
    path: &Path,
    info: &StoreInfo,
    recoveries: Option<&[String]>,
) -> Result<(), Failure> {
    let created = time::rfc3339(info.created_ms).unwrap_or_else(|| info.created_ms.to_string());
    let facts = [
        ("store", text::line(path.as_os_str().as_encoded_bytes())),
        ("id", super::hex(&info.store_id)),
        ("format", info.format.to_string()),
        ("created", created),
        ("level", info.default_level.name().to_owned()),
        ("sessions", text::count(info.sessions)),
        ("events", text::count(info.events)),
        ("size", text::size(info.bytes)),
        ("reserved", text::size(info.reserved_bytes)),
        ("segments", text::count(info.segments)),
        ("lanes", text::count(info.lanes)),
    ];
    for (name, value) in facts {
        out.line(format!("{name}\t{value}"))?;
    }
    for line in recoveries.unwrap_or_default() {
        out.line(format!("recovery\t{}", text::line(line.trim().as_bytes())))?;
    }
    Ok(())
}
