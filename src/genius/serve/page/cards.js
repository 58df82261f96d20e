// Items as cards, and as the small tiles of a cell.

import { showPicture } from "./api.js";
import { make, nameOf } from "./dom.js";

/** How many items of a cell its face shows. */
export const FACES = 6;

const alternative = (item) => item.text || `Picture ${item.id}`;

/** A picture, or where there is none the text. */
export function tile(item, size) {
  if (!item.has_image) return make("div", { class: "tile words" }, make("span", { text: item.text }));
  const image = make("img", { alt: alternative(item), loading: "lazy", decoding: "async" });
  showPicture(image, item.id, size);
  return make("div", { class: "tile picture" }, image);
}

/** An item as a card; `hit` and what can be done with it are given where it was found by a search. */
export function card(item, { hit = null, why = null, similar = null } = {}) {
  const words = item.has_image && item.text ? make("p", { class: "says", text: item.text }) : null;
  const facts = make(
    "p",
    { class: "meta" },
    make("span", { class: "kind", text: nameOf(item.modality) }),
    hit ? make("span", { class: "score", text: hit.score.toFixed(3), title: "score" }) : null,
  );
  const name = make("p", { class: "id", text: item.id, title: item.id });
  const called = item.text || item.id;
  const actions = make(
    "div",
    { class: "actions" },
    why ? make("button", { type: "button", class: "quiet", text: "Why", "aria-label": `Why ${called}`, onclick: why }) : null,
    similar
      ? make("button", { type: "button", class: "quiet", text: "More like this", "aria-label": `More like ${called}`, onclick: similar })
      : null,
  );
  return make("li", { class: "card", "data-id": item.id }, tile(item, 384), words, facts, name, actions);
}

/** A few tiles, as the face of a cell. */
export function mosaic(some, size = 96) {
  const shown = some.slice(0, FACES);
  return make("div", { class: `mosaic of${shown.length}` }, ...shown.map((item) => tile(item, size)));
}
