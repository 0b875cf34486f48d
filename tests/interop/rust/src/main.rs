//! Does what it is told, a step a line on stdin, and answers each with a line: ok, or what it found. Ends with exit code 1
//! where a client would have seen something wrong.
//!
//!     client <address>
mod client;
pub mod v1 {
    tonic::include_proto!("tandemq.v1");
}

use std::collections::HashMap;
use std::process::ExitCode;

use client::{Client, Done, Queue};
use prost::Message;
use tokio::io::{AsyncBufReadExt, BufReader};
use tonic::Status;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a message that another implementation has written.
fn decode(kind: &str, path: &str) -> Done<String> {
    let data = std::fs::read(path)?;
    let bad = |error: prost::DecodeError| Status::data_loss(error.to_string());
    let other = || Status::data_loss("another kind of value");
    Ok(match kind {
        "EnqueueRequest" => {
            let m = v1::EnqueueRequest::decode(&*data).map_err(bad)?;
            let first = &m.messages[0];
            let Some(v1::property_value::Value::Text(name)) = &first.properties["name"].value else { return Err(other()) };
            let Some(v1::property_value::Value::Integer(level)) = first.properties["level"].value else { return Err(other()) };
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
            let Some(v1::produce_response::Frame::Ack(ack)) = &m.frame else { return Err(other()) };
            let last = &m.more_acks[m.more_acks.len() - 1];
            let reason = last.errors[0].error.clone().unwrap_or_default().reason;
            format!("{},{},{},{reason},{}", ack.first_index, m.more_acks.len(), last.first_sequence, last.count)
        }
    })
}

async fn act(client: &mut Client, queue: &mut Queue, verb: &str, values: &[&str]) -> Done {
    let n = |place: usize| values[place].parse::<u64>().map_err(|error| Status::invalid_argument(error.to_string()));
    match verb {
        "create" => client.create(queue, values[0]).await,
        "send" => client.send(queue, n(0)?).await,
        "stream" => client.stream(queue, n(0)?, n(1)?).await,
        "browse" => client.browse(queue, n(0)?, n(1)?).await,
        "receive" => client.receive(queue, n(0)?).await,
        "settle" => client.settle(queue).await,
        "consume" => client.consume(queue, n(0)?).await,
        "reply" => client.reply(queue).await,
        "answers" => client.answers(queue, n(0)?).await,
        "expect" => client.expect(queue, n(0)?).await,
        other => Err(Status::unimplemented(format!("unknown verb {other}"))),
    }
}

async fn answer(address: &str) -> Done {
    let mut client = Client::connect(address).map_err(|error| Status::invalid_argument(error.to_string()))?;
    let mut queues: HashMap<String, Queue> = HashMap::new();
    let mut steps = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = steps.next_line().await? {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "decode" {
            println!("ok {}", decode(words[1], words[2])?);
        } else {
            let queue = queues.entry(words[1].into()).or_insert_with(|| Queue::new(words[1].into()));
            act(&mut client, queue, words[0], &words[2..]).await?;
            println!("ok");
        }
    }
    let (sent, taken) = queues.values().fold((0, 0), |(sent, taken), each| (sent + each.sent, taken + each.taken));
    println!("ok sent={sent} taken={taken} repeated={}", client.repeated);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match answer(&std::env::args().nth(1).expect("an address")).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(status) => {
            eprintln!("{status:?}");
            ExitCode::FAILURE
        }
    }
}
