//! The fast path of the same client: many messages on their way at once, over streams that outlive their connections.
use tokio::sync::mpsc::unbounded_channel;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Status;

use crate::client::{Client, again, id, took};
use crate::v1::consume_request::Frame as ToConsumer;
use crate::v1::consume_response::Frame as FromConsumer;
use crate::v1::produce_request::Frame as ToProducer;
use crate::v1::produce_response::Frame as FromProducer;
use crate::v1::*;

fn away() -> Status {
    Status::unavailable("the stream ended before everything was answered")
}

impl Client {
    /// Sends batches without waiting; after a break it sends what is unanswered again, as it was cut.
    pub async fn stream(&mut self, queue: String, first: u64, count: u64, size: u64) -> Result<(), Status> {
        let batches: Vec<ToProducer> = (0..count)
            .step_by(size as usize)
            .map(|done| {
                let payloads = (done..count.min(done + size)).map(|n| (first + n).to_string().into()).collect();
                let messages = Some(MessageBatch { payloads, ..Default::default() });
                ToProducer::Batch(EnqueueBatch { queue: queue.clone(), first_sequence: done + 1, messages })
            })
            .collect();
        let open = ToProducer::Open(ProduceOpen { client_id: id(), queue, ..Default::default() });
        let mut acked = 0;
        again(async || {
            let unanswered = &batches[(acked / size) as usize..];
            let frames: Vec<ProduceRequest> = std::iter::once(&open)
                .chain(unanswered)
                .map(|frame| ProduceRequest { frame: Some(frame.clone()) })
                .collect();
            let mut answers = self.queues.produce(tokio_stream::iter(frames)).await?.into_inner();
            while acked < count {
                let answer = answers.message().await?.ok_or_else(away)?;
                match answer.frame {
                    Some(FromProducer::Ack(ack)) => {
                        for ack in std::iter::once(ack).chain(answer.more_acks) {
                            println!("acked {} {} {}", ack.first_sequence, ack.count, ack.first_index);
                            acked = acked.max(ack.first_sequence + u64::from(ack.count) - 1);
                        }
                    }
                    Some(FromProducer::Reject(_) | FromProducer::Goaway(_)) => return Err(away()),
                    _ => {}
                }
            }
            Ok(())
        })
        .await
    }

    /// Opens the stream again after a break, says what had reached it, and settles what is not confirmed once more.
    pub async fn consume(&mut self, queue: String, count: u64) -> Result<(), Status> {
        let mut open = ConsumeOpen { queue, client_id: id(), last_lease_id: Some(0), ..Default::default() };
        let mut waiting: Vec<ConsumeSettle> = Vec::new();
        let mut left = count as u32;
        again(async || {
            let (frames, to_send) = unbounded_channel();
            // What is wrong with a stream is told by its answers.
            let say = |frame| drop(frames.send(ConsumeRequest { frame: Some(frame) }));
            say(ToConsumer::Open(open.clone()));
            waiting.iter().cloned().for_each(|settle| say(ToConsumer::Settle(settle)));
            say(ToConsumer::Credit(ConsumeCredit { messages: left, bytes: 1 << 20 }));
            let mut answers = self.queues.consume(UnboundedReceiverStream::new(to_send)).await?.into_inner();
            while left > 0 || !waiting.is_empty() {
                match answers.message().await?.ok_or_else(away)?.frame {
                    Some(FromConsumer::Deliveries(Deliveries { lease_id, messages, .. })) => {
                        left -= messages.len() as u32;
                        open.last_lease_id = Some(lease_id);
                        let settle_id = messages[messages.len() - 1].index;
                        let settle = ConsumeSettle { settle_id, settlements: vec![took(lease_id, messages)] };
                        waiting.push(settle.clone());
                        say(ToConsumer::Settle(settle));
                    }
                    Some(FromConsumer::Settled(ConsumeSettled { settle_id, results, .. })) => {
                        println!("settled {settle_id} {}", results[0].settled);
                        waiting.remove(0);
                    }
                    Some(FromConsumer::Goaway(_)) => return Err(away()),
                    _ => {}
                }
            }
            Ok(())
        })
        .await
    }
}
