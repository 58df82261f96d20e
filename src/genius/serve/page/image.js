// The image to search by: picked, dropped or pasted.

import { $, make } from "./dom.js";

const isImage = (file) => file && file.type.startsWith("image/");

const kept = new Map();

/** Keep an image while the tab lives, so that one can go back to its search; returns its name in addresses. */
export function keepImage(file) {
  const name = Date.now().toString(36); // never that of an image from before a reload
  kept.set(name, file);
  return name;
}

export const keptImage = (name) => kept.get(name) ?? null;

/** Call `onImage` with each image that is picked, pasted or dropped. */
export function watchImages(onImage) {
  $("file").addEventListener("change", () => {
    if ($("file").files[0]) onImage($("file").files[0]);
    $("file").value = "";
  });
  document.addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find(isImage);
    const words = event.target.closest?.("input, textarea") && event.clipboardData?.getData("text/plain");
    if (file && !words) { // office programs copy words as an image, too
      event.preventDefault();
      onImage(file);
    }
  });
  watchDrops(onImage);
}

function watchDrops(onImage) {
  let depth = 0; // elements that the dragged file has entered and not left
  const holdsFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const showVeil = (shown) => { $("veil").hidden = !shown; };
  document.addEventListener("dragenter", (event) => {
    if (holdsFiles(event)) showVeil(++depth > 0);
  });
  document.addEventListener("dragleave", (event) => {
    if (holdsFiles(event)) showVeil(--depth > 0);
  });
  document.addEventListener("dragover", (event) => holdsFiles(event) && event.preventDefault());
  document.addEventListener("drop", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    depth = 0;
    showVeil(false);
    if (event.dataTransfer.files[0]) onImage(event.dataTransfer.files[0]);
  });
}

/** Show what is searched by beside the words: an image, or an item to find more like; null shows nothing. */
export function showChosen(content, name, onRemove) {
  const place = $("chosen");
  place.replaceChildren();
  place.hidden = !content;
  if (!content) return;
  const remove = make("button", { type: "button", class: "away", "aria-label": `Remove ${name}`, text: "×", onclick: onRemove });
  place.append(content, make("span", { class: "unseen", text: `Searching by ${name}` }), remove);
}

/** A small preview of an image file. */
export function preview(file) {
  const image = make("img", { alt: "The picture that you search by" });
  image.src = URL.createObjectURL(file);
  image.addEventListener("load", () => URL.revokeObjectURL(image.src), { once: true });
  return make("div", { class: "tile image" }, image);
}
