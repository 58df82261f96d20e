// The search view: words, a picture or both; or more like an item.

import * as api from "./api.js";
import { card, tile } from "./cards.js";
import { $, count, follow, ghosts, make, say } from "./dom.js";
import { keep, pictureCalled, preview, showChosen, watchPictures } from "./picture.js";
import { openWhy } from "./why.js";

const HITS = 24;
let picture = null;
let near = null;
let running = null;
let last = null;

const wanted = () => document.querySelector("input[name=want]:checked").value;

/** What the form says, as an address can hold it. */
function address() {
  const parts = new URLSearchParams();
  const query = { q: $("text").value.trim(), picture, i: $("instruction").value.trim() };
  for (const [name, value] of Object.entries({ ...(near ? { near } : query), want: wanted() })) {
    if (value) parts.set(name, value);
  }
  return `#/search${`${parts}` ? `?${parts}` : ""}`; // older browsers know no `size`
}

function asked() {
  const fields = { k: HITS };
  const text = $("text").value.trim();
  if (near) fields.near = near;
  else if (text) fields.text = text;
  if (wanted()) fields.want = wanted();
  if ($("instruction").value.trim() && !near) fields.instruction = $("instruction").value.trim();
  return fields;
}

/** Set the form to what an address says, and search. */
export function show(parts) {
  const name = parts.get("picture");
  choose(parts.get("near") || null, pictureCalled(name) && name);
  $("text").value = near ? "" : parts.get("q") ?? "";
  $("instruction").value = near ? "" : parts.get("i") ?? "";
  const radio = document.querySelector(`input[name=want][value="${CSS.escape(parts.get("want") ?? "")}"]`);
  if (radio) radio.checked = true;
  if (name !== picture) history.replaceState(null, "", address()); // a reload has lost the picture
  run();
}

/** Search by an item, by a picture or by neither, and show it. */
function choose(id, name) {
  if (id === near && name === picture) return;
  near = id;
  picture = id ? null : name;
  $("instruction").disabled = Boolean(near);
  if (near) showNear(near);
  else if (picture) showChosen(preview(pictureCalled(picture)), "the picture", clearChosen);
  else showChosen(null);
}

function showNear(id) {
  showChosen(make("span", { class: "like", text: "like this" }), "an item", clearChosen);
  api.item(id).then((found) => {
    if (near === id) showChosen(tile(found, 96), found.text || found.id, clearChosen);
  }).catch(() => {});
}

function takePicture(file) {
  choose(null, keep(file));
  submit();
}

function clearChosen() {
  choose(null, null);
  $("text").focus();
  submit();
}

/** Search by what the form says; the address says it, too, so that one can go back. */
function submit() {
  const here = address();
  if (location.hash === here) run();
  else location.hash = here;
}

/** Search, unless it is what was searched last. */
function run() {
  const key = JSON.stringify([asked(), picture]);
  if (key !== last) {
    last = key;
    find(asked(), pictureCalled(picture));
  }
  follow($("search-status"));
}

async function find(fields, file) {
  running?.abort();
  const mine = (running = new AbortController());
  const nothing = !fields.text && !fields.near && !file;
  say($("search-status"), nothing ? "Loading…" : "Searching…");
  $("results").setAttribute("aria-busy", "true");
  $("results").replaceChildren(...ghosts(nothing ? 0 : 12, "tall"));
  try {
    const found = nothing
      ? await api.cell("", { samples: HITS, signal: mine.signal })
      : await api.search(fields, file, mine.signal);
    if (mine !== running) return;
    if (nothing) welcome(found);
    else present(found, explaining(fields, file));
  } catch (error) {
    if (error.name === "AbortError" || mine !== running) return;
    last = null;
    $("results").replaceChildren();
    say($("search-status"), error.message, "wrong", { text: "Try again", run });
  } finally {
    if (mine === running) $("results").removeAttribute("aria-busy");
  }
}

/** The path to a hit, which takes a search of its own: for all hits at once, when the first is looked at. */
function explaining(fields, file) {
  let asked = null;
  return async (id) => {
    asked ??= api.search({ ...fields, explain: true }, file).catch((error) => {
      asked = null;
      throw error;
    });
    return (await asked).hits.find((hit) => hit.item.id === id);
  };
}

function present(found, explain) {
  const cards = found.hits.map((hit) => card(hit.item, {
    hit,
    why: () => openWhy(hit, explain),
    similar: () => { location.hash = `#/search?${new URLSearchParams({ near: hit.item.id })}`; },
  }));
  $("results").replaceChildren(...cards);
  const number = found.hits.length;
  const message = number ? `${count(number, "item", "items")}, best first` : "Nothing was found. Perhaps with other words, or Anything?";
  say($("search-status"), [message, ...found.notes].join(" · "), number ? "" : "empty");
}

/** Before a search: some of what there is. */
function welcome(some) {
  if (!some.count) {
    say($("search-status"), "The collection is empty: add items, and they can be found at once.", "empty");
    return;
  }
  say($("search-status"), "Some of what is here. Search for it, or explore the collection by its codes.");
  $("results").replaceChildren(...some.items.map((item) => card(item, {
    similar: () => { location.hash = `#/search?${new URLSearchParams({ near: item.id })}`; },
  })));
}

export function start() {
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    if (near && $("text").value.trim()) choose(null, null);
    last = null;
    submit();
  });
  for (const radio of document.querySelectorAll("input[name=want]")) radio.addEventListener("change", submit);
  watchPictures(takePicture);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, dialog");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      if (!location.hash.startsWith("#/search")) location.hash = "#/search";
      $("search").hidden = false; // what is hidden can't have the focus, and the address is read later
      $("text").focus();
    }
  });
}
