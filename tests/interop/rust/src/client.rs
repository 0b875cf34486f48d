//! A client made of the committed .proto files and stock tonic: each message exactly once and in order, whoever dies. It
//! has one address, which leads to a member that is alive, and balances nothing.
use std::future::Future;
use std::time::{Duration, Instant};

use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use crate::v1::consume_request::Frame as ToConsumer;
use crate::v1::consume_response::Frame as FromConsumer;
use crate::v1::produce_request::Frame as ToProducer;
use crate::v1::produce_response::Frame as FromProducer;
use crate::v1::queue_admin_service_client::QueueAdminServiceClient;
use crate::v1::queue_service_client::QueueServiceClient;
use crate::v1::*;

const PATIENCE: Duration = Duration::from_secs(30); // for one step, repetitions included
const ATTEMPT: Duration = Duration::from_secs(10); // for one call
const WAIT: Option<prost_types::Duration> = Some(prost_types::Duration { seconds: 5, nanos: 0 });

/// What a client has seen that is wrong, or a call that failed.
pub type Done<T = ()> = Result<T, Status>;

/// What is known of a queue: numbers sent and taken, leases to settle, handles to ask for.
#[derive(Default)]
pub struct Queue {
    pub name: String,
    pub sent: u64,
    pub taken: u64,
    leased: Vec<Settlement>,
    handles: Vec<Vec<u8>>,
}

pub struct Client {
    queues: QueueServiceClient<Channel>,
    admin: QueueAdminServiceClient<Channel>,
    ids: u64,
    pub repeated: u64,
}

pub fn require(ok: bool, seen: impl std::fmt::Debug) -> Done {
    if ok { Ok(()) } else { Err(Status::data_loss(format!("seen {seen:?}"))) }
}

fn away() -> Status {
    Status::unavailable("the stream ended before everything was answered")
}

/// Without a status from a member the call is in doubt: tonic says so with UNKNOWN, INTERNAL or CANCELLED where a
/// connection breaks under a call.
fn in_doubt(status: &Status) -> bool {
    let broken = matches!(status.code(), Code::Unknown | Code::Internal | Code::Cancelled) && status.details().is_empty();
    broken || matches!(status.code(), Code::Unavailable | Code::Aborted | Code::DeadlineExceeded)
}

/// Repeats a call with the same identity while its outcome is in doubt: a repetition has one effect.
async fn again<T, F: Future<Output = Done<T>>>(repeated: &mut u64, mut call: impl FnMut() -> F) -> Done<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        match tokio::time::timeout(ATTEMPT, call()).await.unwrap_or_else(|_| Err(Status::deadline_exceeded("ours"))) {
            Err(status) if in_doubt(&status) && Instant::now() < end => {
                *repeated += 1;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            other => return other,
        }
    }
}

/// One unary call, repeated: service, method, request.
macro_rules! unary {
    ($client:expr, $service:ident, $method:ident, $request:expr) => {{
        let (service, request) = ($client.$service.clone(), $request);
        again(&mut $client.repeated, || {
            let (mut service, request) = (service.clone(), request.clone());
            async move { Ok(service.$method(Request::new(request)).await?.into_inner()) }
        })
        .await?
    }};
}

impl Queue {
    pub fn new(name: String) -> Self {
        Queue { name, ..Queue::default() }
    }

    /// Accepts the next messages in order, each once, and says what acknowledges them.
    fn take(&mut self, lease_id: u64, messages: &[DeliveredMessage]) -> Done<Settlement> {
        let (first, count) = (self.taken + 1, messages.len() as u64);
        for each in messages {
            self.taken += 1;
            require(is_number(each, self.taken), each)?;
        }
        let ranges = vec![IndexRange { first, count }];
        Ok(Settlement { lease_id, ranges, outcome: Outcome::Ack.into(), ..Default::default() })
    }
}

fn is_number(message: &DeliveredMessage, number: u64) -> bool {
    let body = message.message.as_ref().map(|each| each.payload.as_slice());
    message.index == number && body == Some(number.to_string().as_bytes())
}

impl Client {
    pub fn connect(address: &str) -> Result<Self, tonic::transport::Error> {
        let channel = Endpoint::from_shared(format!("http://{address}"))?.connect_lazy();
        let (queues, admin) = (QueueServiceClient::new(channel.clone()), QueueAdminServiceClient::new(channel));
        Ok(Client { queues, admin, ids: 0, repeated: 0 })
    }

