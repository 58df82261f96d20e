// Codes: the collection as a tree of codes, from coarse to fine.

import * as api from "./api.js";
import { card, mosaic, MOSAIC_ITEMS } from "./cards.js";
import { $, count, ghosts, items, make, MODALITIES, moveFocus, say, setTitle } from "./dom.js";
import { facts } from "./facts.js";

const PAGE = 48; // cells shown at a time
const MAX_ITEMS = 24; // items shown of a cell
const labels = new Map(); // by prefix
let running = null; // the controller of the request under way
let shown = null; // the prefix that is shown or being loaded

const rootName = (code) => (code === "*" ? "All kinds together" : MODALITIES[code] ?? `Code ${code}`);

/** What a prefix is called: its label, or its last code. */
function nameOf(prefix) {
  const codes = prefix.split("-");
  if (!prefix) return "The collection";
  if (codes.length === 1 && facts.modality_first) return rootName(codes[0]);
  return labels.get(prefix) || `Code ${codes.at(-1)}`;
}

function showCrumbs(prefix) {
  const codes = prefix ? prefix.split("-") : [];
  const prefixes = ["", ...codes.map((_, level) => codes.slice(0, level + 1).join("-"))];
  const links = prefixes.map((ancestor, depth) => make("li", {}, make("a", {
    href: `#/explore/${ancestor || "codes"}`,
    "data-prefix": ancestor,
    text: nameOf(ancestor),
    "aria-current": depth === prefixes.length - 1 ? "page" : null,
  })));
  $("crumbs").replaceChildren(make("ol", {}, ...(prefix ? links : [])));
}

/** Show the cell of a prefix; null stands for an invalid one. */
export async function show(prefix) {
  if (prefix !== null && prefix === shown) {
    setTitle(`${nameOf(prefix)} · Explore`);
    moveFocus($("cell-head").firstChild ?? $("explore-status"));
    return; // an item of it was opened or closed
  }
  shown = prefix;
  window.scrollTo(0, 0);
  running?.abort();
  const controller = (running = new AbortController());
  clear(prefix ?? "");
  if (prefix === null) {
    const showRoot = () => { location.hash = "#/explore/codes"; };
    showError("This address names no code. One is written as in 0-17-3.", "Show the collection", showRoot);
    return;
  }
  $("cells").setAttribute("aria-busy", "true");
  $("cells").replaceChildren(...ghosts(8, "wide", "div"));
  say($("explore-status"), "Loading…");
  moveFocus($("explore-status"));
  try {
    const samples = prefix ? MAX_ITEMS : 0; // of the whole collection only cells are shown
    const options = { samples, children: PAGE, childSamples: MOSAIC_ITEMS, signal: controller.signal };
    const cell = await api.cell(prefix, options);
    if (controller === running) present(prefix, cell);
    nameAncestors(prefix, controller).catch(() => {}); // the page works without their names
  } catch (error) {
    if (error.name === "AbortError" || controller !== running) return;
    clear(prefix);
    shown = null;
    showError(error.message, "Try again", () => show(prefix));
  } finally {
    if (controller === running) $("cells").removeAttribute("aria-busy");
  }
}

/** Another view takes the place of the cells. */
export function leave() {
  running?.abort();
  running = shown = null;
}

function clear(prefix) {
  showCrumbs(prefix);
  for (const id of ["cell-head", "cells", "cell-items"]) $(id).replaceChildren();
  $("cells").removeAttribute("aria-busy");
}

function showError(message, text, run) {
  say($("explore-status"), message, "wrong", { text, run });
  moveFocus($("explore-status"));
}

/** Load the labels of the cells above, which a visitor who followed a link has not seen. */
async function nameAncestors(prefix, controller) {
  const codes = prefix.split("-");
  for (let depth = 2; depth < codes.length; depth += 1) {
    const ancestor = codes.slice(0, depth).join("-");
    if (!labels.has(ancestor)) {
      const cell = await api.cell(ancestor, { signal: controller.signal });
      labels.set(ancestor, cell.label);
    }
  }
  if (controller !== running) return;
  for (const link of $("crumbs").querySelectorAll("a")) link.textContent = nameOf(link.dataset.prefix);
}

