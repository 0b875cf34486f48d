// Does what it is told, a step a line on stdin, and answers each with a line: ok, or what it found. Ends with exit code 1
// where a client would have seen something wrong.
//
//   node main.js <proto folder> <address>
'use strict';

const { readFileSync } = require('node:fs');
const readline = require('node:readline');
const { Client, Queue, load } = require('./client.js');

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
function decode(definition, message, path) {
  // The service's own (de)serializers: the message types themselves carry none.
  const { Enqueue, Dequeue, Produce } = definition['tandemq.v1.QueueService'];
  const read = { EnqueueRequest: Enqueue.requestDeserialize, DequeueResponse: Dequeue.responseDeserialize,
    ProduceResponse: Produce.responseDeserialize }[message];
  return FACTS[message](read(readFileSync(path))).join();
}

async function main([protos, address]) {
  const { definition, v1 } = load(protos);
  const client = new Client(v1, address), queues = {};
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [verb, name, ...values] = line.split(' ');
    if (verb === 'decode') {
      console.log(`ok ${decode(definition, name, ...values)}`);
    } else {
      const queue = queues[name] ??= new Queue(name);
      await client[verb](queue, ...values.map((value) => (/^\d+$/.test(value) ? Number(value) : value)));
      console.log('ok');
    }
  }
  const sum = (key) => Object.values(queues).reduce((total, queue) => total + queue[key], 0);
  console.log(`ok sent=${sum('sent')} taken=${sum('taken')} repeated=${client.repeated}`);
}

main(process.argv.slice(2)).then(() => process.exit(0), (error) => {
  console.error(error.message);
  process.exit(1);
});
