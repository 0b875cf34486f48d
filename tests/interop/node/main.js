// Does what a script says; ends with exit code 1 where a client would have seen something wrong, 2 for a wrong script.
//
//   node main.js <proto folder> <script> <address> <run>
'use strict';

const assert = require('node:assert');
const { readFileSync } = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');
const { Client, Queue, load } = require('./client.js');
const { parse, ScriptError } = require('./script.js');

const hex = (bytes) => Buffer.from(bytes).toString('hex');

const FACTS = {
  EnqueueRequest: ({ queue, requestId, messages }) => [queue, hex(requestId), messages.length, hex(messages[0].payload),
    messages[0].priority, messages[0].ttl.seconds, messages[0].properties.name.text, messages[0].properties.level.integer],
  DequeueResponse: ({ leaseId, header, messages: [first] }) => [leaseId, header.epoch, header.copies, first.index,
    hex(first.message.payload), first.deliveryCount, first.message.contentType],
  ProduceResponse: ({ ack, moreAcks }) => [ack.firstIndex, moreAcks.length, moreAcks.at(-1).firstSequence,
    moreAcks.at(-1).errors[0].error.reason, moreAcks.at(-1).count],
};

// Reads a message that another implementation has written.
function decode(definition, folder, { message, facts }) {
  // The service's own (de)serializers: the message types themselves carry none.
  const { Enqueue, Dequeue, Produce } = definition['tandemq.v1.QueueService'];
  const read = { EnqueueRequest: Enqueue.requestDeserialize, DequeueResponse: Dequeue.responseDeserialize,
    ProduceResponse: Produce.responseDeserialize }[message];
  assert.strictEqual(FACTS[message](read(readFileSync(path.join(folder, 'golden', `${message}.binpb`)))).join(), facts);
}

async function main([protos, script, address, run]) {
  const steps = parse(script);
  const { definition, v1 } = load(protos);
  const client = new Client(v1, address), queues = {};
  const answers = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  for (const step of steps) {
    const queue = queues[step.queue] ??= new Queue(`${run}/${step.queue}`);
    try {
      if (step.verb === 'decode') decode(definition, path.dirname(script), step);
      // Asked of who runs this; the next steps do not wait for it.
      else if (['kill', 'handoff'].includes(step.verb)) process.stdout.write(`@${step.verb}\n`);
      else if (step.verb === 'await') assert.strictEqual((await answers.next()).value, 'done');
      else await client[step.verb](queue, step);
    } catch (error) {
      error.message = `${step.at}: ${step.verb}: ${error.message}`;
      throw error;
    }
  }
  const sum = (key) => Object.values(queues).reduce((total, queue) => total + queue[key], 0);
  console.log(`steps=${steps.length} sent=${sum('sent')} taken=${sum('taken')} repeated=${client.repeated}`);
}

main(process.argv.slice(2)).then(() => process.exit(0), (error) => {
  console.error(error.message);
  process.exit(error instanceof ScriptError ? 2 : 1);
});
