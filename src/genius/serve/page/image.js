// The picture that is searched by: picked, dropped or pasted.

import { $, make } from "./dom.js";

const isPicture = (file) => file && file.type.startsWith("image/");

const kept = new Map();

/** Keep a picture while the tab lives, so that one can go back to its search; gives its name in addresses. */
export function keep(file) {
  const name = Date.now().toString(36); // never that of a picture from before a reload
  kept.set(name, file);
  return name;
}

export const pictureCalled = (name) => kept.get(name) ?? null;

/** Watch for pictures; `took` is called with each. */
export function watchPictures(took) {
  $("file").addEventListener("change", () => {
    if ($("file").files[0]) took($("file").files[0]);
    $("file").value = "";
  });
  document.addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find(isPicture);
    const words = event.target.closest?.("input, textarea") && event.clipboardData?.getData("text/plain");
    if (file && !words) { // office programs copy words as a picture, too
      event.preventDefault();
      took(file);
    }
  });
  let depth = 0;
  const holds = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const veil = (shown) => { $("veil").hidden = !shown; };
  document.addEventListener("dragenter", (event) => {
    if (holds(event)) veil(++depth > 0);
  });
  document.addEventListener("dragleave", (event) => {
    if (holds(event)) veil(--depth > 0);
  });
  document.addEventListener("dragover", (event) => holds(event) && event.preventDefault());
  document.addEventListener("drop", (event) => {
    if (!holds(event)) return;
    event.preventDefault();
    depth = 0;
    veil(false);
    if (event.dataTransfer.files[0]) took(event.dataTransfer.files[0]);
  });
}

/** Show what is searched by beside the words: a file, or an item to find more like; null shows nothing. */
export function showChosen(content, name, drop) {
  const place = $("chosen");
  place.replaceChildren();
  place.hidden = !content;
  if (!content) return;
  const away = make("button", { type: "button", class: "away", "aria-label": `Remove ${name}`, text: "×", onclick: drop });
  place.append(content, make("span", { class: "unseen", text: `Searching by ${name}` }), away);
}

/** A small preview of a file. */
export function preview(file) {
  const image = make("img", { alt: "The picture that you search by" });
  image.src = URL.createObjectURL(file);
  image.addEventListener("load", () => URL.revokeObjectURL(image.src), { once: true });
  return make("div", { class: "tile picture" }, image);
}
