//! Stubs from the contract: TANDEMQ_DESCRIPTORS names a compiled set of its files, so that no protoc is needed here.
use prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-env-changed=TANDEMQ_DESCRIPTORS");
    let path = std::env::var("TANDEMQ_DESCRIPTORS")?;
    println!("cargo:rerun-if-changed={path}");
    let files = prost_types::FileDescriptorSet::decode(&*std::fs::read(path)?)?;
    tonic_prost_build::configure().build_server(false).compile_fds(files)?;
    Ok(())
}
