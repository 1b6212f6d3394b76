// The service worker of the page without a server: after the first visit, the page works offline.
// `elmo page` fills in the version and the files of the page; models are cached when they are loaded.
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

// Cache the files that the page loaded before this worker was in control.
self.addEventListener("message", (event) => {
  const keep = async () => {
    const cache = await caches.open(VERSION);
    for (const address of event.data.keep) if (!(await cache.match(address, { ignoreSearch: true }))) await cache.add(address);
  };
  event.waitUntil(keep().catch(() => {})); // a full cache is not an error
});

async function answer(request) {
  const cache = await caches.open(VERSION);
  const kept = await cache.match(request, { ignoreSearch: true });
  if (kept) return kept;
  const response = await fetch(request);
  if (response.status === 200) cache.put(request, response.clone()).catch(() => {}); // a full cache is not an error
  return response;
}
