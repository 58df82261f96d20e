// Calls to the service this page comes from.

import { $ } from "./dom.js";

const KEY = "genius token";
let asking = null;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const token = () => sessionStorage.getItem(KEY);

function headers() {
  return token() ? { Authorization: `Bearer ${token()}` } : {};
}

/** Ask for the token, once for all who need it. */
function askForToken() {
  asking ??= new Promise((done) => {
    const dialog = $("token");
    $("token-text").value = "";
    dialog.addEventListener("close", () => {
      const given = $("token-text").value.trim();
      if (given) sessionStorage.setItem(KEY, given);
      asking = null;
      done(Boolean(given));
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

async function call(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: { ...headers(), ...options.headers } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The service does not answer. Is it still running?");
  }
  if (answer.status === 401 && (await askForToken())) return call(path, options);
  if (!answer.ok) {
    let message = `The service answers ${answer.status}.`;
    try {
      message = (await answer.json()).error.message;
    } catch { /* it said nothing that could be shown */ }
    throw new Refused(answer.status, message);
  }
  return answer;
}

export const about = async () => (await call("/about")).json();

export async function search(asked, picture, signal) {
  if (!picture) {
    const options = { method: "POST", signal, headers: { "Content-Type": "application/json" } };
    return (await call("/search", { ...options, body: JSON.stringify(asked) })).json();
  }
  const form = new FormData();
  for (const [name, value] of Object.entries(asked)) form.append(name, value);
  form.append("image", picture, "picture");
  return (await call("/search", { method: "POST", body: form, signal })).json();
}

export async function cell(prefix, { children = 48, samples = 6, start = 0, signal } = {}) {
  return (await call(`/codes/${prefix}?children=${children}&samples=${samples}&start=${start}`, { signal })).json();
}

export const item = async (id) => (await call(`/items/${encodeURIComponent(id)}`)).json();

/** Let an <img> show an item's picture; where a token is needed, it is fetched with it. */
export function showPicture(image, id, size) {
  const path = `/items/${encodeURIComponent(id)}/image?size=${size}`;
  image.addEventListener("error", () => image.closest(".picture")?.classList.add("broken"), { once: true });
  if (!token()) {
    image.src = path;
    return;
  }
  call(path).then((answer) => answer.blob()).then((blob) => {
    image.addEventListener("load", () => URL.revokeObjectURL(image.src), { once: true });
    image.src = URL.createObjectURL(blob);
  }).catch(() => image.dispatchEvent(new Event("error")));
}
