// Refusals for want of copies: what a member says beside the status is in the details, a google.rpc.Status.
'use strict';

const protobuf = require('protobufjs');
const { again, deadline, id, payload } = require('./client.js');

const { root } = protobuf.parse(`
  syntax = "proto3";
  package google.rpc;
  message Any { string type_url = 1; bytes value = 2; }
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message ErrorInfo { string reason = 1; string domain = 2; map<string, string> metadata = 3; }`);
const [Status, ErrorInfo] = ['google.rpc.Status', 'google.rpc.ErrorInfo'].map((name) => root.lookupType(name));

// What a member says of a refusal; undefined when the error came from somewhere else.
function infoOf(error) {
  const [data] = error.metadata?.get('grpc-status-details-bin') ?? [];
  if (!data) return undefined;
  const { code, details } = Status.decode(data);
  if (code !== error.code) throw new Error(`the details say ${code}, the status ${error.code}`);
  const part = details.find(({ type_url: type, typeUrl }) => (type ?? typeUrl).endsWith('/google.rpc.ErrorInfo'));
  const info = part && ErrorInfo.decode(part.value);
  return info?.domain === 'tandemq' ? info : undefined;
}

let asked;

// Makes a queue that acknowledges on two copies only.
async function pairwise({ admin }, name) {
  const request = { name, requestId: id(), config: { requireTwo: true } };
  await again(() => call(admin, 'CreateQueue', request));
}

// Sends a message that has to be on so many copies.
async function ask(client, queue, number, minCopies) {
  asked = { queue, requestId: id(), messages: [{ payload: payload(number) }], minCopies };
  await once(client);
}

// Sends what was asked for last. A refusal for want of copies is final for now, and says in its metadata whether the
// message is stored all the same, on fewer: it is there then, and only the same request may be sent again.
async function once({ queues }) {
  await again(async () => {
    try {
      const { results } = await call(queues, 'Enqueue', asked);
      console.log('sent', results[0].index);
    } catch (error) {
      const info = infoOf(error);
      if (info?.reason !== 'NOT_ENOUGH_COPIES') throw error;
      console.log('refused', error.code, info.reason, info.metadata.outcome ?? '-');
    }
  });
}

const call = (service, method, request) =>
  new Promise((resolve, reject) =>
    service[method](request, deadline(), (error, answer) => (error ? reject(error) : resolve(answer))),
  );

module.exports = { ask, once, pairwise };
