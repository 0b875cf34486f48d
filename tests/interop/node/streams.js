// The fast path of the same client: many messages on their way at once, over streams that outlive their connections.
'use strict';

const grpc = require('@grpc/grpc-js');
const { again, deadline, id, payload, took } = require('./client.js');

const away = () =>
  Object.assign(new Error('the stream ended before everything was answered'), { code: grpc.status.UNAVAILABLE });

// Sends batches without waiting; after a break it sends what is unanswered again, as it was cut.
async function stream(queues, queue, first, count, size) {
  const open = { clientId: id(), queue };
  const batches = [];
  for (let done = 0; done < count; done += size) {
    const length = Math.min(size, count - done);
    const payloads = Array.from({ length }, (_, n) => payload(first + done + n));
    batches.push({ queue, firstSequence: done + 1, messages: { payloads } });
  }
  let acked = 0;
  await again(async () => {
    const stream = queues.Produce(deadline());
    stream.write({ open });
    for (const batch of batches.slice(Math.floor(acked / size))) stream.write({ batch });
    stream.end();
    for await (const { ack, moreAcks, goaway, reject } of stream) {
      if (goaway || reject) throw away();
      for (const each of ack ? [ack, ...moreAcks] : []) {
        console.log('acked', each.firstSequence, each.count, each.firstIndex);
        acked = Math.max(acked, Number(each.firstSequence) + each.count - 1);
      }
    }
    if (acked < count) throw away();
  });
}

// Opens the stream again after a break, says what had reached it, and settles what is not confirmed once more.
async function consume(queues, queue, count) {
  const open = { queue, clientId: id(), lastLeaseId: 0 };
  const waiting = [];
  await again(async () => {
    const stream = queues.Consume(deadline());
    stream.write({ open });
    for (const settle of waiting) stream.write({ settle });
    stream.write({ credit: { messages: count, bytes: 1 << 20 } });
    for await (const { deliveries, settled, goaway } of stream) {
      if (goaway) throw away();
      if (deliveries) {
        const { leaseId, messages } = deliveries;
        const settle = { settleId: messages.at(-1).index, settlements: [took(leaseId, messages)] };
        open.lastLeaseId = leaseId;
        count -= messages.length;
        waiting.push(settle);
        stream.write({ settle });
      }
      if (settled) {
        console.log('settled', settled.settleId, settled.results[0].settled);
        waiting.shift();
      }
      if (count === 0 && waiting.length === 0) stream.end();
    }
    if (count > 0 || waiting.length > 0) throw away();
  });
}

module.exports = { consume, stream };
