// Runs elmo.js for test_elmo_js.py: `node elmo_driver.mjs elmo.js requests.json answers.json`.
import fs from "node:fs";
import { pathToFileURL } from "node:url";

const [script, requests, answers] = process.argv.slice(2);
const { Elmo, tokenize } = await import(pathToFileURL(script));
const { folder, texts, calls } = JSON.parse(fs.readFileSync(requests, "utf8"));
const encode = (key, value) => (value instanceof Float32Array ? Array.from(value) : value);
let results;
if (texts) {
  results = texts.map((text) => tokenize(text).map(({ text: word, start }) => [word, start]));
} else {
  const model = await Elmo.load(folder);
  results = [];
  for (const [method, ...given] of calls) {
    try {
      results.push(await model[method](...given));
    } catch (error) {
      results.push({ error: `${error.name}: ${error.message}` });
    }
  }
}
fs.writeFileSync(answers, JSON.stringify(results, encode));
