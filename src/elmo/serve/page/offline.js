// The service worker of the page without a server: after the first visit it works without a network.
// `elmo page` writes it beside index.html, with the version and the files of the page; models are kept as they arrive.
const VERSION = "{{version}}";
const FILES = ["{{files}}"];

self.addEventListener("install", (event) => {
  const keep = async () => (await caches.open(VERSION)).addAll(FILES);
  event.waitUntil(keep().then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  const remove = async () => {
    for (const name of await caches.keys()) if (name !== VERSION) await caches.delete(name);
  };
  event.waitUntil(remove().then(() => self.clients.claim()));
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || new URL(request.url).origin !== location.origin) return;
  event.respondWith(answer(request));
});

// What the page loaded before this worker controlled it.
self.addEventListener("message", (event) => {
  const keep = async () => {
    const cache = await caches.open(VERSION);
    for (const address of event.data.keep) if (!(await cache.match(address, { ignoreSearch: true }))) await cache.add(address);
  };
  event.waitUntil(keep().catch(() => {})); // no room is no error
});

async function answer(request) {
  const cache = await caches.open(VERSION);
  const kept = await cache.match(request, { ignoreSearch: true });
  if (kept) return kept;
  const response = await fetch(request);
  if (response.status === 200) cache.put(request, response.clone()).catch(() => {}); // no room is no error
  return response;
}
