//! Messages that have to be on two copies.
use tonic::Status;
use tonic_types::{ErrorInfo, StatusExt};

use crate::client::{Client, again, id};
use crate::v1::*;

/// What a member says of a refusal; nothing when the error came from somewhere else.
fn info_of(status: &Status) -> Option<ErrorInfo> {
    status.get_details_error_info().filter(|info| info.domain == "tandemq")
}

impl Client {
    /// Makes a queue that acknowledges on two copies only.
    pub async fn pairwise(&mut self, name: String) -> Result<(), Status> {
        let config = Some(QueueConfig { require_two: Some(true), ..Default::default() });
        let request = CreateQueueRequest { name, request_id: id(), config, ..Default::default() };
        again(async || self.admin.create_queue(request.clone()).await).await?;
        Ok(())
    }

    /// Sends a message that has to be on so many copies.
    pub async fn ask(&mut self, queue: String, number: u64, copies: u64) -> Result<(), Status> {
        let messages = vec![Message { payload: number.to_string().into(), ..Default::default() }];
        let min_copies = copies as u32;
        self.asked = EnqueueRequest { queue, request_id: id(), messages, min_copies, ..Default::default() };
        self.once().await
    }

    /// Sends what was asked for last. A refusal for want of copies is final for now, and says in its metadata whether
    /// the message is stored all the same, on fewer: it is there then, and only the same request may be sent again.
    pub async fn once(&mut self) -> Result<(), Status> {
        let line = again(async || match self.queues.enqueue(self.asked.clone()).await {
            Ok(answer) => Ok(format!("sent {}", answer.into_inner().results[0].index)),
            Err(status) => match info_of(&status) {
                Some(info) if info.reason == "NOT_ENOUGH_COPIES" => {
                    let outcome = info.metadata.get("outcome").map_or("-", |text| text);
                    Ok(format!("refused {} {} {outcome}", i32::from(status.code()), info.reason))
                }
                _ => Err(status),
            },
        })
        .await?;
        println!("{line}");
        Ok(())
    }
}
