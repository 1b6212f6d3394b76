// Store settings of the page across reloads, if the browser allows it.

export function recall(name, storage = "localStorage") {
  try {
    return window[storage].getItem(name);
  } catch {
    return null;
  }
}

export function remember(name, value, storage = "localStorage") {
  try {
    if (value === null) window[storage].removeItem(name);
    else window[storage].setItem(name, value);
  } catch {
    // Without storage, the setting lasts until the page is closed.
  }
}