function present(prefix, cell) {
  labels.set(prefix, cell.label);
  for (const child of cell.children) labels.set(child.prefix, child.label);
  showCrumbs(prefix);
  showHead(prefix, cell);
  if (!$("explore").hidden) setTitle(`${nameOf(prefix)} · Explore`);
  const links = cell.children.map(cellLink);
  if (!prefix && facts.modality_first && cell.children_total > 1) links.unshift(allModalitiesLink(cell));
  const single = cell.children_total <= 1 && cell.count <= MAX_ITEMS;
  $("cells").replaceChildren(...(single ? [] : links));
  if (cell.children_total > cell.children.length) showMoreButton(prefix, cell);
  if (cell.count) say($("explore-status"), `${nameOf(prefix)}: ${items(cell.count)}`, "unseen");
  else say($("explore-status"), "There is nothing under this code.", "empty");
  if (prefix && cell.count && (cell.count <= MAX_ITEMS || !cell.children_total)) showItems(cell);
  moveFocus($("cell-head").firstChild, $("explore-status"));
}

function showHead(prefix, cell) {
  const code = prefix ? make("span", { class: "code", text: prefix.replaceAll("-", " – ") }) : null;
  const cells = cell.children_total ? `, in ${count(cell.children_total, "cell", "cells")}` : "";
  const lead = prefix
    ? `${items(cell.count)}${cells}`
    : "Every item has a code, from coarse to fine. Walk down: each step keeps what is more alike.";
  const title = make("h1", { tabindex: -1, text: nameOf(prefix) });
  $("cell-head").replaceChildren(title, make("p", { class: "lead" }, code, make("span", { text: lead })));
}

function cellLink(child) {
  return make(
    "a",
    { class: "cell", href: `#/explore/${child.prefix}`, "data-prefix": child.prefix },
    mosaic(child.items, 192),
    make("span", { class: "label", text: nameOf(child.prefix) }),
    make("span", { class: "small" }, make("span", { text: items(child.count) }), make("span", { class: "code", text: child.code })),
  );
}

/** The first link of the root: the semantic codes alone, whatever the modality. */
function allModalitiesLink(root) {
  const samples = root.children.flatMap((child) => child.items.slice(0, 2));
  return cellLink({ prefix: "*", items: samples, count: root.count, code: "*" });
}

function showMoreButton(prefix, cell) {
  const button = make("button", { type: "button", class: "quiet", text: "Show more cells" });
  let start = cell.children.length;
  let loading = false;
  button.addEventListener("click", async () => {
    if (loading) return; // the button is not disabled meanwhile, as it would lose the focus
    loading = true;
    say($("explore-status"), "Loading…", "unseen");
    try {
      const next = await api.cell(prefix, { children: PAGE, childSamples: MOSAIC_ITEMS, start });
      if (!button.isConnected) return;
      for (const child of next.children) labels.set(child.prefix, child.label);
      const links = next.children.map(cellLink);
      $("cells").append(...links);
      start += links.length;
      say($("explore-status"), `${start} of ${next.children_total} cells`, "unseen");
      if (document.activeElement === button) links[0]?.focus();
      if (start >= next.children_total || !links.length) button.remove();
    } catch (error) {
      if (button.isConnected) say($("explore-status"), error.message, "wrong");
    } finally {
      loading = false;
    }
  });
  $("cell-items").replaceChildren(make("p", { class: "centre" }, button));
}

function showItems(cell) {
  const cards = cell.items.map((item) => card(item));
  const title = cell.count > cell.items.length ? `Some of the ${items(cell.count)} here` : "What is here";
  $("cell-items").replaceChildren(make("h2", { text: title }), make("ol", { class: "grid" }, ...cards));
}
