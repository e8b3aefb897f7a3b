//! What `messages`, `transcript` and `surface` share: which view is meant, and what is missing in it.

use everlog::{Session, SessionView, ViewOptions};

use crate::args::Globals;
use crate::args_view::{Unknown, ViewHow, ViewOf};
use crate::exit::{DAMAGE, Failure};
use crate::find;
use crate::naming::{self, Position};

const GAPS_SHOWN: usize = 100;

/// The options of the engine for those of the command line.
pub(super) fn options(how: ViewHow) -> ViewOptions {
    let mut options = ViewOptions::default();
    if how.raw {
        options = options.with_raw();
    }
    if how.allow_gaps {
        options = options.with_gaps();
    }
    if how.unknown == Unknown::Keep {
        options = options.with_unknown_kept();
    }
    options
}

/// The options that only say what is to be done about unknown types.
pub(super) fn unknown(what: Unknown) -> ViewOptions {
    options(ViewHow { raw: false, allow_gaps: false, unknown: what })
}

/// The session and the view that the command line names.
pub(super) fn open(globals: &Globals, of: &ViewOf) -> Result<(Session, SessionView), Failure> {
    if of.seq.is_some() && of.id.is_none() {
        return Err(Failure::usage("--seq goes with --id; write SESSION@SEQ instead"));
    }
    let (store, _) = find::open_read(globals)?;
    let (session, position) = match (&of.id, &of.target) {
        (Some(id), _) => (naming::session_by_id(&store, id)?, of.seq.map(Position::One)),
        (None, Some(target)) => naming::target(&store, target)?,
        (None, None) => return Err(Failure::usage("no session is named")),
    };
    let mut options = options(of.how);
    match position {
        None => {}
        Some(Position::One(seq)) => {
            Position::One(seq).seqs(session.next_seq())?;
            options = options.with_at(seq);
        }
        Some(_) => return Err(Failure::usage("this verb takes one event, not a range")),
    }
    let view = session.view(options)?;
    Ok((session, view))
}

/// The failure that names what is missing, when something is.
pub(super) fn missing(view: &SessionView) -> Result<(), Failure> {
    let gaps = view.gaps();
    if gaps.is_empty() {
        return Ok(());
    }
    let mut shown: Vec<String> = gaps
        .iter()
        .take(GAPS_SHOWN)
        .map(|gap| match gap.end - gap.start {
            1 => gap.start.to_string(),
            _ => format!("{}..{}", gap.start, gap.end - 1),
        })
        .collect();
    if gaps.len() > GAPS_SHOWN {
        shown.push(format!("and {} ranges more", gaps.len() - GAPS_SHOWN));
    }
    let message = format!("damaged events are left out: seqs {}", shown.join(", "));
    Err(Failure::new(DAMAGE, "corrupt", message).with_hint("run `everlog check` to see all damage"))
}

/// Seqs as a JSON array.
pub(super) fn seqs(seqs: impl Iterator<Item = u64>) -> Vec<u8> {
    crate::json_out::array(seqs.map(|seq| seq.to_string().into_bytes()))
}
