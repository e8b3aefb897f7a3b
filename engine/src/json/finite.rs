//! A pass over a value that finds what JSON cannot hold, before any text is made of it.
//!
//! # Invariants
//! Fi1. NaN, infinities and -0.0 are refused wherever they stand, keys of maps included: serde_json would write `null`, or
//!      a zero that comes back as another value in ECMAScript.
//! Fi2. Nothing is built or kept: the pass costs one more walk over the value.

use std::fmt;

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// Why a value has no JSON form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NoJson(String);

impl fmt::Display for NoJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoJson {}

impl serde::ser::Error for NoJson {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self(reason.to_string())
    }
}

type Checked = Result<(), NoJson>;

/// Walks over a value; fails at the first number that JSON cannot hold.
///
/// # Errors
/// What it found, or what the value's own `Serialize` says.
pub(super) fn check<T: Serialize + ?Sized>(value: &T) -> Checked {
    value.serialize(Check)
}

fn float(value: f64) -> Checked {
    let what = if value.is_nan() {
        "NaN"
    } else if value.is_infinite() {
        "an infinity"
    } else if value == 0.0 && value.is_sign_negative() {
        "-0.0"
    } else {
        return Ok(());
    };
    Err(NoJson::custom(format_args!("{what} has no JSON form; store null, 0 or a string instead")))
}

/// The serializer that keeps nothing.
#[derive(Clone, Copy, Debug)]
struct Check;

macro_rules! nothing {
    ($($method:ident($ty:ty))*) => {$(
        fn $method(self, _value: $ty) -> Checked {
            Ok(())
        }
    )*};
}

impl Serializer for Check {
    type Ok = ();
    type Error = NoJson;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    nothing! {
        serialize_bool(bool)
        serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64) serialize_i128(i128)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64) serialize_u128(u128)
        serialize_char(char) serialize_str(&str) serialize_bytes(&[u8]) serialize_unit_struct(&'static str)
    }

    fn serialize_f32(self, value: f32) -> Checked {
        float(f64::from(value))
    }

    fn serialize_f64(self, value: f64) -> Checked {
        float(value)
    }

    fn serialize_none(self) -> Checked {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Checked {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Checked {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Checked {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, v: &T) -> Checked {
        v.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Checked {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, NoJson> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, NoJson> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, NoJson> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, NoJson> {
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, NoJson> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, NoJson> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, NoJson> {
        Ok(self)
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, _: &T) -> Checked {
        Ok(())
    }
}

macro_rules! walk {
    ($($kind:ident $method:ident)*) => {$(
        impl $kind for Check {
            type Ok = ();
            type Error = NoJson;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Checked {
                value.serialize(*self)
            }

            fn end(self) -> Checked {
                Ok(())
            }
        }
    )*};
}

walk! {
    SerializeSeq serialize_element
    SerializeTuple serialize_element
    SerializeTupleStruct serialize_field
    SerializeTupleVariant serialize_field
}

macro_rules! walk_fields {
    ($($kind:ident)*) => {$(
        impl $kind for Check {
            type Ok = ();
            type Error = NoJson;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, v: &T) -> Checked {
                v.serialize(*self)
            }

            fn end(self) -> Checked {
                Ok(())
            }
        }
    )*};
}

walk_fields! { SerializeStruct SerializeStructVariant }

impl SerializeMap for Check {
    type Ok = ();
    type Error = NoJson;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Checked {
        key.serialize(*self)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Checked {
        value.serialize(*self)
    }

    fn end(self) -> Checked {
        Ok(())
    }
}
