<<<<<<< HEAD
//! Test tools of Everlog.

pub mod sim;
=======
//! Test tools of Everlog: generators, a simulated disk, models. Never part of a build that keeps data.

pub mod fleet;
pub mod rng;
pub mod samples;
>>>>>>> h5