    /// 16 bytes that nobody else uses.
    fn id(&mut self) -> Vec<u8> {
        self.ids += 1;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let high = (now.as_nanos() as u64) ^ u64::from(std::process::id()).rotate_left(40);
        [high.to_be_bytes(), self.ids.to_be_bytes()].concat()
    }

    pub async fn create(&mut self, queue: &Queue, kind: &str) -> Done {
        let kind = if kind == "two_way" { QueueType::TwoWay } else { QueueType::OneWayQueuedAck };
        let config = Some(QueueConfig { queue_type: kind.into(), ..Default::default() });
        let (name, request_id) = (queue.name.clone(), self.id());
        unary!(self, admin, create_queue, CreateQueueRequest { name, request_id, config, configuring: false });
        Ok(())
    }

    pub async fn send(&mut self, queue: &mut Queue, count: u64) -> Done {
        for _ in 0..count {
            queue.sent += 1;
            let messages = vec![Message { payload: queue.sent.to_string().into(), ..Default::default() }];
            let (name, request_id) = (queue.name.clone(), self.id());
            let request = EnqueueRequest { queue: name, request_id, messages, ..Default::default() };
            let answer = unary!(self, queues, enqueue, request);
            require(answer.results[0].index == queue.sent, &answer)?;
            queue.handles.push(answer.results[0].handle.clone());
        }
        Ok(())
    }

    /// Sends batches without waiting; after a break it sends what is unanswered again, as it was cut.
    pub async fn stream(&mut self, queue: &mut Queue, count: u64, batch: u64) -> Done {
        let (client_id, name, base) = (self.id(), queue.name.clone(), queue.sent);
        let batches: Vec<EnqueueBatch> = (1..=count).step_by(batch as usize).map(|first| {
            let payloads = (first..=count.min(first + batch - 1)).map(|n| (base + n).to_string().into()).collect();
            let messages = Some(MessageBatch { payloads, ..Default::default() });
            EnqueueBatch { queue: name.clone(), first_sequence: first, messages }
        }).collect();
        let acked = std::cell::Cell::new(0);
        let service = self.queues.clone();
        again(&mut self.repeated, || async {
            let left = batches.iter().filter(|each| each.first_sequence + batch > acked.get() + 1).cloned();
            let open = ProduceOpen { client_id: client_id.clone(), queue: name.clone(), ..Default::default() };
            let frames = std::iter::once(ToProducer::Open(open)).chain(left.map(ToProducer::Batch));
            let frames: Vec<_> = frames.map(|frame| ProduceRequest { frame: Some(frame) }).collect();
            let mut answers = service.clone().produce(tokio_stream::iter(frames)).await?.into_inner();
            while acked.get() < count {
                let answer = answers.message().await?.ok_or_else(away)?;
                let first = match answer.frame {
                    Some(FromProducer::Ack(ack)) => Some(ack),
                    Some(FromProducer::Opened(_)) => None,
                    _ => return Err(away()),
                };
                for ack in first.into_iter().chain(answer.more_acks) {
                    require(ack.first_index == base + ack.first_sequence && ack.first_sequence <= acked.get() + 1, &ack)?;
                    acked.set(acked.get().max(ack.first_sequence + u64::from(ack.count) - 1));
                }
            }
            Ok(())
        })
        .await?;
        queue.sent += count;
        Ok(())
    }

    pub async fn browse(&mut self, queue: &Queue, first: u64, count: u64) -> Done {
        let service = self.queues.clone();
        again(&mut self.repeated, || async {
            let request = BrowseRequest { queue: queue.name.clone(), ..Default::default() };
            let mut pages = service.clone().browse(request).await?.into_inner();
            let mut next = first;
            while let Some(page) = pages.message().await? {
                for each in page.messages {
                    require(is_number(&each, next), &each)?;
                    next += 1;
                }
            }
            require(next == first + count, next)
        })
        .await
    }

    pub async fn receive(&mut self, queue: &mut Queue, count: u64) -> Done {
        let end = queue.taken + count;
        while queue.taken < end {
            let (name, request_id, max_messages) = (queue.name.clone(), self.id(), (end - queue.taken) as u32);
            let request = DequeueRequest { queue: name, request_id, max_messages, wait: WAIT, ..Default::default() };
            let answer = unary!(self, queues, dequeue, request);
            require(!answer.messages.is_empty(), &answer)?;
            let settlement = queue.take(answer.lease_id, &answer.messages)?;
            queue.leased.push(settlement);
        }
        Ok(())
    }

