// Explore: the collection as a whole, in albums, and what is double or odd in it; codes are another way in.

import { addressOf } from "./address.js";
import * as api from "./api.js";
import { card, mosaic } from "./cards.js";
import { $, capital, count, ghosts, items, make, moveFocus, say, setTitle } from "./dom.js";
import { leave as leaveCells, show as showCells } from "./explore.js";

const ALBUMS = 30; // albums of a collection
const PAGE = 48; // items of an album shown at a time
const SAMPLE = 48;
const PATIENCE = 10_000; // milliseconds after which the page says that it may take longer
const PREFIX = /^(?:(?:\*|\d+)(?:-\d+)*)?$/;
const WAYS = [["", "Albums"], ["duplicates", "Duplicates"], ["outliers", "Odd ones out"], ["sample", "Sample"], ["codes", "Codes"]];
const LEVELS = [["exact", "The same bytes"], ["same", "The same picture"], ["near", "Near shots"]];
const KINDS = [["spread", "Spread out"], ["typical", "Typical"], ["per-cell", "From every cell"]];
let running = null; // the controller of the request under way
let shown = null; // the address that is shown or being loaded
let seen = []; // albums, by which one of them is named before it is loaded

const pathOf = (way) => (way ? `/explore/${way}` : "/explore");

/** The part of a path behind `/explore/`, decoded; null if that can't be done. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return null; // a percent sign without a valid code behind it
  }
}

/** Show what an address names: a way to explore, an album, or a prefix of codes. */
export function show(path, parameters) {
  const text = decoded(path);
  const [way] = WAYS.find(([name]) => name === text) ?? [text?.startsWith("album/") ? "" : "codes"];
  showWays(way);
  if (way === "codes") {
    running?.abort();
    running = shown = null;
    const prefix = text === "codes" ? "" : text;
    showCells(prefix !== null && PREFIX.test(prefix) ? prefix : null);
    return;
  }
  leaveCells();
  const views = { "": showAlbums, duplicates: showDuplicates, outliers: showOutliers, sample: showSample };
  const album = text.startsWith("album/") ? text.slice("album/".length) : null;
  load(text, parameters, album === null ? views[way] : (signal) => showAlbum(album, parameters.get("within"), signal));
}

function showWays(current) {
  const links = WAYS.map(([way, name]) => make("li", {}, make("a", {
    href: `#${pathOf(way)}`, text: name, "aria-current": way === current ? "page" : null,
  })));
  $("views").replaceChildren(make("ol", {}, ...links));
}

/** Load a view and show it; `present` gets a signal to stop and the parameters. */
async function load(text, parameters, present) {
  const own = new URLSearchParams(parameters);
  own.delete("item"); // an item that is opened or closed changes nothing here
  const address = `${text}?${own}`;
  if (address === shown) {
    setTitle(`${$("cell-head").querySelector("h1")?.textContent ?? "Albums"} · Explore`);
    return;
  }
  shown = address;
  window.scrollTo(0, 0);
  running?.abort();
  const controller = (running = new AbortController());
  clear();
  $("cells").setAttribute("aria-busy", "true");
  $("cells").replaceChildren(...ghosts(8, "wide", "div"));
  say($("explore-status"), "Looking through the collection…");
  moveFocus($("explore-status"));
  const waiting = setTimeout(() => {
    if (controller === running) say($("explore-status"), "Still looking: this may take minutes, and is kept then…");
  }, PATIENCE);
  try {
    await present(controller.signal, own);
    if (controller === running) moveFocus($("cell-head").firstChild, $("explore-status"));
  } catch (error) {
    if (error.name === "AbortError" || controller !== running) return;
    clear();
    shown = null;
    say($("explore-status"), error.message, "wrong", { text: "Try again", run: () => show(text, parameters) });
    moveFocus($("explore-status"));
  } finally {
    clearTimeout(waiting);
    if (controller === running) $("cells").removeAttribute("aria-busy");
  }
}

function clear() {
  for (const id of ["crumbs", "cell-head", "cells", "cell-items"]) $(id).replaceChildren();
  $("cells").removeAttribute("aria-busy");
}

/** The heading of a view, with a sentence below it, links to choose between, and a message for screen readers. */
function head(title, lead, choices = null) {
  const heading = make("h1", { tabindex: -1, text: title });
  $("cell-head").replaceChildren(heading, make("p", { class: "lead", text: lead }), ...(choices ? [choices] : []));
  $("cells").replaceChildren();
  say($("explore-status"), lead, "unseen");
  setTitle(`${title} · Explore`);
}

/** Links to the same view with another value of a parameter. */
function choices(way, name, values, current, label) {
  const links = values.map(([value, text]) => make("a", {
    href: addressOf(pathOf(way), new URLSearchParams({ [name]: value })),
    class: "quiet", text, "aria-current": value === current ? "true" : null,
  }));
  return make("p", { class: "choices", role: "group", "aria-label": label }, ...links);
}

const nameOf = (album, place) => album.label || `Album ${place + 1}`;

function albumLink(album, place, within) {
  const parameters = new URLSearchParams(within ? { within } : {});
  return make(
    "a",
    { class: "cell", href: addressOf(`/explore/album/${encodeURIComponent(album.id)}`, parameters), "data-album": album.id },
    mosaic(album.covers, 192),
    make("span", { class: "label", text: nameOf(album, place) }),
    make("span", { class: "small" }, make("span", { text: items(album.size) })),
  );
}

