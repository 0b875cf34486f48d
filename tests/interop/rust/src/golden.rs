//! Reads messages that another implementation has written.
use prost::Message;

use crate::v1::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn decode(kind: &str, path: &str) -> Result<(), Box<dyn std::error::Error>> {
    let data = std::fs::read(path)?;
    let facts = match kind {
        "EnqueueRequest" => {
            let m = EnqueueRequest::decode(&*data)?;
            let (first, count) = (&m.messages[0], m.messages.len());
            let Some(property_value::Value::Text(name)) = &first.properties["name"].value else {
                return Err("name".into());
            };
            let Some(property_value::Value::Integer(level)) = first.properties["level"].value else {
                return Err("level".into());
            };
            let (ttl, priority) = (first.ttl.unwrap_or_default().seconds, first.priority());
            let (request_id, payload) = (hex(&m.request_id), hex(&first.payload));
            format!("{},{request_id},{count},{payload},{priority},{ttl},{name},{level}", m.queue)
        }
        "DequeueResponse" => {
            let m = DequeueResponse::decode(&*data)?;
            let (header, first) = (m.header.unwrap_or_default(), &m.messages[0]);
            let message = first.message.clone().unwrap_or_default();
            let (epoch, copies, payload) = (header.epoch, header.copies, hex(&message.payload));
            let (index, deliveries, content) = (first.index, first.delivery_count, message.content_type);
            format!("{},{epoch},{copies},{index},{payload},{deliveries},{content}", m.lease_id)
        }
        _ => {
            let m = ProduceResponse::decode(&*data)?;
            let Some(produce_response::Frame::Ack(ack)) = &m.frame else {
                return Err("no ack".into());
            };
            let last = &m.more_acks[m.more_acks.len() - 1];
            let reason = last.errors[0].error.clone().unwrap_or_default().reason;
            format!("{},{},{},{reason},{}", ack.first_index, m.more_acks.len(), last.first_sequence, last.count)
        }
    };
    println!("facts {facts}");
    Ok(())
}
