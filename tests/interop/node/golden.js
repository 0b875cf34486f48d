// Reads messages that another implementation has written.
'use strict';

const { readFileSync } = require('node:fs');

const hex = (bytes) => Buffer.from(bytes).toString('hex');

const FACTS = {
  EnqueueRequest({ queue, requestId, messages }) {
    const [{ payload, priority, ttl, properties }] = messages;
    const { name, level } = properties;
    return [queue, hex(requestId), messages.length, hex(payload), priority, ttl.seconds, name.text, level.integer];
  },
  DequeueResponse({ leaseId, header, messages: [{ index, message, deliveryCount }] }) {
    return [leaseId, header.epoch, header.copies, index, hex(message.payload), deliveryCount, message.contentType];
  },
  ProduceResponse({ ack, moreAcks }) {
    const last = moreAcks.at(-1);
    return [ack.firstIndex, moreAcks.length, last.firstSequence, last.errors[0].error.reason, last.count];
  },
};

function decode(definition, kind, path) {
  // The service's own (de)serializers: the message types themselves carry none.
  const { Enqueue, Dequeue, Produce } = definition['tandemq.v1.QueueService'];
  const read = {
    EnqueueRequest: Enqueue.requestDeserialize,
    DequeueResponse: Dequeue.responseDeserialize,
    ProduceResponse: Produce.responseDeserialize,
  };
  console.log('facts', FACTS[kind](read[kind](readFileSync(path))).join());
}

module.exports = { decode };
