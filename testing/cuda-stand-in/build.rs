//! Gives the library the name under which the driver of CUDA is looked for.
#![allow(clippy::print_stdout, reason = "it is how a build script speaks to cargo")]

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
