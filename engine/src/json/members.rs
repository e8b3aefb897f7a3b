//! Iterators over the members of an object and the elements of an array, as raw text.
//!
//! # Invariants
//! M1. Text is checked on the way; at the first fault the iterator ends and keeps the fault.
//! M2. What follows the object or array is not looked at.

use super::JsonFault;
use super::scan::{Scan, Step};
use super::string::unescape;

/// Members of an object in the order of the text: key between its quotes with escapes kept, and the
/// text of the value without whitespace around it.
pub(crate) struct Members<'a> {
    parts: Parts<'a>,
}

/// Elements of an array in order, as text without whitespace around it.
pub(crate) struct Elements<'a> {
    parts: Parts<'a>,
}

struct Parts<'a> {
    text: &'a [u8],
    scan: Scan<'a>,
    first: bool,
    done: bool,
    fault: Option<JsonFault>,
}

impl<'a> Parts<'a> {
    fn new(text: &'a [u8], open: u8, wanted: &'static str) -> Self {
        let mut scan = Scan::new(text, 0, usize::MAX);
        scan.skip_space();
        let fault = scan.enter(open, wanted).err().map(|fault| *fault);
        Self { text, scan, first: true, done: fault.is_some(), fault }
    }

    fn end<T>(&mut self, fault: Option<JsonFault>) -> Option<T> {
        self.done = true;
        self.fault = fault;
        None
    }

    fn value(&mut self) -> Step<&'a [u8]> {
        let start = self.scan.pos;
        self.scan.value()?;
        Ok(self.text.get(start..self.scan.pos).unwrap_or_default())
    }
}

impl<'a> Members<'a> {
    /// Starts at the first member. On anything but an object there is none.
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { parts: Parts::new(text, b'{', "a JSON object was expected") }
    }

    /// Why the iterator ended before the end of the object.
    #[cfg(test)]
    pub(crate) fn fault(&self) -> Option<JsonFault> {
        self.parts.fault
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let parts = &mut self.parts;
        if parts.done {
            return None;
        }
        let key = match parts.scan.next_key(std::mem::take(&mut parts.first)) {
            Ok(Some(key)) => key,
            Ok(None) => return parts.end(None),
            Err(fault) => return parts.end(Some(*fault)),
        };
        match parts.value() {
            Ok(value) => Some((key, value)),
            Err(fault) => parts.end(Some(*fault)),
        }
    }
}

impl<'a> Elements<'a> {
    /// Starts at the first element. On anything but an array there is none.
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { parts: Parts::new(text, b'[', "a JSON array was expected") }
    }

    /// Why the iterator ended before the end of the array.
    #[cfg(test)]
    pub(crate) fn fault(&self) -> Option<JsonFault> {
        self.parts.fault
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        let parts = &mut self.parts;
        if parts.done {
            return None;
        }
        match parts.scan.next_element(std::mem::take(&mut parts.first)) {
            Ok(true) => {}
            Ok(false) => return parts.end(None),
            Err(fault) => return parts.end(Some(*fault)),
        }
        match parts.value() {
            Ok(value) => Some(value),
            Err(fault) => parts.end(Some(*fault)),
        }
    }
}

/// The value of the member with this decoded key (WTF-8); the last one when the key stands twice.
///
/// Nothing when `text` is no object or lacks the key.
pub(crate) fn member<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let mut found = None;
    for (raw, value) in Members::new(text) {
        if raw == key || (raw.contains(&b'\\') && unescape(raw) == key) {
            found = Some(value);
        }
    }
    found
}
