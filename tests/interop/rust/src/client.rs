//! A client made of the committed .proto files and stock tonic: each message exactly once and in order, whoever dies. It
//! has one address, which leads to a member that is alive, and balances nothing. It prints what it sees.
use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status};

use crate::v1::queue_admin_service_client::QueueAdminServiceClient;
use crate::v1::queue_service_client::QueueServiceClient;
use crate::v1::transaction_service_client::TransactionServiceClient;
use crate::v1::*;

const PATIENCE: Duration = Duration::from_secs(30); // for a call with its repetitions
const ATTEMPT: Duration = Duration::from_secs(10); // for one of them
const WAIT: Option<prost_types::Duration> = Some(prost_types::Duration { seconds: 5, nanos: 0 });

pub struct Client {
    pub queues: QueueServiceClient<Channel>,
    pub admin: QueueAdminServiceClient<Channel>,
    pub units: TransactionServiceClient<Channel>,
    leased: HashMap<String, Vec<Settlement>>, // by queue: what acknowledges the messages that were received
    handles: HashMap<String, Vec<Vec<u8>>>,   // by queue: of the messages that were sent
    pub asked: EnqueueRequest,                // the last one that had to be on so many copies
}

pub fn id() -> Vec<u8> {
    uuid::Uuid::new_v4().into()
}

/// Without a status from a member the call is in doubt: tonic says so with UNKNOWN, INTERNAL or CANCELLED where a
/// connection breaks under a call.
fn in_doubt(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::Aborted | Code::DeadlineExceeded => true,
        Code::Unknown | Code::Internal | Code::Cancelled => status.details().is_empty(),
        _ => false,
    }
}

