// A client made of the committed .proto files, loaded as they are, and stock @grpc/grpc-js: each message exactly once and
// in order, whoever dies. It has one address, which leads to a member that is alive, and balances nothing.
'use strict';

const assert = require('node:assert');
const { randomBytes } = require('node:crypto');
const path = require('node:path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const PATIENCE_MS = 30_000; // for one step, repetitions included
const ATTEMPT_MS = 10_000; // for one call
const { UNAVAILABLE, ABORTED, DEADLINE_EXCEEDED } = grpc.status;
const TYPES = { queued_ack: 'QUEUE_TYPE_ONE_WAY_QUEUED_ACK', two_way: 'QUEUE_TYPE_TWO_WAY' };

// 64-bit numbers as text: JavaScript's numbers are exact to 2^53 only.
function load(folder) {
  const files = ['queue_service', 'queue_admin_service'].map((name) => path.join(folder, 'tandemq', 'v1', `${name}.proto`));
  const definition = loader.loadSync(files, { includeDirs: [folder], longs: String, enums: String, oneofs: true });
  return { definition, v1: grpc.loadPackageDefinition(definition).tandemq.v1 };
}

const id = () => randomBytes(16);
const payload = (n) => Buffer.from(String(n));
const deadline = () => Date.now() + ATTEMPT_MS;
const away = () => Object.assign(new Error('the stream ended before everything was answered'), { code: UNAVAILABLE });

// What is known of a queue: numbers sent and taken, leases to settle, handles to ask for.
class Queue {
  constructor(name) { Object.assign(this, { name, sent: 0, taken: 0, leased: [], handles: [] }); }

  // Accepts the next messages in order, each once, and says what acknowledges them.
  take(leaseId, messages) {
    for (const each of messages) {
      this.taken++;
      assert.deepStrictEqual([Number(each.index), each.message.payload.toString()], [this.taken, String(this.taken)]);
    }
    return { leaseId, ranges: [{ first: messages[0].index, count: messages.length }], outcome: 'OUTCOME_ACK' };
  }
}

class Client {
  constructor(v1, address) {
    this.queues = new v1.QueueService(address, grpc.credentials.createInsecure());
    this.admin = new v1.QueueAdminService(address, grpc.credentials.createInsecure());
    this.repeated = 0;
  }

  // Repeats a call with the same identity while its outcome is in doubt: a repetition has one effect.
  async again(attempt) {
    for (const end = Date.now() + PATIENCE_MS; ; this.repeated++) {
      try {
        return await attempt();
      } catch (error) {
        if (![UNAVAILABLE, ABORTED, DEADLINE_EXCEEDED].includes(error.code) || Date.now() > end) throw error;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  }

  unary(service, method, request) {
    return this.again(() => new Promise((resolve, reject) => {
      service[method](request, { deadline: deadline() }, (error, answer) => (error ? reject(error) : resolve(answer)));
    }));
  }

  create(queue, type) {
    const request = { name: queue.name, requestId: id(), config: { queueType: TYPES[type] } };
    return this.unary(this.admin, 'CreateQueue', request);
  }

  async send(queue, count) {
    for (let i = 0; i < count; i++) {
      const request = { queue: queue.name, requestId: id(), messages: [{ payload: payload(++queue.sent) }] };
      const { results: [result] } = await this.unary(this.queues, 'Enqueue', request);
      assert.strictEqual(Number(result.index), queue.sent, JSON.stringify(result));
      queue.handles.push(result.handle);
    }
  }

  // Sends batches without waiting; after a break it sends what is unanswered again, as it was cut.
  async stream(queue, count, batch) {
    const clientId = id(), batches = [];
    for (let first = 1; first <= count; first += batch) {
      const length = Math.min(batch, count - first + 1);
      const payloads = Array.from({ length }, (_, i) => payload(queue.sent + first + i));
      batches.push({ queue: queue.name, firstSequence: first, messages: { payloads } });
    }
    let acked = 0;
    await this.again(async () => {
      const stream = this.queues.Produce({ deadline: deadline() });
      stream.write({ open: { clientId, queue: queue.name } });
      for (const each of batches) {
        if (each.firstSequence + each.messages.payloads.length > acked + 1) stream.write({ batch: each });
      }
      stream.end();
      for await (const frame of stream) {
        if (frame.goaway || frame.reject) throw away();
        for (const ack of frame.ack ? [frame.ack, ...(frame.moreAcks || [])] : []) {
          assert.strictEqual(Number(ack.firstIndex), queue.sent + Number(ack.firstSequence));
          assert(Number(ack.firstSequence) <= acked + 1);
          acked = Math.max(acked, Number(ack.firstSequence) + ack.count - 1);
        }
      }
      if (acked < count) throw away();
    });
    queue.sent += count;
  }

  browse(queue, first, count) {
    return this.again(async () => {
      let next = first;
      for await (const page of this.queues.Browse({ queue: queue.name }, { deadline: deadline() })) {
        for (const each of page.messages || []) {
          assert.deepStrictEqual([Number(each.index), each.message.payload.toString()], [next, String(next)]);
          next++;
        }
      }
      assert.strictEqual(next, first + count);
    });
  }

  async receive(queue, count) {
    for (const end = queue.taken + count; queue.taken < end;) {
      const request = { queue: queue.name, requestId: id(), wait: { seconds: 5 }, maxMessages: end - queue.taken };
      const answer = await this.unary(this.queues, 'Dequeue', request);
      assert(answer.messages?.length, `nothing after ${queue.taken}`);
      queue.leased.push(queue.take(answer.leaseId, answer.messages));
    }
  }

  async settle(queue) {
    const request = { queue: queue.name, requestId: id(), settlements: queue.leased };
    const { results } = await this.unary(this.queues, 'Settle', request);
    results.forEach((result, i) => {
      assert(!result.error && Number(result.settled) === queue.leased[i].ranges[0].count, JSON.stringify(result));
    });
    queue.leased = [];
  }

  async reply(queue) {
    for (const { leaseId, ranges: [{ first, count }] } of queue.leased) {
      for (let index = Number(first); index < Number(first) + count; index++) {
        const request = { queue: queue.name, requestId: id(), leaseId, index, message: { payload: payload(`re:${index}`) } };
        await this.unary(this.queues, 'Reply', request);
      }
    }
    queue.leased = [];
  }

  async answers(queue, count) {
    assert.strictEqual(queue.handles.length, count);
    const request = { queue: queue.name, handles: queue.handles, wait: { seconds: 5 } };
    const { statuses } = await this.unary(this.queues, 'WaitCompletion', request);
    assert.deepStrictEqual(statuses.map((each) => each.reply?.payload.toString()), queue.handles.map((_, i) => `re:${i + 1}`));
  }

  // Opens the stream again after a break, says what had reached it, and settles what is not confirmed once more.
  async consume(queue, count) {
    const end = queue.taken + count, open = { queue: queue.name, clientId: id() }, waiting = [];
    let confirmed = 0, lease = '0';
    await this.again(async () => {
      const stream = this.queues.Consume({ deadline: deadline() });
      stream.write({ open });
      open.lastLeaseId = lease;
      waiting.forEach((settle) => stream.write({ settle }));
      if (end > queue.taken) stream.write({ credit: { messages: end - queue.taken, bytes: 1 << 20 } });
      for await (const { goaway, deliveries, settled } of stream) {
        if (goaway) throw away();
        if (deliveries) {
          open.lastLeaseId = lease = deliveries.leaseId;
          waiting.push({ settlements: [queue.take(lease, deliveries.messages)], settleId: queue.taken });
          stream.write({ settle: waiting.at(-1) });
        }
        if (settled) {
          assert(Number(settled.settleId) === waiting[0].settleId && !settled.results[0].error, JSON.stringify(settled));
          confirmed += Number(settled.results[0].settled);
          waiting.shift();
        }
        if (confirmed >= count) stream.end();
      }
      if (confirmed < count) throw away();
    });
  }

  async expect(queue, length) {
    const answer = await this.unary(this.admin, 'GetQueue', { name: queue.name });
    assert.strictEqual(Number(answer.queue.length || 0), length);
  }
}

module.exports = { Client, Queue, load };
