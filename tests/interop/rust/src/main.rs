//! Does what it is told, a step a line on stdin: prints what it sees, and then ok. tests/interop/README.md has the lines.
//!
//!     client <address>
mod client;
mod copies;
mod golden;
mod streams;
pub mod v1 {
    tonic::include_proto!("tandemq.v1");
}

use std::error::Error;

use client::Client;
use tokio::io::{AsyncBufReadExt, BufReader};

async fn act(client: &mut Client, verb: &str, name: String, values: &[&str]) -> Result<(), Box<dyn Error>> {
    let number = |place: usize| values[place].parse::<u64>();
    match verb {
        "decode" => golden::decode(&name, values[0])?,
        "create" => client.create(name, values[0]).await?,
        "send" => client.send(name, number(0)?, number(1)?).await?,
        "stream" => client.stream(name, number(0)?, number(1)?, number(2)?).await?,
        "browse" => client.browse(name).await?,
        "receive" => client.receive(name, number(0)?).await?,
        "settle" => client.settle(name).await?,
        "consume" => client.consume(name, number(0)?).await?,
        "unit" => client.unit(name, &[values[0].into(), values[1].into()]).await?,
        "reply" => client.reply(name).await?,
        "answers" => client.answers(name).await?,
        "pairwise" => client.pairwise(name).await?,
        "ask" => client.ask(name, number(0)?, number(1)?).await?,
        "once" => client.once().await?,
        "length" => client.length(name).await?,
        other => return Err(format!("unknown verb {other}").into()),
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let address = arguments.get(1).ok_or("an address is needed")?;
    let mut client = Client::connect(address, arguments.get(2).map(String::as_str))?;
    let mut steps = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = steps.next_line().await? {
        let words: Vec<&str> = line.split(' ').collect();
        act(&mut client, words[0], words[1].into(), &words[2..]).await?;
        println!("ok");
    }
    Ok(())
}
