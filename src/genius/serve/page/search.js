// The search view: words, a picture or both; or more like an item.

import * as api from "./api.js";
import { card, tile } from "./cards.js";
import { $, count, ghosts, make, say } from "./dom.js";
import { preview, showChosen, watchPictures } from "./picture.js";
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
  if ($("text").value.trim() && !near) parts.set("q", $("text").value.trim());
  if (near) parts.set("near", near);
  if (wanted()) parts.set("want", wanted());
  if ($("instruction").value.trim()) parts.set("i", $("instruction").value.trim());
  return `#/search${parts.size ? `?${parts}` : ""}`;
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

/** Set the form to what an address says, and search. A picture is not in an address, and stays. */
export function show(parts) {
  const query = parts.get("q") ?? "";
  if (parts.get("near") !== near) takeNear(parts.get("near"));
  if (!near && (query || !picture)) $("text").value = query;
  $("instruction").value = parts.get("i") ?? "";
  const radio = document.querySelector(`input[name=want][value="${CSS.escape(parts.get("want") ?? "")}"]`);
  if (radio) radio.checked = true;
  run();
}

function takeNear(id) {
  near = id;
  if (!id) {
    showChosen(null);
    return;
  }
  picture = null;
  $("text").value = "";
  showChosen(make("span", { class: "like", text: "like this" }), "an item", clearChosen);
  api.item(id).then((found) => {
    if (near === id) showChosen(tile(found, 96), found.text || found.id, clearChosen);
  }).catch(() => {});
}

function takePicture(file) {
  if (location.hash.startsWith("#/explore")) location.hash = "#/search";
  near = null;
  picture = file;
  last = null;
  showChosen(preview(file), "the picture", clearChosen);
  submit();
}

function clearChosen() {
  picture = null;
  near = null;
  last = null;
  showChosen(null);
  $("text").focus();
  submit();
}

/** Search by what the form says; the address says it, too, so that one can go back. */
function submit() {
  const here = address();
  if (location.hash === here) run();
  else location.hash = here;
}

async function run() {
  const fields = asked();
  const key = JSON.stringify([fields, picture && [picture.name, picture.size, picture.lastModified]]);
  if (key === last) return;
  last = key;
  running?.abort();
  running = null;
  if (!fields.text && !fields.near && !picture) {
    welcome();
    return;
  }
  const mine = (running = new AbortController());
  say($("search-status"), "");
  $("results").classList.remove("welcome");
  $("results").setAttribute("aria-busy", "true");
  $("results").replaceChildren(...ghosts(12, "tall"));
  try {
    const found = await api.search(fields, picture, mine.signal);
    if (mine === running) present(found, explaining(fields, picture));
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
async function welcome() {
  say($("search-status"), "");
  $("results").replaceChildren();
  try {
    const some = await api.cell("", { children: 0, samples: 24 });
    if (running || last !== JSON.stringify([asked(), null])) return;
    if (!some.count) {
      say($("search-status"), "The collection is empty: add items, and they can be found at once.", "empty");
      return;
    }
    say($("search-status"), "Some of what is here. Search for it, or explore the collection by its codes.");
    $("results").classList.add("welcome");
    $("results").replaceChildren(...some.items.map((item) => card(item, {
      similar: () => { location.hash = `#/search?${new URLSearchParams({ near: item.id })}`; },
    })));
  } catch (error) {
    last = null;
    say($("search-status"), error.message, "wrong", { text: "Try again", run });
  }
}

export function start() {
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    if (near && $("text").value.trim()) takeNear(null);
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
      $("text").focus();
    }
  });
}
