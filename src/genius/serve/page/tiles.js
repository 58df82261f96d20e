// An item in a small box: its image, or its text.

import { showImage } from "./api.js";
import { make } from "./dom.js";

const SIDE = 24; // of the copy whose margin is looked at
const WHITE = 243; // from this value on, a colour counts as white
const SHARE = 0.3; // of the margin that is white, beside three corners
const canvas = make("canvas", { width: SIDE, height: SIDE });

export const altText = (item) => item.text || `Picture ${item.id}`;

/** Whether an image stands on white, as products and drawings do; a photo has at most a white sky. */
function standsOnWhite(image) {
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0, SIDE, SIDE);
  const { data } = context.getImageData(0, 0, SIDE, SIDE);
  const isWhite = ([row, column]) => [0, 1, 2].every((colour) => data[4 * (row * SIDE + column) + colour] >= WHITE);
  const last = SIDE - 1;
  const corners = [[0, 0], [0, last], [last, 0], [last, last]];
  const margin = Array.from({ length: SIDE }, (_, at) => [[0, at], [last, at], [at, 0], [at, last]]).flat();
  return corners.filter(isWhite).length >= 3 && margin.filter(isWhite).length >= SHARE * margin.length;
}

/** An <img> of an item. Photos fill its box to the edges; what stands on white keeps a margin. */
export function itemImage(item, size, properties = {}) {
  const image = make("img", { alt: altText(item), decoding: "async", ...properties });
  image.addEventListener("load", () => image.closest(".image")?.classList.toggle("matte", standsOnWhite(image)), { once: true });
  image.addEventListener("error", () => {
    const box = image.closest(".image");
    box?.classList.add("broken");
    box?.replaceChildren(make("span", { text: "The picture can't be read." }));
  }, { once: true });
  showImage(image, item.id, size);
  return image;
}

/** An item's image, or its text if it has none. */
export function tile(item, size) {
  if (!item.has_image) return make("div", { class: "tile words" }, make("span", { text: item.text }));
  return make("div", { class: "tile image" }, itemImage(item, size, { loading: "lazy" }));
}
