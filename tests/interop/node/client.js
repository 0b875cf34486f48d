// As tests/interop/go/main.go, with @grpc/grpc-js and the .proto files loaded as they are: no generated code.
//
//   node client.js <proto folder> <step> <queue> <first member> <second member>
'use strict';

const assert = require('node:assert');
const { randomBytes } = require('node:crypto');
const path = require('node:path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const [PROTO, ...ARGUMENTS] = process.argv.slice(2);
const UNARY = 50, BATCHES = 20, PER_BATCH = 25;
const ALL = UNARY + BATCHES * PER_BATCH, HALFWAY = ALL / 2;
const FILES = ['queue_service', 'queue_admin_service'].map((name) => path.join(PROTO, 'tandemq', 'v1', `${name}.proto`));
const definition = loader.loadSync(FILES, { includeDirs: [PROTO], longs: Number, enums: String, oneofs: true });
const { v1 } = grpc.loadPackageDefinition(definition).tandemq;

const requestId = () => randomBytes(16);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const deadline = Date.now() + 30_000;

function unary(client, method, request) {
  return new Promise((resolve, reject) => {
    client[method](request, { deadline }, (error, answer) => (error ? reject(error) : resolve(answer)));
  });
}

// Repeats a call with the same identity while nobody serves it: a repetition has one effect.
async function again(client, method, request) {
  for (;;) {
    try {
      return await unary(client, method, request);
    } catch (error) {
      if (![grpc.status.UNAVAILABLE, grpc.status.ABORTED].includes(error.code) || Date.now() > deadline) throw error;
      await pause(50);
    }
  }
}

async function send(client, queue) {
  let number = 0;
  const next = () => Buffer.from(String(++number));
  for (let i = 0; i < UNARY; i++) {
    const request = { queue, requestId: requestId(), messages: [{ payload: next() }] };
    const answer = await again(client, 'Enqueue', request);
    assert.strictEqual(answer.results[0].index, number);
  }
  const stream = client.Produce({ deadline });
  stream.write({ open: { clientId: requestId(), queue } });
  for (let batch = 0; batch < BATCHES; batch++) {
    const payloads = Array.from({ length: PER_BATCH }, next);
    stream.write({ batch: { queue, firstSequence: batch * PER_BATCH + 1, messages: { payloads } } });
  }
  stream.end();
  let acked = 0, opened = false;
  for await (const frame of stream) {
    if (frame.frame === 'opened') { opened = true; continue; }
    assert.strictEqual(frame.frame, 'ack', JSON.stringify(frame));
    for (const ack of [frame.ack, ...(frame.moreAcks || [])]) {
      assert.strictEqual(ack.firstIndex, UNARY + acked + 1);
      assert(!ack.duplicate);
      acked += ack.count;
    }
  }
  assert(opened);
  assert.strictEqual(acked, BATCHES * PER_BATCH);
}

async function receive(client, queue) {
  let last = 0;
  // Accepts the next messages in order, each once.
  const take = (messages) => {
    for (const message of messages) {
      last++;
      assert.deepStrictEqual(
        [message.index, message.message.payload.toString(), message.deliveryCount], [last, String(last), 1]);
    }
    return [{ first: messages[0].index, count: messages.length }];
  };
  const acks = (leaseId, messages) => [{ leaseId, ranges: take(messages), outcome: 'OUTCOME_ACK' }];
  while (last < HALFWAY) {
    const request = { queue, requestId: requestId(), wait: { seconds: 5 }, maxMessages: Math.min(40, HALFWAY - last) };
    const got = await again(client, 'Dequeue', request);
    assert(got.messages?.length, `nothing after ${last}`);
    const settle = { queue, requestId: requestId(), settlements: acks(got.leaseId, got.messages) };
    const answer = await again(client, 'Settle', settle);
    assert(!answer.results[0].error, JSON.stringify(answer));
  }
  const stream = client.Consume({ deadline });
  stream.write({ open: { queue, clientId: requestId(), format: 'DELIVERY_FORMAT_MESSAGES' } });
  stream.write({ credit: { messages: ALL, bytes: 1 << 20 } });
  let settled = HALFWAY;
  for await (const frame of stream) {
    assert.notStrictEqual(frame.frame, 'goaway', JSON.stringify(frame));
    if (frame.deliveries) {
      const settlements = acks(frame.deliveries.leaseId, frame.deliveries.messages);
      stream.write({ settle: { settleId: last, settlements } });
    }
    for (const result of frame.settled?.results || []) {
      assert(!result.error, JSON.stringify(result));
      settled += result.settled;
    }
    if (settled >= ALL) stream.end();
  }
  const more = await unary(client, 'Dequeue', { queue, requestId: requestId() });
  assert(!more.messages?.length, JSON.stringify(more));
}

async function main() {
  const [step, queue, sender, receiver] = ARGUMENTS;
  const open = (service, endpoint) => new v1[service](endpoint, grpc.credentials.createInsecure());
  if (step !== 'receive') {
    await unary(open('QueueAdminService', sender), 'CreateQueue', { name: queue, requestId: requestId() });
    await send(open('QueueService', sender), queue);
  }
  if (step !== 'send') await receive(open('QueueService', receiver), queue);
  console.log(`${step} ${queue}: ${ALL} messages in order, each once`);
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
