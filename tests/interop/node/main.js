// Does what it is told, a step a line on stdin: prints what it sees, and then ok. tests/interop/README.md has the lines.
//
//   node main.js <proto folder> <address> [<directory of credentials>]
'use strict';

const readline = require('node:readline');
const { Client, credentials, load } = require('./client.js');
const { decode } = require('./golden.js');
const copies = require('./copies.js');
const streams = require('./streams.js');

async function main([protos, address, directory]) {
  const definition = load(protos);
  const client = new Client(definition, address, credentials(directory));
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [verb, name, ...values] = line.split(' ');
    if (verb === 'decode') decode(definition, name, ...values);
    else if (verb === 'create' || verb === 'unit') await client[verb](name, ...values);
    else if (verb in copies) await copies[verb](client, name, ...values.map(Number));
    else if (verb in streams) await streams[verb](client.queues, name, ...values.map(Number));
    else await client[verb](name, ...values.map(Number));
    console.log('ok');
  }
}

main(process.argv.slice(2)).then(
  () => process.exit(0),
  (error) => {
    console.error(error.message);
    process.exit(1);
  },
);
