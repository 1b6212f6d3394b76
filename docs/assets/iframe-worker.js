/* Search in pages that were opened from disk: browsers allow no worker there, so its script runs in a frame instead. */
if (location.protocol === "file:") {
  /* The theme looks for this name to find its scripts beside the worker. */
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.onerror = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const { contentWindow: inside, contentDocument: page } = this.frame;
      page.open();
      page.write("<html><body></body></html>");
      page.close();
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      /* Scripts are loaded by elements, in order; the worker waits for them as a promise. */
      inside.importScripts = (...addresses) =>
        addresses.reduce((before, address) => before.then(() => this.load(address)), Promise.resolve());
      this.loaded = this.load(url);
      this.loaded.catch((error) => this.onerror && this.onerror(error));
    }

    load(address) {
      return new Promise((resolve, reject) => {
        const script = this.frame.contentDocument.createElement("script");
        script.src = new URL(address, location.href).href;
        script.onload = () => resolve();
        script.onerror = () => reject(new Error(`${address} could not be loaded`));
        this.frame.contentDocument.body.append(script);
      });
    }

    deliver(data) {
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    postMessage(data) {
      this.loaded.then(() => this.deliver(data));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
