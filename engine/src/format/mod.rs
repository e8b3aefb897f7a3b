//! The byte layout of version 1, as docs/format.md specifies it: constants, fields, encoders and decoders.
//!
//! # Invariants
//! F1. Pure: no file, no clock. A decoder reads a slice, never panics, and never allocates more than the slice can hold.
//! F2. A length or count is used only after the checksum over it held and after it was compared with what is left.
//! F3. Integers are little-endian; reserved bytes are written as zero and checked to be zero.
//! F4. The field tables here are compared with docs/format.md by a test.

pub(crate) mod codec;
pub(crate) mod columns;
#[cfg(test)]
mod columns_tests;
pub(crate) mod control;
pub(crate) mod event_types;
pub(crate) mod events;
pub(crate) mod frame;
pub(crate) mod index_frame;
pub(crate) mod lock_record;
pub(crate) mod name;
pub(crate) mod segment;
pub(crate) mod slot;
#[cfg(test)]
mod spec_tests;
pub(crate) mod store_file;

/// Highest format that this code reads and the one it writes.
pub(crate) const FORMAT_MAJOR: u16 = 1;
/// Minor number that this code writes.
pub(crate) const FORMAT_MINOR: u16 = 0;

/// Why bytes are not what they should be. The caller adds path and offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// All bytes are zero: never written.
    Zero,
    /// Fewer bytes than the smallest form.
    Short,
    /// The magic number is another.
    Magic,
    /// A checksum does not hold.
    Checksum,
    /// Written by a newer format.
    Newer,
    /// Another store, lane or number than asked for.
    Foreign,
    /// A field breaks a rule of the format; the name of the field.
    Field(&'static str),
}

impl Fault {
    /// What is wrong, as a clause for a message.
    pub(crate) const fn clause(self) -> &'static str {
        match self {
            Self::Zero => "the bytes are zero",
            Self::Short => "the bytes end too early",
            Self::Magic => "the magic number is another",
            Self::Checksum => "the checksum does not hold",
            Self::Newer => "it was written by a newer format",
            Self::Foreign => "it belongs to another store or place",
            Self::Field(name) => name,
        }
    }
}

/// Result of a decoder.
pub(crate) type Decoded<T> = std::result::Result<T, Fault>;

/// One row of a field table: offset, size, name.
#[cfg(test)]
pub(crate) type FieldRow = (usize, usize, &'static str);
