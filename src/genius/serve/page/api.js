// Calls to the service that this page comes from.

import { $ } from "./dom.js";

const TOKEN_KEY = "genius token";
const PLAIN_TEXT = /^[ -~]+$/;
let pendingToken = null; // the promise of the token dialog, while it is open

export class ApiError extends Error {
  constructor(status, message, kind = "") {
    super(message);
    this.status = status;
    this.kind = kind;
  }
}

const token = () => sessionStorage.getItem(TOKEN_KEY);

const showTokenError = (message) => { $("token-wrong").textContent = message; };

/** Open the token dialog; resolves to false if it is closed without a token. */
function askForToken(message) {
  return new Promise((resolve) => {
    const dialog = $("token");
    $("token-text").value = "";
    showTokenError(message);
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      const given = dialog.returnValue === "given";
      if (given) sessionStorage.setItem(TOKEN_KEY, $("token-text").value.trim());
      pendingToken = null;
      resolve(given);
    }, { once: true });
    dialog.showModal();
  });
}

$("token-form").addEventListener("submit", (event) => {
  if (PLAIN_TEXT.test($("token-text").value.trim())) return;
  event.preventDefault(); // the service accepts no other token, and some can't be put into a header
  showTokenError("A token is made of plain letters, digits and signs. This one is not.");
});

/** Replace a token that was refused; concurrent calls share one dialog. */
async function replaceToken(refused) {
  if (!pendingToken && token() && token() !== refused) return true; // another call has replaced it meanwhile
  sessionStorage.removeItem(TOKEN_KEY);
  pendingToken ??= askForToken(refused ? "The token was not accepted." : "");
  return pendingToken;
}

async function call(path, options = {}) {
  const given = token();
  const authorization = given ? { Authorization: `Bearer ${given}` } : {};
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: { ...authorization, ...options.headers } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The service does not answer. Is it still running?");
  }
  if (answer.status === 401 && (await replaceToken(given))) return call(path, options);
  if (!answer.ok) {
    let error = { message: `The service answers ${answer.status}.` };
    try {
      error = (await answer.json()).error;
    } catch { /* the answer has no message to show */ }
    throw new ApiError(answer.status, error.message, error.kind);
  }
  return answer;
}

export const about = async () => (await call("/about")).json();

export const facets = async () => (await call("/facets")).json();

/** Search by the JSON fields of a request, and by an image file if one is given; with `plus_image_weight` that image is
 * added to the query once more, by itself. */
export async function search(fields, image, signal) {
  if (!image) {
    const options = { method: "POST", signal, headers: { "Content-Type": "application/json" } };
    return (await call("/search", { ...options, body: JSON.stringify(fields) })).json();
  }
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    form.append(name, typeof value === "object" ? JSON.stringify(value) : value);
  }
  form.append("image", image, "image");
  if (fields.plus_image_weight) form.append("plus_image", image, "image");
  return (await call("/search", { method: "POST", body: form, signal })).json();
}

/** A cell with up to `samples` of its items, and up to `children` with up to `childSamples` items each. */
export async function cell(prefix, { samples = 0, children = 0, childSamples = 0, start = 0, signal } = {}) {
  const parameters = new URLSearchParams({ samples, children, child_samples: childSamples, start });
  return (await call(`/codes/${prefix}?${parameters}`, { signal })).json();
}

/** An answer on the collection as a whole: albums, duplicates, outliers, sample. What takes longer than a request may,
 * the service goes on with and keeps: so it is asked again until it is done, or until `signal` says to stop. */
export async function collection(path, parameters = {}, signal = undefined) {
  for (;;) {
    try {
      return await (await call(`/${path}?${new URLSearchParams(parameters)}`, { signal })).json();
    } catch (error) {
      if (error.kind !== "timeout") throw error;
    }
  }
}

export const item = async (id) => (await call(`/items/${encodeURIComponent(id)}`)).json();

/** Load an item's image into an <img>; where a token is needed, the image is fetched with it. */
export function showImage(element, id, size) {
  const path = `/items/${encodeURIComponent(id)}/image?size=${size}`;
  if (!token()) {
    element.src = path;
    return;
  }
  call(path).then((answer) => answer.blob()).then((blob) => {
    element.addEventListener("load", () => URL.revokeObjectURL(element.src), { once: true });
    element.src = URL.createObjectURL(blob);
  }).catch(() => element.dispatchEvent(new Event("error")));
}
