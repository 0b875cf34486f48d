// A client made of the committed .proto files, loaded as they are, and stock @grpc/grpc-js: each message exactly once and
// in order, whoever dies. It has one address, which leads to a member that is alive, and balances nothing. It prints what
// it sees.
'use strict';

const { randomBytes } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const PATIENCE_MS = 30_000; // for a call with its repetitions
const ATTEMPT_MS = 10_000; // for one of them
const IN_DOUBT = [grpc.status.UNAVAILABLE, grpc.status.ABORTED, grpc.status.DEADLINE_EXCEEDED];

// 64-bit numbers as text: JavaScript's numbers are exact to 2^53 only.
function load(folder) {
  const names = ['queue_service', 'queue_admin_service', 'transaction_service'];
  const files = names.map((name) => path.join(folder, 'tandemq', 'v1', `${name}.proto`));
  return loader.loadSync(files, { includeDirs: [folder], longs: String, enums: String, defaults: true, oneofs: true });
}

// TLS by a directory: mutual with ca.pem, cert.pem and key.pem, or with ca.pem and a token that each call shows; without
// a directory, clear text.
function credentials(directory) {
  if (!directory) return grpc.credentials.createInsecure();
  const read = (name) => fs.readFileSync(path.join(directory, name));
  if (fs.existsSync(path.join(directory, 'token'))) {
    const shows = grpc.credentials.createFromMetadataGenerator((_, done) => {
      const metadata = new grpc.Metadata();
      metadata.set('authorization', `Bearer ${read('token').toString().trim()}`); // read again: it may be a new one
      done(null, metadata);
    });
    return grpc.credentials.combineChannelCredentials(grpc.credentials.createSsl(read('ca.pem')), shows);
  }
  return grpc.credentials.createSsl(read('ca.pem'), read('key.pem'), read('cert.pem'));
}

const id = () => randomBytes(16);
const payload = (text) => Buffer.from(String(text));
const deadline = () => ({ deadline: Date.now() + ATTEMPT_MS });

// Repeats a call with the same identity while its outcome is in doubt: a repetition has one effect.
async function again(call) {
  for (const end = Date.now() + PATIENCE_MS; ; await sleep(50)) {
    try {
      return await call();
    } catch (error) {
      if (!IN_DOUBT.includes(error.code) || Date.now() > end) throw error;
      console.log('repeated', grpc.status[error.code]);
    }
  }
}

function unary(service, method, request) {
  const call = (resolve, reject) =>
    service[method](request, deadline(), (error, answer) => (error ? reject(error) : resolve(answer)));
  return again(() => new Promise(call));
}

// Prints messages, and says what acknowledges them.
function took(leaseId, messages) {
  for (const { index, message } of messages) console.log('message', index, message.payload.toString());
  const ranges = messages.map(({ index }) => ({ first: index, count: 1 }));
  return { leaseId, ranges, outcome: 'OUTCOME_ACK' };
}

class Client {
  leased = {}; // by queue: what acknowledges the messages that were received
  handles = {}; // by queue: of the messages that were sent

  constructor(definition, address, shown) {
    const { v1 } = grpc.loadPackageDefinition(definition).tandemq;
    this.queues = new v1.QueueService(address, shown);
    this.admin = new v1.QueueAdminService(address, shown);
    this.units = new v1.TransactionService(address, shown);
  }

  async create(queue, queueType) {
    await unary(this.admin, 'CreateQueue', { name: queue, requestId: id(), config: { queueType } });
  }

  async send(queue, first, count) {
    this.handles[queue] ??= [];
    for (let n = first; n < first + count; n++) {
      const request = { queue, requestId: id(), messages: [{ payload: payload(n) }] };
      const { results } = await unary(this.queues, 'Enqueue', request);
      console.log('sent', results[0].index);
      this.handles[queue].push(results[0].handle);
    }
  }

  async browse(queue) {
    const pages = await again(async () => {
      const stream = this.queues.Browse({ queue }, deadline());
      const pages = [];
      for await (const page of stream) pages.push(page);
      return pages;
    });
    for (const page of pages) took(0, page.messages);
  }

  async receive(queue, count) {
    this.leased[queue] ??= [];
    while (count > 0) {
      const request = { queue, requestId: id(), maxMessages: count, wait: { seconds: 5 } };
      const { leaseId, messages } = await unary(this.queues, 'Dequeue', request);
      if (!messages.length) return;
      this.leased[queue].push(took(leaseId, messages));
      count -= messages.length;
    }
  }

  async settle(queue) {
    const settlements = this.leased[queue];
    const { results } = await unary(this.queues, 'Settle', { queue, requestId: id(), settlements });
    results.forEach((each, i) => console.log('settled', settlements[i].ranges.at(-1).first, each.settled));
    delete this.leased[queue];
  }

  // Makes a unit of work of each message that was received: it is acknowledged, and one enters each of two queues
  // because of it. All three happen, or none does.
  async unit(queue, ...into) {
    for (const { leaseId, ranges, outcome } of this.leased[queue]) {
      for (const each of ranges) {
        const settles = [{ queue, settlements: [{ leaseId, ranges: [each], outcome }] }];
        const puts = into.map((queue) => ({ queue, messages: [{ payload: payload(each.first) }] }));
        const answer = await unary(this.units, 'Transact', { requestId: id(), settles, puts });
        console.log('unit', each.first, ...answer.puts.map(({ results }) => results[0].index));
      }
    }
    delete this.leased[queue];
  }

  async reply(queue) {
    for (const { leaseId, ranges } of this.leased[queue]) {
      for (const { first: index } of ranges) {
        const message = { payload: payload(`re:${index}`) };
        await unary(this.queues, 'Reply', { queue, requestId: id(), leaseId, index, message });
      }
    }
    delete this.leased[queue];
  }

  async answers(queue) {
    const request = { queue, handles: this.handles[queue], wait: { seconds: 5 } };
    const { statuses } = await unary(this.queues, 'WaitCompletion', request);
    for (const { reply } of statuses) console.log('answer', reply?.payload.toString());
  }

  async length(queue) {
    const answer = await unary(this.admin, 'GetQueue', { name: queue });
    console.log('length', answer.queue.length);
  }
}

module.exports = { Client, again, credentials, deadline, id, load, payload, took };
