// Requests to the server this page came from, or to the answers prepared beside it; what goes wrong becomes one
// sentence.
import { say } from "./language.js";
import { recall, remember } from "./storage.js";

const KEY = "elmo-key";
const ANSWERS = document.documentElement.dataset.answers; // the folder of prepared answers, in a static page
const LIVE = "http://127.0.0.1:8600/"; // where `elmo serve` listens

export const isPrepared = ANSWERS !== undefined;

export class ApiError extends Error {}

export function serverAddress() {
  return isPrepared ? LIVE : new URL(".", location.href.split("#")[0]).href;
}

export function needsKey() {
  return Boolean(recall(KEY, "sessionStorage"));
}

export async function ask(path, body, signal) {
  if (isPrepared) return lookUp(path, body);
  for (;;) {
    const answer = await send(path, body, signal);
    if (answer.status !== 401) return read(answer);
    await askForKey();
  }
}

const files = new Map();

function load(name) {
  if (!files.has(name)) files.set(name, send(ANSWERS + name).then(read));
  return files.get(name);
}

async function lookUp(path, body) {
  const key = body ? `${path} ${JSON.stringify(body, Object.keys(body).sort())}` : path;
  const places = await load("index.json");
  if (!(key in places)) throw new ApiError(say("notPrepared"));
  return (await load(places[key]))[key];
}

async function send(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const key = recall(KEY, "sessionStorage");
  if (key) headers.Authorization = `Bearer ${key}`;
  try {
    return await fetch(path, body ? { method: "POST", headers, body: JSON.stringify(body), signal } : { signal, ...(isPrepared ? {} : { headers }) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(say("offline"));
  }
}

async function read(answer) {
  let content = null;
  try {
    content = await answer.json();
  } catch {
    throw new ApiError(say("offline"));
  }
  if (answer.ok) return content;
  if (answer.status === 503) {
    throw new ApiError(say("overloaded", { seconds: answer.headers.get("Retry-After") ?? "1" }));
  }
  throw new ApiError(say("refused", { message: content?.error?.message ?? `HTTP ${answer.status}` }));
}

let waiting = null;

function askForKey() {
  // Several requests may be refused at once; one dialog answers for all.
  waiting ??= new Promise((resolve) => {
    const dialog = document.getElementById("key-dialog");
    dialog.showModal();
    dialog.addEventListener(
      "close",
      () => {
        remember(KEY, document.getElementById("key").value.trim(), "sessionStorage");
        waiting = null;
        resolve();
      },
      { once: true },
    );
  });
  return waiting;
}