    pub async fn settle(&mut self, queue: &mut Queue) -> Done {
        let settlements = std::mem::take(&mut queue.leased);
        let counts: Vec<u64> = settlements.iter().map(|each| each.ranges[0].count).collect();
        let (name, request_id) = (queue.name.clone(), self.id());
        let answer = unary!(self, queues, settle, SettleRequest { queue: name, request_id, settlements, epoch: 0 });
        let refused = answer.results.iter().any(|each| each.error.is_some());
        require(!refused && answer.results.iter().map(|each| each.settled).eq(counts), &answer)
    }

    pub async fn reply(&mut self, queue: &mut Queue) -> Done {
        for part in std::mem::take(&mut queue.leased) {
            for index in part.ranges[0].first..part.ranges[0].first + part.ranges[0].count {
                let message = Some(Message { payload: format!("re:{index}").into(), ..Default::default() });
                let (name, request_id, lease_id) = (queue.name.clone(), self.id(), part.lease_id);
                let request = ReplyRequest { queue: name, request_id, lease_id, index, message, epoch: 0 };
                unary!(self, queues, reply, request);
            }
        }
        Ok(())
    }

    pub async fn answers(&mut self, queue: &Queue, count: u64) -> Done {
        require(queue.handles.len() as u64 == count, queue.handles.len())?;
        let request = WaitCompletionRequest { queue: queue.name.clone(), handles: queue.handles.clone(), wait: WAIT };
        let answer = unary!(self, queues, wait_completion, request);
        let bodies = answer.statuses.iter().map(|each| each.reply.clone().unwrap_or_default().payload);
        require(bodies.eq((1..=count).map(|n| format!("re:{n}").into_bytes())), &answer)
    }

    /// Opens the stream again after a break, says what had reached it, and settles what is not confirmed once more.
    pub async fn consume(&mut self, queue: &mut Queue, count: u64) -> Done {
        let (client_id, end, name) = (self.id(), queue.taken + count, queue.name.clone());
        let (mut confirmed, mut last_lease_id, mut waiting) = (0, None, Vec::<ConsumeSettle>::new());
        let deadline = Instant::now() + PATIENCE;
        while confirmed < count {
            let open = ConsumeOpen { queue: name.clone(), client_id: client_id.clone(), last_lease_id, ..Default::default() };
            last_lease_id = last_lease_id.or(Some(0));
            let (sender, frames) = tokio::sync::mpsc::unbounded_channel();
            let say = |frame| drop(sender.send(ConsumeRequest { frame: Some(frame) })); // a broken stream is told below
            say(ToConsumer::Open(open));
            waiting.iter().cloned().for_each(|each| say(ToConsumer::Settle(each)));
            if end > queue.taken {
                say(ToConsumer::Credit(ConsumeCredit { messages: (end - queue.taken) as u32, bytes: 1 << 20 }));
            }
            let frames = tokio_stream::wrappers::UnboundedReceiverStream::new(frames);
            let mut service = self.queues.clone();
            let attempt = async {
                let mut answers = service.consume(frames).await?.into_inner();
                while confirmed < count {
                    match answers.message().await?.ok_or_else(away)?.frame {
                        Some(FromConsumer::Deliveries(part)) => {
                            last_lease_id = last_lease_id.max(Some(part.lease_id));
                            let settlements = vec![queue.take(part.lease_id, &part.messages)?];
                            waiting.push(ConsumeSettle { settle_id: queue.taken, settlements });
                            say(ToConsumer::Settle(waiting[waiting.len() - 1].clone()));
                        }
                        Some(FromConsumer::Settled(done)) => {
                            let expected = waiting.remove(0).settle_id == done.settle_id;
                            require(expected && done.results[0].error.is_none(), &done)?;
                            confirmed += done.results[0].settled;
                        }
                        Some(FromConsumer::Goaway(_)) => return Err(away()),
                        _ => {}
                    }
                }
                Ok(())
            };
            match tokio::time::timeout(ATTEMPT, attempt).await.unwrap_or_else(|_| Err(away())) {
                Err(status) if in_doubt(&status) && Instant::now() < deadline => self.repeated += 1,
                other => other?,
            }
        }
        Ok(())
    }

    pub async fn expect(&mut self, queue: &Queue, length: u64) -> Done {
        let answer = unary!(self, admin, get_queue, GetQueueRequest { name: queue.name.clone() });
        let found = answer.queue.unwrap_or_default().length;
        require(found == length, found)
    }
}
