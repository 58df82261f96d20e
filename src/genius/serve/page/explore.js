// Explore: the collection as a tree of codes, from coarse to fine.

import * as api from "./api.js";
import { card, FACES, mosaic } from "./cards.js";
import { $, follow, ghosts, items, make, MODALITIES, say } from "./dom.js";
import { facts } from "./facts.js";

const PAGE = 48;
const FEW = 24;
const labels = new Map();
let running = null;

const firstName = (code) => (code === "*" ? "All kinds together" : MODALITIES[code] ?? `Code ${code}`);

/** What a prefix is called: its label, or its last number. */
function nameOf(prefix) {
  const codes = prefix.split("-");
  if (!prefix) return "The collection";
  if (codes.length === 1 && facts.modality_first) return firstName(codes[0]);
  return labels.get(prefix) || `Code ${codes.at(-1)}`;
}

function crumbs(prefix) {
  const codes = prefix ? prefix.split("-") : [];
  const places = ["", ...codes.map((_, level) => codes.slice(0, level + 1).join("-"))];
  const links = places.map((place, number) => make("li", {}, make("a", {
    href: `#/explore/${place}`,
    "data-prefix": place,
    text: nameOf(place),
    "aria-current": number === places.length - 1 ? "page" : null,
  })));
  $("crumbs").replaceChildren(make("ol", {}, ...(prefix ? links : [])));
}

/** Show a cell; null is one that can't be. */
export async function show(prefix) {
  running?.abort();
  const mine = (running = new AbortController());
  clear(prefix ?? "");
  if (prefix === null) {
    const home = () => { location.hash = "#/explore"; };
    wrong("This address names no code. One is written as in 0-17-3.", "Show the collection", home);
    return;
  }
  $("cells").setAttribute("aria-busy", "true");
  $("cells").replaceChildren(...ghosts(8, "wide", "div"));
  say($("explore-status"), "Loading…");
  follow($("explore-status"));
  try {
    const samples = prefix ? FEW : 0; // of the whole collection only cells are shown
    const found = await api.cell(prefix, { samples, children: PAGE, faces: FACES, signal: mine.signal });
    if (mine === running) present(prefix, found);
    nameAncestors(prefix, mine).catch(() => {}); // names of what is above are a help, and no more
  } catch (error) {
    if (error.name === "AbortError" || mine !== running) return;
    clear(prefix);
    wrong(error.message, "Try again", () => show(prefix));
  } finally {
    if (mine === running) $("cells").removeAttribute("aria-busy");
  }
}

function clear(prefix) {
  crumbs(prefix);
  for (const id of ["cell-head", "cells", "cell-items"]) $(id).replaceChildren();
  $("cells").removeAttribute("aria-busy");
}

function wrong(message, text, run) {
  say($("explore-status"), message, "wrong", { text, run });
  follow($("explore-status"));
}

/** Who comes by a link has not seen the cells above. */
async function nameAncestors(prefix, mine) {
  const codes = prefix.split("-");
  for (let depth = 2; depth < codes.length; depth += 1) {
    const place = codes.slice(0, depth).join("-");
    if (!labels.has(place)) {
      const found = await api.cell(place, { signal: mine.signal });
      labels.set(place, found.label);
    }
  }
  if (mine !== running) return;
  for (const link of $("crumbs").querySelectorAll("a")) link.textContent = nameOf(link.dataset.prefix);
}

function present(prefix, found) {
  labels.set(prefix, found.label);
  for (const child of found.children) labels.set(child.prefix, child.label);
  crumbs(prefix);
  head(prefix, found);
  const cells = found.children.map(link);
  if (!prefix && facts.modality_first && found.count) cells.unshift(together(found));
  const single = found.children_total <= 1 && found.count <= FEW;
  $("cells").replaceChildren(...(single ? [] : cells));
  if (found.children_total > found.children.length) more(prefix, found);
  if (found.count) say($("explore-status"), `${nameOf(prefix)}: ${items(found.count)}`, "unseen");
  else say($("explore-status"), "There is nothing under this code.", "empty");
  if (prefix && found.count && (found.count <= FEW || !found.children_total)) all(found);
  follow($("cell-head").firstChild, $("explore-status"));
}

function head(prefix, found) {
  const code = prefix ? make("span", { class: "code", text: prefix.replaceAll("-", " – ") }) : null;
  const finer = found.children_total ? `, in ${found.children_total.toLocaleString("en")} ${found.children_total === 1 ? "cell" : "cells"}` : "";
  const lead = prefix
    ? `${items(found.count)}${finer}`
    : "Every item has a code, from coarse to fine. Walk down: each step keeps what is more alike.";
  const title = make("h1", { tabindex: -1, text: nameOf(prefix) });
  $("cell-head").replaceChildren(title, make("p", { class: "lead" }, code, make("span", { text: lead })));
}

function link(child) {
  return make(
    "a",
    { class: "cell", href: `#/explore/${child.prefix}`, "data-prefix": child.prefix },
    mosaic(child.items),
    make("span", { class: "label", text: nameOf(child.prefix) }),
    make("span", { class: "small" }, make("span", { text: items(child.count) }), make("span", { class: "code", text: child.code })),
  );
}

/** The root's first cell: codes of meaning alone, whatever the modality. */
function together(found) {
  const kinds = found.children.flatMap((child) => child.items.slice(0, 2));
  return link({ prefix: "*", items: kinds, count: found.count, code: "*" });
}

function more(prefix, found) {
  const button = make("button", { type: "button", class: "quiet", text: "Show more cells" });
  let start = found.children.length;
  let loading = false;
  button.addEventListener("click", async () => {
    if (loading) return; // it is not disabled meanwhile: it would lose the focus
    loading = true;
    say($("explore-status"), "Loading…", "unseen");
    try {
      const next = await api.cell(prefix, { children: PAGE, faces: FACES, start });
      if (!button.isConnected) return;
      for (const child of next.children) labels.set(child.prefix, child.label);
      const cells = next.children.map(link);
      $("cells").append(...cells);
      start += cells.length;
      say($("explore-status"), `${start} of ${next.children_total} cells`, "unseen");
      if (document.activeElement === button) cells[0]?.focus();
      if (start >= next.children_total || !cells.length) button.remove();
    } catch (error) {
      if (button.isConnected) say($("explore-status"), error.message, "wrong");
    } finally {
      loading = false;
    }
  });
  $("cell-items").replaceChildren(make("p", { class: "centre" }, button));
}

function all(found) {
  const cards = found.items.map((item) => card(item, {
    similar: () => { location.hash = `#/search?${new URLSearchParams({ near: item.id })}`; },
  }));
  const title = found.count > found.items.length ? `Some of the ${items(found.count)} here` : "What is here";
  $("cell-items").replaceChildren(make("h2", { text: title }), make("ol", { class: "grid" }, ...cards));
}
