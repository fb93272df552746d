// Tries submit.js in Node.js: a browser that is a Map, and a server that loses answers.
import assert from "node:assert/strict";
import { keyOf, submit } from "./submit.js";

const stored = new Map();
globalThis.sessionStorage = {
  getItem: (name) => stored.get(name) ?? null,
  setItem: (name, value) => stored.set(name, value),
  removeItem: (name) => stored.delete(name),
};
globalThis.setTimeout = (resolve) => queueMicrotask(resolve); // no waiting

/** What happens to each request: its status, or "lost" if there is no answer. */
let answers = [];
const keys = [];
globalThis.fetch = async (_url, { headers }) => {
  keys.push(headers["Idempotency-Key"]);
  const answer = (await answers.shift()) ?? 200;
  if (answer === "lost") throw new TypeError("no answer");
  return { status: answer };
};
async function submitted(...given) {
  answers = given;
  keys.length = 0;
  return submit("order", "/orders", "{}");
}

// A request that is lost, in progress, refused for a while: one key for all of its attempts.
assert.equal((await submitted("lost", 503, 409, 429, 201)).status, 201);
assert.equal(keys.length, 5);
assert.equal(new Set(keys).size, 1);
const first = keys[0];

// The next submit is another one, also after a refusal.
assert.equal((await submitted(422)).status, 422);
assert.notEqual(keys[0], first);
const second = keys[0];

// Unknown to the last: the user presses the button again, or loads the page, and the key is the same.
await assert.rejects(submitted("lost", "lost", "lost", "lost", "lost"), /no answer/);
const third = keys[0];
assert.notEqual(third, second);
assert.equal(`"${keyOf("order")}"`, third);
assert.equal((await submitted(503, 503, 503, 503, 503)).status, 503);
assert.equal(keys[0], third);
assert.equal((await submitted(200)).status, 200);
assert.equal(keys[0], third);

// Two clicks at once have one key; another form has its own.
answers = [];
keys.length = 0;
await Promise.all([submit("order", "/orders", "{}"), submit("order", "/orders", "{}")]);
assert.equal(new Set(keys).size, 1);
assert.notEqual(keyOf("order"), keyOf("refund"));

// The late end of a click leaves the next submit its key, while nobody knows of that one.
let late;
answers = [200, new Promise((resolve) => (late = resolve))];
const clicks = [submit("order", "/orders", "{}"), submit("order", "/orders", "{}")];
await clicks[0];
const next = keyOf("order");
late(200);
await clicks[1];
assert.equal(keyOf("order"), next);
assert.match(first, /^"[0-9a-f-]{36}"$/);
console.log("tried");
