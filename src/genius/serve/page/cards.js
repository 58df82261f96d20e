// Items as cards, and as the small tiles of a cell.

import { showImage } from "./api.js";
import { make, nameOf } from "./dom.js";

/** How many items of a cell its mosaic shows. */
export const MOSAIC_ITEMS = 6;

const altText = (item) => item.text || `Picture ${item.id}`;

/** An item's image, or its text if it has none. */
export function tile(item, size) {
  if (!item.has_image) return make("div", { class: "tile words" }, make("span", { text: item.text }));
  const image = make("img", { alt: altText(item), loading: "lazy", decoding: "async" });
  showImage(image, item.id, size);
  return make("div", { class: "tile image" }, image);
}

/** An item as a card; `hit` is given where a search found it, and its actions where there are some. */
export function card(item, { hit = null, onWhy = null, onSimilar = null } = {}) {
  const text = item.has_image && item.text ? make("p", { class: "says", text: item.text }) : null;
  const facts = make(
    "p",
    { class: "meta" },
    make("span", { class: "kind", text: nameOf(item.modality) }),
    hit ? make("span", { class: "score", text: hit.score.toFixed(3), title: "score" }) : null,
  );
  const id = make("p", { class: "id", text: item.id, title: item.id });
  const name = item.text || item.id;
  const button = (text, label, onclick) => make("button", { type: "button", class: "quiet", text, "aria-label": label, onclick });
  const actions = make(
    "div",
    { class: "actions" },
    onWhy ? button("Why", `Why ${name}`, onWhy) : null,
    onSimilar ? button("More like this", `More like ${name}`, onSimilar) : null,
  );
  return make("li", { class: "card", "data-id": item.id }, tile(item, 384), text, facts, id, actions);
}

/** A few tiles, as the face of a cell. */
export function mosaic(items, size = 96) {
  const tiles = items.slice(0, MOSAIC_ITEMS).map((item) => tile(item, size));
  return make("div", { class: `mosaic of${tiles.length}` }, ...tiles);
}

/** Search for items like this one. */
export function searchSimilar(item) {
  location.hash = `#/search?${new URLSearchParams({ near: item.id })}`;
}
