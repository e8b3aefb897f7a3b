//! Segments that a hostile hand made: every checksum holds, the contents lie.
