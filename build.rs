//! Generates the messages of `schemas/*.proto`, in Rust alone: nobody needs protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=schemas/tickwheel.proto");
    let files = protox::compile(["schemas/tickwheel.proto"], ["schemas"])?;
    prost_build::Config::new().bytes(["."]).compile_fds(files)?;
    Ok(())
}
