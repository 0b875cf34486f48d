// The script: read and checked as a whole before anything is done.
'use strict';

const { readFileSync } = require('node:fs');
const path = require('node:path');

// Keys of each verb, all of them needed.
const VERBS = {
  decode: ['message', 'facts'], create: ['queue', 'type'], send: ['queue', 'count'], stream: ['queue', 'count', 'batch'],
  browse: ['queue', 'first', 'count'], receive: ['queue', 'count'], settle: ['queue'], consume: ['queue', 'count'],
  reply: ['queue'], answers: ['queue', 'count'], expect: ['queue', 'length'], kill: [], handoff: [], await: [],
};
const NUMBERS = ['count', 'batch', 'first', 'length'];
const CHOICES = { type: ['queued_ack', 'two_way'], message: ['EnqueueRequest', 'DequeueResponse', 'ProduceResponse'] };

class ScriptError extends Error {}

function values(verb, words) {
  if (!Object.hasOwn(VERBS, verb)) throw new ScriptError(`unknown verb ${verb}`);
  const text = {};
  for (const word of words) {
    const cut = word.indexOf('=');
    const key = word.slice(0, cut), value = word.slice(cut + 1);
    if (cut < 1 || !value) throw new ScriptError(`${word} is not key=value`);
    if (!VERBS[verb].includes(key)) throw new ScriptError(`${verb} has no ${key}=`);
    if (Object.hasOwn(text, key)) throw new ScriptError(`${key}= is given twice`);
    if (NUMBERS.includes(key) && !/^[0-9]{1,7}$/.test(value)) throw new ScriptError(`${word} is not a number`);
    if (CHOICES[key] && !CHOICES[key].includes(value)) {
      throw new ScriptError(`${word} is none of ${CHOICES[key].join(', ')}`);
    }
    text[key] = NUMBERS.includes(key) ? Number(value) : value;
  }
  for (const key of VERBS[verb]) {
    if (!Object.hasOwn(text, key)) throw new ScriptError(`${verb} needs ${key}=`);
  }
  return text;
}

function parse(file) {
  return readFileSync(file, 'utf8').split('\n').flatMap((line, i) => {
    const [verb, ...words] = line.split('#')[0].split(/[ \t\r]+/).filter(Boolean);
    if (!verb) return [];
    const at = `${path.basename(file)}:${i + 1}`;
    try {
      return [{ at, verb, ...values(verb, words) }];
    } catch (error) {
      error.message = `${at}: ${error.message}`;
      throw error;
    }
  });
}

module.exports = { parse, ScriptError };
