// Run by `npm test`; the comparison with Python is tests/serve/test_elmo_js.py.
import assert from "node:assert/strict";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { Elmo, ElmoError, cosine, readMarked, tokenize } from "../../../src/elmo/serve/page/elmo.js";

const FOLDER = fileURLToPath(new URL("../../../src/elmo/models/en-small", import.meta.url));
const model = await Elmo.load(FOLDER);

test("a word has the vector of its sentence", async () => {
  const money = "I went to the [bank] to deposit money", cash = "He took cash to the [bank]", river = "I sat by the [bank] of the river";
  assert.ok((await model.similarity(money, cash)) > (await model.similarity(money, river)));
  assert.equal(await model.similarity(money, money, { layers: "top" }), 1);
});

test("a sentence has the same vectors alone and in a batch", async () => {
  const alone = await model.embed("I went to the bank");
  const [, batched] = await model.embed(["A much longer sentence stands beside it here", "I went to the bank"]);
  assert.deepEqual(alone.data, batched.data);
  assert.deepEqual(alone.shape, [5, model.dim + model.config.context.settings.dim]);
});

test("words have offsets", () => {
  assert.deepEqual(tokenize("Don't, 他!").map(({ text }) => text), ["Don", "'t", ",", "他", "!"]);
  assert.deepEqual(readMarked("the [bank] here"), { text: "the bank here", start: 4, end: 8 });
});

test("mistakes are named", async () => {
  await assert.rejects(model.embed("a", { layers: "none" }), ElmoError);
  await assert.rejects(model.similarity("no mark", "a [b]"), /exactly one in brackets/);
  await assert.rejects(Elmo.load("nowhere/"), ElmoError);
});

test("cosines stay within 1", () => assert.equal(cosine([3, 4], [6, 8]), 1));
