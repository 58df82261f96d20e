// Calls to the service this page comes from.

import { $ } from "./dom.js";

const KEY = "genius token";
const PLAIN = /^[ -~]+$/;
let asking = null;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const token = () => sessionStorage.getItem(KEY);

const complain = (message) => { $("token-wrong").textContent = message; };

/** Ask for a token; false if none is given. */
function askForToken(complaint) {
  return new Promise((done) => {
    const dialog = $("token");
    $("token-text").value = "";
    complain(complaint);
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      const given = dialog.returnValue === "given";
      if (given) sessionStorage.setItem(KEY, $("token-text").value.trim());
      asking = null;
      done(given);
    }, { once: true });
    dialog.showModal();
  });
}

$("token-form").addEventListener("submit", (event) => {
  if (PLAIN.test($("token-text").value.trim())) return;
  event.preventDefault(); // the service takes no other, and no request can carry some
  complain("A token is made of plain letters, digits and signs. This one is not.");
});

/** Another token than the one that was refused, asked for once for all who need it. */
async function replaceToken(refused) {
  if (!asking && token() && token() !== refused) return true; // somebody was asked meanwhile
  sessionStorage.removeItem(KEY);
  asking ??= askForToken(refused ? "The token was not accepted." : "");
  return asking;
}

async function call(path, options = {}) {
  const shown = token();
  const authorization = shown ? { Authorization: `Bearer ${shown}` } : {};
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: { ...authorization, ...options.headers } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The service does not answer. Is it still running?");
  }
  if (answer.status === 401 && (await replaceToken(shown))) return call(path, options);
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

/** A cell with some `samples` of its items, and so many `children` with some `faces` of theirs. */
export async function cell(prefix, { samples = 0, children = 0, faces = 0, start = 0, signal } = {}) {
  const asked = new URLSearchParams({ samples, children, child_samples: faces, start });
  return (await call(`/codes/${prefix}?${asked}`, { signal })).json();
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
