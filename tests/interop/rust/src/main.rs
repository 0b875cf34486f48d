//! Does what a script says; ends with exit code 1 where a client would have seen something wrong, 2 for a wrong script.
//!
//!     client <script> <address> <run>
mod client;
mod script;
pub mod v1 {
    tonic::include_proto!("tandemq.v1");
}

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;

use client::{require, Client, Done, Queue};
use prost::Message;
use script::Step;
use tonic::Status;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a message that another implementation has written.
fn decode(folder: &Path, step: &Step) -> Done {
    let kind = step.get("message");
    let data = std::fs::read(folder.join("golden").join(format!("{kind}.binpb")))?;
    let bad = |error: prost::DecodeError| Status::data_loss(error.to_string());
    let found = match kind {
        "EnqueueRequest" => {
            let m = v1::EnqueueRequest::decode(&*data).map_err(bad)?;
            let first = &m.messages[0];
            let Some(v1::property_value::Value::Text(name)) = &first.properties["name"].value else { return require(false, m) };
            let Some(v1::property_value::Value::Integer(level)) = first.properties["level"].value else { return require(false, m) };
            let (ttl, count) = (first.ttl.unwrap_or_default().seconds, m.messages.len());
            format!("{},{},{count},{},{},{ttl},{name},{level}", m.queue, hex(&m.request_id), hex(&first.payload), first.priority())
        }
        "DequeueResponse" => {
            let m = v1::DequeueResponse::decode(&*data).map_err(bad)?;
            let (header, first) = (m.header.unwrap_or_default(), &m.messages[0]);
            let message = first.message.clone().unwrap_or_default();
            let (epoch, copies, body) = (header.epoch, header.copies, hex(&message.payload));
            format!("{},{epoch},{copies},{},{body},{},{}", m.lease_id, first.index, first.delivery_count, message.content_type)
        }
        _ => {
            let m = v1::ProduceResponse::decode(&*data).map_err(bad)?;
            let Some(v1::produce_response::Frame::Ack(ack)) = &m.frame else { return require(false, m) };
            let last = &m.more_acks[m.more_acks.len() - 1];
            let reason = last.errors[0].error.clone().unwrap_or_default().reason;
            format!("{},{},{},{reason},{}", ack.first_index, m.more_acks.len(), last.first_sequence, last.count)
        }
    };
    require(found == step.get("facts"), found)
}

async fn act(client: &mut Client, queue: &mut Queue, step: &Step, folder: &Path) -> Done {
    let n = |key| step.number(key);
    match step.verb.as_str() {
        "decode" => decode(folder, step),
        "create" => client.create(queue, step.get("type")).await,
        "send" => client.send(queue, n("count")).await,
        "stream" => client.stream(queue, n("count"), n("batch")).await,
        "browse" => client.browse(queue, n("first"), n("count")).await,
        "receive" => client.receive(queue, n("count")).await,
        "settle" => client.settle(queue).await,
        "consume" => client.consume(queue, n("count")).await,
        "reply" => client.reply(queue).await,
        "answers" => client.answers(queue, n("count")).await,
        "expect" => client.expect(queue, n("length")).await,
        "await" => {
            let read = tokio::task::spawn_blocking(|| std::io::stdin().lines().next().transpose());
            let answer = read.await.expect("a thread")?.unwrap_or_default();
            require(answer == "done", answer)
        }
        asked => {
            println!("@{asked}"); // of who runs this; the next steps do not wait for it
            Ok(())
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, path, address, run] = arguments.as_slice() else {
        eprintln!("client <script> <address> <run>");
        return ExitCode::from(2);
    };
    let path = Path::new(path);
    let steps = match script::parse(path) {
        Ok(steps) => steps,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    let mut client = Client::connect(address).expect("an address");
    let mut queues: HashMap<&str, Queue> = HashMap::new();
    for step in &steps {
        let name = step.get("queue");
        let queue = queues.entry(name).or_insert_with(|| Queue::new(format!("{run}/{name}")));
        if let Err(status) = act(&mut client, queue, step, path.parent().unwrap_or(Path::new("."))).await {
            eprintln!("{}: {}: {status:?}", step.at, step.verb);
            return ExitCode::FAILURE;
        }
    }
    let (sent, taken) = queues.values().fold((0, 0), |(sent, taken), each| (sent + each.sent, taken + each.taken));
    println!("steps={} sent={sent} taken={taken} repeated={}", steps.len(), client.repeated);
    ExitCode::SUCCESS
}
