//! JSON text from typed values, by serde_json.

use serde::Serialize;

use crate::error::{Error, Result};

/// Compact JSON text of a value.
///
/// # Errors
/// `Invalid` when the value has no JSON form.
pub(crate) fn to_text<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| Error::invalid("data", e))
}