/// Repeats a call with the same identity while its outcome is in doubt: a repetition has one effect.
pub async fn again<T>(mut call: impl AsyncFnMut() -> Result<T, Status>) -> Result<T, Status> {
    let end = Instant::now() + PATIENCE;
    loop {
        let late = |_| Err(Status::deadline_exceeded("no answer"));
        match timeout(ATTEMPT, call()).await.unwrap_or_else(late) {
            Err(status) if in_doubt(&status) && Instant::now() < end => println!("repeated {:?}", status.code()),
            outcome => return outcome,
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// One unary call, repeated: service, method, request.
macro_rules! unary {
    ($service:expr, $method:ident, $request:expr) => {{
        let request = $request;
        again(async || $service.$method(request.clone()).await).await?.into_inner()
    }};
}

/// Prints messages, and says what acknowledges them.
pub fn took(lease_id: u64, messages: Vec<DeliveredMessage>) -> Settlement {
    let mut ranges = Vec::new();
    for DeliveredMessage { index, message, .. } in messages {
        println!("message {index} {}", String::from_utf8_lossy(&message.unwrap_or_default().payload));
        ranges.push(IndexRange { first: index, count: 1 });
    }
    Settlement { lease_id, ranges, outcome: Outcome::Ack.into(), ..Default::default() }
}

/// Mutual TLS by a directory with ca.pem, cert.pem and key.pem.
fn secured(address: &str, directory: &Path) -> Result<Channel, Box<dyn Error>> {
    let read = |name| std::fs::read(directory.join(name));
    let own = Identity::from_pem(read("cert.pem")?, read("key.pem")?);
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read("ca.pem")?)).identity(own);
    Ok(Endpoint::from_shared(format!("https://{address}"))?.tls_config(tls)?.connect_lazy())
}

impl Client {
    pub fn connect(address: &str, directory: Option<&str>) -> Result<Self, Box<dyn Error>> {
        let channel = match directory {
            Some(directory) => secured(address, Path::new(directory))?,
            None => Endpoint::from_shared(format!("http://{address}"))?.connect_lazy(),
        };
        let (queues, admin) = (QueueServiceClient::new(channel.clone()), QueueAdminServiceClient::new(channel.clone()));
        let units = TransactionServiceClient::new(channel);
        let asked = EnqueueRequest::default();
        Ok(Client { queues, admin, units, leased: HashMap::new(), handles: HashMap::new(), asked })
    }

    pub async fn create(&mut self, name: String, kind: &str) -> Result<(), Status> {
        let queue_type = QueueType::from_str_name(kind).unwrap_or_default().into();
        let config = Some(QueueConfig { queue_type, ..Default::default() });
        let request = CreateQueueRequest { name, request_id: id(), config, ..Default::default() };
        unary!(self.admin, create_queue, request);
        Ok(())
    }

    pub async fn send(&mut self, queue: String, first: u64, count: u64) -> Result<(), Status> {
        for n in first..first + count {
            let messages = vec![Message { payload: n.to_string().into(), ..Default::default() }];
            let request = EnqueueRequest { queue: queue.clone(), request_id: id(), messages, ..Default::default() };
            let result = unary!(self.queues, enqueue, request).results.remove(0);
            println!("sent {}", result.index);
            self.handles.entry(queue.clone()).or_default().push(result.handle);
        }
        Ok(())
    }

    pub async fn browse(&mut self, queue: String) -> Result<(), Status> {
        let request = BrowseRequest { queue, ..Default::default() };
        let seen = again(async || {
            let mut pages = self.queues.browse(request.clone()).await?.into_inner();
            let mut seen = Vec::new();
            while let Some(page) = pages.message().await? {
                seen.extend(page.messages);
            }
            Ok(seen)
        })
        .await?;
        took(0, seen);
        Ok(())
    }

    pub async fn receive(&mut self, queue: String, count: u64) -> Result<(), Status> {
        let mut left = count as u32;
        while left > 0 {
            let request = DequeueRequest {
                queue: queue.clone(),
                request_id: id(),
                max_messages: left,
                wait: WAIT,
                ..Default::default()
            };
            let answer = unary!(self.queues, dequeue, request);
            if answer.messages.is_empty() {
                break;
            }
            left -= answer.messages.len() as u32;
            self.leased.entry(queue.clone()).or_default().push(took(answer.lease_id, answer.messages));
        }
        Ok(())
    }

    pub async fn settle(&mut self, queue: String) -> Result<(), Status> {
        let settlements = self.leased.remove(&queue).unwrap_or_default();
        let last: Vec<u64> = settlements.iter().filter_map(|part| Some(part.ranges.last()?.first)).collect();
        let request = SettleRequest { queue, request_id: id(), settlements, ..Default::default() };
        for (last, result) in last.iter().zip(unary!(self.queues, settle, request).results) {
            println!("settled {last} {}", result.settled);
        }
        Ok(())
    }

    /// Makes a unit of work of each message that was received: it is acknowledged, and one enters each of two queues
    /// because of it. All three happen, or none does.
    pub async fn unit(&mut self, queue: String, into: &[String]) -> Result<(), Status> {
        for part in self.leased.remove(&queue).unwrap_or_default() {
            for range in &part.ranges {
                let settlements = vec![Settlement { ranges: vec![*range], ..part.clone() }];
                let settles = vec![QueueSettlements { queue: queue.clone(), settlements }];
                let payload = range.first.to_string();
                let message = Message { payload: payload.into(), ..Default::default() };
                let put = |name: &String| QueueMessages { queue: name.clone(), messages: vec![message.clone()] };
                let puts = into.iter().map(put).collect();
                let request = TransactRequest { request_id: id(), settles, puts, ..Default::default() };
                let entered = unary!(self.units, transact, request).puts;
                let (first, second) = (entered[0].results[0].index, entered[1].results[0].index);
                println!("unit {} {first} {second}", range.first);
            }
        }
        Ok(())
    }

    pub async fn reply(&mut self, queue: String) -> Result<(), Status> {
        for Settlement { lease_id, ranges, .. } in self.leased.remove(&queue).unwrap_or_default() {
            for IndexRange { first: index, .. } in ranges {
                let (queue, request_id) = (queue.clone(), id());
                let message = Some(Message { payload: format!("re:{index}").into(), ..Default::default() });
                let request = ReplyRequest { queue, request_id, lease_id, index, message, ..Default::default() };
                unary!(self.queues, reply, request);
            }
        }
        Ok(())
    }

    pub async fn answers(&mut self, queue: String) -> Result<(), Status> {
        let handles = self.handles.remove(&queue).unwrap_or_default();
        let request = WaitCompletionRequest { queue, handles, wait: WAIT };
        for status in unary!(self.queues, wait_completion, request).statuses {
            println!("answer {}", String::from_utf8_lossy(&status.reply.unwrap_or_default().payload));
        }
        Ok(())
    }

    pub async fn length(&mut self, name: String) -> Result<(), Status> {
        let answer = unary!(self.admin, get_queue, GetQueueRequest { name, ..Default::default() });
        println!("length {}", answer.queue.unwrap_or_default().length);
        Ok(())
    }
}
