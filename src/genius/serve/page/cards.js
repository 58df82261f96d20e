// Items as cards, and as the small tiles of a cell.

import { addressOf, addressWith } from "./address.js";
import { make, modalityName, pathLine } from "./dom.js";
import { cardMetadata } from "./metadata.js";
import { tile } from "./tiles.js";

/** How many items of a cell its mosaic shows. */
export const MOSAIC_ITEMS = 6;

const entries = new WeakMap(); // what cards show

/** What a card shows: an item, perhaps with the hit that it is and what explains it. */
export const entryOf = (card) => entries.get(card);

/** An item as a card; `hit` is given where a search found it, `onWhy` where that can be explained. */
export function card(item, { hit = null, onWhy = null, keys = [] } = {}) {
  const text = item.has_image && item.text ? make("p", { class: "says", text: item.text }) : null;
  const score = Number.isFinite(hit?.score) ? make("span", { class: "score", text: hit.score.toFixed(3), title: meaning(hit) }) : null;
  const element = make(
    "li",
    { class: item.has_image ? "card" : "card wordy", "data-id": item.id },
    make("a", { class: "open", href: addressWith("item", item.id), title: "Show it large" }, tile(item, 384)),
    text,
    cardMetadata(item.metadata, keys),
    make("p", { class: "meta" }, make("span", { class: "kind", text: modalityName(item.modality) }), score),
    pathLine(item.id),
    actions({ item, onWhy }),
  );
  entries.set(element, { item, hit, onWhy });
  return element;
}

/** What a hit's score means. */
const meaning = ({ confidence }) => (Number.isFinite(confidence) ? `score; confidence ${confidence.toFixed(2)}` : "score");

/** What can be done with an item. */
export function actions({ item, onWhy }) {
  const name = item.text || item.id;
  const button = (text, label, onclick) => make("button", { type: "button", class: "quiet", text, "aria-label": label, onclick });
  return make(
    "div",
    { class: "actions" },
    onWhy ? button("Why", `Why ${name}`, onWhy) : null,
    button("More like this", `More like ${name}`, () => searchSimilar(item)),
  );
}

/** A few tiles, as the face of a cell. */
export function mosaic(items, size = 96) {
  const tiles = items.slice(0, MOSAIC_ITEMS).map((item) => tile(item, size));
  return make("div", { class: `mosaic of${tiles.length}` }, ...tiles);
}

/** Search for items like this one. */
function searchSimilar(item) {
  location.hash = addressOf("/search", new URLSearchParams({ near: item.id }));
}
