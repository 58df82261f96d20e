// Explore: the collection as a tree of codes, from coarse to fine.

import * as api from "./api.js";
import { card, mosaic } from "./cards.js";
import { $, ghosts, items, make, MODALITIES, say } from "./dom.js";
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
    text: nameOf(place),
    "aria-current": number === places.length - 1 ? "page" : null,
  })));
  $("crumbs").replaceChildren(make("ol", {}, ...(prefix ? links : [])));
}

export async function show(prefix) {
  running?.abort();
  const mine = (running = new AbortController());
  crumbs(prefix);
  say($("explore-status"), "");
  $("cell-head").replaceChildren();
  $("cell-items").replaceChildren();
  $("cells").setAttribute("aria-busy", "true");
  $("cells").replaceChildren(...ghosts(8, "wide"));
  try {
    const found = await api.cell(prefix, { children: PAGE, samples: prefix ? FEW : 6, signal: mine.signal });
    if (mine === running) present(prefix, found);
    await nameAncestors(prefix, mine);
  } catch (error) {
    if (error.name === "AbortError" || mine !== running) return;
    $("cells").replaceChildren();
    say($("explore-status"), error.message, "wrong", { text: "Try again", run: () => show(prefix) });
  } finally {
    if (mine === running) $("cells").removeAttribute("aria-busy");
  }
}

/** Who comes by a link has not seen the cells above. */
async function nameAncestors(prefix, mine) {
  const codes = prefix.split("-");
  for (let depth = 2; depth < codes.length; depth += 1) {
    const place = codes.slice(0, depth).join("-");
    if (!labels.has(place)) {
      const found = await api.cell(place, { children: 0, samples: 0, signal: mine.signal });
      labels.set(place, found.label);
    }
  }
  if (mine === running) crumbs(prefix);
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
  if (!found.count) say($("explore-status"), "There is nothing under this code.", "empty");
  if (prefix && found.count && (found.count <= FEW || !found.children_total)) all(found);
}

function head(prefix, found) {
  const code = prefix ? make("span", { class: "code", text: prefix.replaceAll("-", " – ") }) : null;
  const finer = found.children_total ? `, in ${found.children_total.toLocaleString("en")} ${found.children_total === 1 ? "cell" : "cells"}` : "";
  const lead = prefix
    ? `${items(found.count)}${finer}`
    : "Every item has a code, from coarse to fine. Walk down: each step keeps what is more alike.";
  $("cell-head").replaceChildren(make("h1", { text: nameOf(prefix) }), make("p", { class: "lead" }, code, make("span", { text: lead })));
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
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const next = await api.cell(prefix, { children: PAGE, samples: 6, start });
      for (const child of next.children) labels.set(child.prefix, child.label);
      $("cells").append(...next.children.map(link));
      start += next.children.length;
      button.disabled = false;
      if (start >= next.children_total || !next.children.length) button.remove();
    } catch (error) {
      button.disabled = false;
      say($("explore-status"), error.message, "wrong");
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
