// Send requests to the server of this page, or to the models in the browser; errors have a one-sentence message.
import { say } from "./language.js";
import { recall, remember } from "./storage.js";

const KEY = "elmo-key";

class ApiError extends Error {}

export function serverAddress() {
  return new URL(".", location.href.split("#")[0]).href;
}

export function needsKey() {
  return Boolean(recall(KEY, "sessionStorage"));
}

const modelsAddress = document.querySelector("meta[name=elmo-models]")?.content;

// True if there is no server: `elmo page` wrote the page, and elmo.js computes the vectors.
export const isLocal = modelsAddress !== undefined;

export async function ask(path, body, signal) {
  if (isLocal) return askLocally(path, body, signal);
  for (;;) {
    const answer = await send(path, body, signal);
    if (answer.status !== 401) return read(answer);
    await askForKey();
  }
}

async function askLocally(path, body, signal) {
  try {
    const local = await import("./local.js");
    const content = path === "models" ? await local.open(modelsAddress, showLoading) : await local.answer(path, body);
    signal?.throwIfAborted();
    return content;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(error.name === "ElmoError" ? error.message : say("notLoaded"), { cause: error });
  }
}

function showLoading(share) {
  const bar = document.getElementById("loading");
  bar.hidden = share >= 1;
  bar.querySelector("progress").value = share;
}

async function send(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const key = recall(KEY, "sessionStorage");
  if (key) headers.Authorization = `Bearer ${key}`;
  try {
    return await fetch(path, body ? { method: "POST", headers, body: JSON.stringify(body), signal } : { headers, signal });
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
  // Concurrent requests without a key share one dialog.
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
