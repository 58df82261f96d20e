// The viewer: an item large, with all that is known of it; arrows lead to its neighbours.

import { addressWith, currentAddress } from "./address.js";
import * as api from "./api.js";
import { actions, entryOf } from "./cards.js";
import { $, make, modalityName, setTitle } from "./dom.js";
import { facts } from "./facts.js";
import { allMetadata } from "./metadata.js";
import { itemImage } from "./tiles.js";

const LARGE = 1536;
const SMALL = 384; // as on cards: it is there at once
const SWIPE = 50; // pixels
let current = null; // the id of the item that is shown
let wanted = null; // the id of the item that is to be shown
let title = ""; // of the tab, without the viewer

const cards = () => [...document.querySelectorAll("main > section:not([hidden]) .card")];
const cardOf = (id) => cards().find((card) => card.dataset.id === id);

/** Show the item with this id; null closes the viewer. */
export async function show(id) {
  wanted = id;
  if (id === null || id === current) {
    if (id === null) $("viewer").close();
    return;
  }
  const card = cardOf(id);
  try {
    const entry = card ? entryOf(card) : { item: await api.item(id), onWhy: null };
    if (wanted === id) present(entry);
  } catch (error) {
    if (wanted === id) present(null, error.message);
  }
}

function present(entry, message = "") {
  const viewer = $("viewer");
  if (current === null) title = document.title;
  current = wanted;
  if (entry) setTitle(nameOf(entry.item));
  const close = round("Close", "×", "close", () => viewer.close());
  const back = round("The one before", "‹", "back", () => step(-1));
  const on = round("The next one", "›", "on", () => step(1));
  viewer.replaceChildren(
    entry ? stage(entry.item) : make("div", { class: "stage" }, make("p", { class: "status wrong", text: message })),
    entry ? about(entry) : "",
    back,
    on,
    close,
  );
  refresh();
  if (!viewer.open) viewer.showModal();
  (back.hidden && on.hidden ? close : on.hidden ? back : on).focus();
}

const round = (label, text, kind, onclick) => make("button", { type: "button", class: `round ${kind}`, "aria-label": label, text, onclick });

/** The item itself, large; until it is loaded, as it is on its card. */
function stage(item) {
  if (!item.has_image) return make("div", { class: "stage words" }, make("p", { text: item.text }));
  const small = itemImage(item, SMALL);
  const large = itemImage(item, LARGE, { class: "large" });
  large.addEventListener("load", () => small.remove(), { once: true });
  small.alt = ""; // the same is not read out twice
  return make("div", { class: "stage image" }, small, large);
}

/** What an item is called: by the text of its image, or by its file. */
const nameOf = (item) => (item.has_image && item.text ? item.text : item.id.slice(item.id.lastIndexOf("/") + 1));

/** What is known of an item. */
function about(entry) {
  const { item } = entry;
  return make(
    "div",
    { class: "about" },
    make("h2", { id: "viewer-title", text: nameOf(item) }),
    make("p", { class: "whole", text: item.id }),
    facts.paths && item.has_image ? pathOf(item) : null,
    allMetadata(item.metadata),
    make("p", { class: "small", text: modalityName(item.modality) }),
    actions(entry),
  );
}

/** Where an item's image file is, if it has one; that is asked for only now. */
function pathOf(item) {
  const line = make("p", { class: "whole", hidden: true });
  api.item(item.id).then(({ path }) => {
    line.textContent = path ?? "";
    line.hidden = !path;
  }).catch(() => {}); // the item is shown all the same
  return line;
}

/** Show the arrows that lead somewhere; called when the cards behind the viewer have changed. */
export function refresh() {
  if (current === null) return;
  const all = cards();
  const place = all.findIndex((card) => card.dataset.id === current);
  const [back, on] = [$("viewer").querySelector(".back"), $("viewer").querySelector(".on")];
  back.hidden = place <= 0;
  on.hidden = place < 0 || place === all.length - 1;
}

function step(by) {
  const all = cards();
  const place = all.findIndex((card) => card.dataset.id === current);
  const next = place < 0 ? undefined : all[place + by];
  if (!next) return;
  history.replaceState(history.state, "", addressWith("item", next.dataset.id));
  show(next.dataset.id);
}

/** Leave the address of the item that was shown, and go on at its card. */
function leave() {
  const card = current === null ? null : cardOf(current);
  current = wanted = null;
  card?.querySelector(".open").focus();
  card?.scrollIntoView({ block: "nearest" });
  if (!currentAddress().parameters.has("item")) return;
  if (history.state?.viewer) {
    history.back();
    return;
  }
  history.replaceState(null, "", addressWith("item", null));
  document.title = title;
}

/** A finger that moves to the side leads on, too. */
function watchSwipes(viewer) {
  let began = null; // where a single finger came down
  viewer.addEventListener("touchstart", ({ touches }) => { began = touches.length === 1 ? touches[0] : null; }, { passive: true });
  viewer.addEventListener("touchend", ({ changedTouches: [ended] }) => {
    const [right, down] = began === null ? [0, 0] : [ended.clientX - began.clientX, ended.clientY - began.clientY];
    if (Math.abs(right) > SWIPE && Math.abs(right) > 2 * Math.abs(down)) step(right < 0 ? 1 : -1);
  });
}

export function start() {
  const viewer = $("viewer");
  viewer.addEventListener("close", leave);
  viewer.addEventListener("click", (event) => event.target === viewer && viewer.close());
  viewer.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") step(-1);
    if (event.key === "ArrowRight") step(1);
  });
  watchSwipes(viewer);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a.open");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return; // those open it in another tab
    event.preventDefault();
    history.pushState({ viewer: true }, "", addressWith("item", link.closest(".card").dataset.id));
    show(currentAddress().parameters.get("item"));
  });
}
