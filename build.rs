//! The build generates the messages of `schemas/*.proto` in Rust alone, without protoc. A client needs none of them.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=schemas/tickwheel.proto");
    #[cfg(feature = "queue")]
    {
        let files = protox::compile(["schemas/tickwheel.proto"], ["schemas"])?;
        prost_build::Config::new().bytes(["."]).compile_fds(files)?;
    }
    Ok(())
}
