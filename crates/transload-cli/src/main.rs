//! The command `transload`.

fn main() {}