async function showAlbums(signal) {
  const answer = await api.collection("albums", { n: ALBUMS }, signal);
  seen = answer.albums;
  if (!answer.albums.length) {
    head("Albums", "There is nothing here yet.");
    return;
  }
  head("Albums", `${count(answer.albums.length, "album", "albums")} of what belongs together.`);
  $("cells").replaceChildren(...answer.albums.map((album, place) => albumLink(album, place)));
}

async function showAlbum(id, within, signal) {
  const parameters = { n: ALBUMS, limit: PAGE, ...(within ? { within } : {}) };
  const path = `albums/${encodeURIComponent(id)}`;
  const album = await api.collection(path, parameters, signal);
  if (!seen.length) seen = (await api.collection("albums", { n: ALBUMS }, signal)).albums;
  const outer = seen.findIndex((known) => known.id === (within ?? id));
  const siblings = within ? seen[outer]?.albums ?? [] : seen;
  const title = nameOf(album, siblings.findIndex((known) => known.id === id));
  const crumbs = [["#/explore", "Albums"]];
  if (within && outer >= 0) crumbs.push([`#/explore/album/${encodeURIComponent(within)}`, nameOf(seen[outer], outer)]);
  const links = crumbs.map(([href, text]) => make("li", {}, make("a", { href, text })));
  $("crumbs").replaceChildren(make("ol", {}, ...links, make("li", {}, make("a", { text: title, "aria-current": "page" }))));
  head(title, items(album.size));
  $("cells").replaceChildren(...album.albums.map((inner, place) => albumLink(inner, place, id)));
  showItems(album, path, parameters);
}

/** The items of an album, page by page. */
function showItems(album, path, parameters) {
  const grid = make("ol", { class: "grid" }, ...album.items.map((item) => card(item)));
  const button = make("button", { type: "button", class: "quiet", text: "Show more" });
  let start = album.items.length;
  let loading = false;
  button.addEventListener("click", async () => {
    if (loading) return; // the button is not disabled meanwhile, as it would lose the focus
    loading = true;
    try {
      const next = await api.collection(path, { ...parameters, start });
      if (!button.isConnected) return;
      const cards = next.items.map((item) => card(item));
      grid.append(...cards);
      start += PAGE;
      say($("explore-status"), `${grid.childElementCount} of ${items(album.size)}`, "unseen");
      cards[0]?.querySelector("a")?.focus();
      if (start >= album.size) button.remove();
    } catch (error) {
      if (button.isConnected) say($("explore-status"), error.message, "wrong");
    } finally {
      loading = false;
    }
  });
  const more = start < album.size ? make("p", { class: "centre" }, button) : null;
  const title = album.albums.length ? make("h2", { text: "All of it" }) : null;
  $("cell-items").replaceChildren(...[title, grid, more].filter(Boolean));
}

async function showDuplicates(signal, parameters) {
  const level = parameters.get("level") ?? "same";
  const answer = await api.collection("duplicates", { level, limit: 100 }, signal);
  const lead = answer.total
    ? `${count(answer.total, "group", "groups")} of items that may be one too many. Nothing is removed here.`
    : "Nothing is here twice.";
  head("Duplicates", lead, choices("duplicates", "level", LEVELS, level, "How alike"));
  const groups = answer.groups.map((group) => {
    const cards = [...group.items]
      .sort((one, other) => (other.id === group.keep) - (one.id === group.keep))
      .map((item) => {
        const element = card(item);
        if (item.id === group.keep) element.append(make("span", { class: "badge", text: "Keep", title: "the largest and oldest" }));
        return element;
      });
    const title = `${items(group.items.length)}, similarity ${group.similarity.toFixed(3)}`;
    return make("section", { class: "group" }, make("h2", { text: title }), make("ol", { class: "grid" }, ...cards));
  });
  $("cell-items").replaceChildren(...groups);
}

async function showOutliers(signal) {
  const answer = await api.collection("outliers", { n: PAGE }, signal);
  const lead = answer.outliers.length
    ? "What is far from everything else, has a text that does not fit, or a picture that looks broken."
    : "Nothing looks odd here.";
  head("Odd ones out", [lead, ...answer.notes.map((note) => `Note: ${note}.`)].join(" "));
  const cards = answer.outliers.map(({ item, says }) => {
    const element = card(item);
    element.querySelector(".open").after(make("p", { class: "reason", text: capital(says) }));
    return element;
  });
  $("cell-items").replaceChildren(make("ol", { class: "grid" }, ...cards));
}

async function showSample(signal, parameters) {
  const kind = parameters.get("kind") ?? "spread";
  const seed = Number.parseInt(parameters.get("seed") ?? "0", 10) || 0;
  const answer = await api.collection("sample", { n: SAMPLE, kind, seed }, signal);
  const links = choices("sample", "kind", KINDS, kind, "What kind of sample");
  const next = new URLSearchParams({ kind, seed: seed + 1 });
  links.append(make("a", { class: "quiet", href: addressOf(pathOf("sample"), next), text: "Another one" }));
  head("A sample", `${items(answer.items.length)} that stand for all.`, links);
  $("cell-items").replaceChildren(make("ol", { class: "grid" }, ...answer.items.map((item) => card(item))));
}
